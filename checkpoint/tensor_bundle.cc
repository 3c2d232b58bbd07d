#include "checkpoint/tensor_bundle.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "checkpoint/sorted_table.h"

namespace paramd {
namespace {

constexpr char kPrefix[] = "ckpt";

// BundleHeaderProto: num_shards (1) = 1, version (3) = {producer (1) = 1}; the
// endianness (2) that is not written is the little one.
constexpr char kHeader[] = "\x08\x01\x1a\x02\x08\x01";

// Protocol buffers' wire types, in the low bits of a field's tag.
constexpr uint64_t kVarint = 0;
constexpr uint64_t kLengthDelimited = 2;
constexpr uint64_t kFixed32 = 5;

void AppendTag(uint64_t field, uint64_t wire_type, std::string* out) {
  AppendVarint(field << 3 | wire_type, out);
}

void AppendInteger(uint64_t field, uint64_t value, std::string* out) {
  AppendTag(field, kVarint, out);
  AppendVarint(value, out);
}

void AppendMessage(uint64_t field, const std::string& message,
                   std::string* out) {
  AppendTag(field, kLengthDelimited, out);
  AppendVarint(message.size(), out);
  out->append(message);
}

// A value of TensorFlow's DataType.
uint64_t DataTypeOf(const TensorBundleWriter::Tensor& tensor) {
  if (tensor.is_int64) return 9;
  switch (tensor.format) {
    case NumberFormat::kFp32:
      return 1;
    case NumberFormat::kBf16:
      return 14;
    case NumberFormat::kFp16:
      return 19;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorBundleWriter>> TensorBundleWriter::Create(
    const std::string& directory) {
  ASSIGN_OR_RETURN(auto data,
                   NewFile::Create(absl::StrCat(directory, "/", kPrefix,
                                                ".data-00000-of-00001")));
  return std::unique_ptr<TensorBundleWriter>(
      new TensorBundleWriter(directory, std::move(data)));
}

absl::Status TensorBundleWriter::Begin(const Tensor& tensor) {
  // The empty name is the header's.
  if (tensor.name.empty()) {
    return absl::InvalidArgumentError("a tensor has no name");
  }
  const auto [place, is_new] = entries_.try_emplace(tensor.name);
  if (!is_new) {
    return absl::InvalidArgumentError(
        absl::StrCat("two tensors have the name '", tensor.name, "'"));
  }
  current_ = &place->second;
  current_->tensor = tensor;
  current_->offset = data_->bytes();
  return absl::OkStatus();
}

absl::Status TensorBundleWriter::Append(absl::Span<const std::byte> bytes) {
  RETURN_IF_ERROR(data_->Append(bytes));
  current_->bytes += bytes.size();
  current_->crc32c = Crc32c(bytes, current_->crc32c);
  return absl::OkStatus();
}

std::string TensorBundleWriter::Encode(const Entry& entry) {
  std::string shape;
  for (const uint64_t size : entry.tensor.shape) {
    std::string dimension;
    AppendInteger(1, size, &dimension);
    AppendMessage(2, dimension, &shape);
  }
  std::string encoded;
  AppendInteger(1, DataTypeOf(entry.tensor), &encoded);
  AppendMessage(2, shape, &encoded);
  AppendInteger(4, entry.offset, &encoded);
  AppendInteger(5, entry.bytes, &encoded);
  AppendTag(6, kFixed32, &encoded);
  const uint32_t crc = MaskedCrc32c(entry.crc32c);
  for (int i = 0; i < 4; ++i) {
    encoded.push_back(static_cast<char>(crc >> (8 * i)));
  }
  return encoded;
}

absl::Status TensorBundleWriter::WriteIndex() const {
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(absl::StrCat(
                                        directory_, "/", kPrefix, ".index")));
  SortedTableWriter table(file.get());
  RETURN_IF_ERROR(table.Add("", {kHeader, sizeof(kHeader) - 1}));
  for (const auto& [name, entry] : entries_) {
    RETURN_IF_ERROR(table.Add(name, Encode(entry)));
  }
  RETURN_IF_ERROR(table.Finish());
  return file->Finish();
}

absl::Status TensorBundleWriter::Finish() {
  RETURN_IF_ERROR(data_->Finish());
  RETURN_IF_ERROR(WriteIndex());
  ASSIGN_OR_RETURN(const auto state,
                   NewFile::Create(absl::StrCat(directory_, "/checkpoint")));
  RETURN_IF_ERROR(state->Append(
      absl::StrCat("model_checkpoint_path: \"", kPrefix,
                   "\"\nall_model_checkpoint_paths: \"", kPrefix, "\"\n")));
  return state->Finish();
}

}  // namespace paramd
