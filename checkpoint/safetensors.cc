#include "checkpoint/safetensors.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "base/check.h"
#include "base/lfs_pointer.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostReadBytes = uint64_t{4} << 20;

// Bits of an element; 0 if the format has no such dtype.
uint64_t DTypeBits(absl::string_view dtype) {
  static const auto* const bits =
      new absl::flat_hash_map<absl::string_view, uint64_t>{
          {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6},
          {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
          {"F8_E5M2", 8},     {"F8_E4M3", 8},     {"F8_E8M0", 8},
          {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
          {"U16", 16},        {"F16", 16},        {"BF16", 16},
          {"I32", 32},        {"U32", 32},        {"F32", 32},
          {"C64", 64},        {"F64", 64},        {"I64", 64},
          {"U64", 64}};
  const auto found = bits->find(dtype);
  return found == bits->end() ? 0 : found->second;
}

bool IsLfsPointer(const ReadableFile& file) {
  char begin[kLfsPointerBegin.size()];
  return file.size() < kMostLfsPointerBytes &&
         file.ReadAt(0, AsWritableBytes(absl::MakeSpan(begin))).ok() &&
         absl::string_view(begin, sizeof(begin)) == kLfsPointerBegin;
}

absl::Status Bad(const TensorInfo& tensor, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      "tensor '", absl::Utf8SafeCHexEscape(tensor.name), "' ", what));
}

// Whether the tensor by itself is what the format allows.
absl::Status CheckTensor(const TensorInfo& tensor) {
  if (tensor.name.empty() || tensor.name.size() > kMaxTensorNameBytes) {
    return absl::DataLossError(
        absl::StrCat("a tensor's name has ", tensor.name.size(),
                     " bytes; 1 to ", kMaxTensorNameBytes, " are allowed"));
  }
  if (tensor.shape.size() > kMaxTensorRank) {
    return Bad(tensor, absl::StrCat("has ", tensor.shape.size(),
                                    " dimensions; at most ", kMaxTensorRank,
                                    " are allowed"));
  }
  uint64_t bits = DTypeBits(tensor.dtype);
  if (bits == 0) {
    return Bad(tensor,
               absl::StrCat("has the unknown dtype '",
                            absl::Utf8SafeCHexEscape(tensor.dtype), "'"));
  }
  for (const uint64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(bits, dimension, &bits)) {
      return Bad(tensor, absl::StrCat("has the shape ",
                                      absl::StrJoin(tensor.shape, "x"),
                                      ", more than 64 bits can count"));
    }
  }
  if (tensor.end < tensor.begin || bits % 8 != 0 ||
      tensor.end - tensor.begin != bits / 8) {
    return Bad(tensor, absl::StrCat("has offsets [", tensor.begin, ", ",
                                    tensor.end, "); its shape and dtype make ",
                                    bits / 8, " bytes"));
  }
  return absl::OkStatus();
}

// Whether tensors that are sorted by offset leave no byte to none or two.
absl::Status CheckLayout(absl::Span<const TensorInfo> tensors,
                         uint64_t data_bytes) {
  uint64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != end) {
      return Bad(tensor, absl::StrCat("begins at byte ", tensor.begin,
                                      "; the one before ends at byte ", end));
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    return absl::DataLossError(absl::StrCat("the tensors have ", end,
                                            " bytes; ", data_bytes,
                                            " follow the header"));
  }
  return absl::OkStatus();
}

// Takes the header's JSON as events, so that a name that stands twice is seen
// and nothing is built but the list of tensors. Knows one grammar only:
//   {"__metadata__": {string: string…}, NAME: {"dtype": string, "shape":
//    [unsigned…], "data_offsets": [unsigned, unsigned]}…}
class HeaderEvents {
 public:
  std::vector<TensorInfo>& tensors() { return tensors_; }
  SafetensorsMetadata& metadata() { return metadata_; }
  const std::string& error() const { return error_; }

  bool null() { return Fail("a null"); }
  bool boolean(bool) { return Fail("a boolean"); }
  bool number_integer(json::number_integer_t) {
    return Fail("a negative number");
  }
  bool number_float(json::number_float_t, const std::string&) {
    return Fail("a number that is not a 64-bit integer");
  }
  bool binary(json::binary_t&) { return Fail("binary data"); }

  bool number_unsigned(json::number_unsigned_t value) {
    if (place_ == Place::kShape) {
      if (tensors_.back().shape.size() > kMaxTensorRank) {
        return Fail("too many dimensions");
      }
      tensors_.back().shape.push_back(value);
      return true;
    }
    if (place_ == Place::kOffsets && offsets_ < 2) {
      (offsets_ == 0 ? tensors_.back().begin : tensors_.back().end) = value;
      ++offsets_;
      return true;
    }
    return Fail("a number");
  }

  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      metadata_[key_] = std::move(value);
      return true;
    }
    if (place_ == Place::kTensor && key_ == "dtype") {
      tensors_.back().dtype = std::move(value);
      return true;
    }
    return Fail("a string");
  }

  bool start_object(size_t) {
    if (place_ == Place::kBefore) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == "__metadata__") {
      place_ = Place::kMetadata;
      fields_.clear();
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      tensors_.emplace_back();
      tensors_.back().name = key_;
      fields_.clear();
    } else {
      return Fail("an object");
    }
    return true;
  }

  bool key(std::string& key) {
    if (place_ == Place::kTop) {
      if (!names_.insert(key).second) return Fail("a name that stands twice");
    } else {
      if (place_ == Place::kTensor && key != "dtype" && key != "shape" &&
          key != "data_offsets") {
        return Fail("an unknown key");
      }
      if (!fields_.insert(key).second) return Fail("a key that stands twice");
    }
    key_ = std::move(key);
    return true;
  }

  bool end_object() {
    if (place_ == Place::kTensor && fields_.size() != 3) {
      return Fail("a tensor without dtype, shape or data_offsets");
    }
    place_ = place_ == Place::kTop ? Place::kAfter : Place::kTop;
    return true;
  }

  bool start_array(size_t) {
    if (place_ != Place::kTensor || key_ == "dtype") return Fail("an array");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    offsets_ = 0;
    return true;
  }

  bool end_array() {
    if (place_ == Place::kOffsets && offsets_ != 2) {
      return Fail("data_offsets that are not two numbers");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const json::exception&) {
    error_ = absl::StrCat("is not JSON at byte ", position);
    return false;
  }

 private:
  enum class Place {
    kBefore,
    kTop,
    kMetadata,
    kTensor,
    kShape,
    kOffsets,
    kAfter
  };

  bool Fail(absl::string_view what) {
    error_ = absl::StrCat(
        "has ", what, " where the format has none",
        tensors_.empty()
            ? ""
            : absl::StrCat(", in or after tensor '",
                           absl::Utf8SafeCHexEscape(tensors_.back().name),
                           "'"));
    return false;
  }

  Place place_ = Place::kBefore;
  std::string key_;
  int offsets_ = 0;
  std::vector<TensorInfo> tensors_;
  SafetensorsMetadata metadata_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_set<std::string> fields_;
  std::string error_;
};

void AppendJsonString(absl::string_view text, std::string* out) {
  out->append(json(std::string(text)).dump());
}

}  // namespace

absl::StatusOr<std::string> EncodeSafetensorsHeader(
    absl::Span<const TensorInfo> tensors, const SafetensorsMetadata& metadata) {
  std::string header(kLengthBytes, '\0');
  header.append(R"({"__metadata__":{"format":"pt")");
  for (const auto& [key, value] : metadata) {
    header.push_back(',');
    AppendJsonString(key, &header);
    header.push_back(':');
    AppendJsonString(value, &header);
  }
  header.push_back('}');
  for (const TensorInfo& tensor : tensors) {
    header.push_back(',');
    try {
      AppendJsonString(tensor.name, &header);
    } catch (const json::exception&) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tensor name '", absl::CHexEscape(tensor.name),
                       "' is not UTF-8"));
    }
    absl::StrAppend(&header, R"(:{"dtype":")", tensor.dtype, R"(","shape":[)",
                    absl::StrJoin(tensor.shape, ","), R"(],"data_offsets":[)",
                    tensor.begin, ",", tensor.end, "]}");
  }
  header.push_back('}');
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t length = header.size() - kLengthBytes;
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    header[i] = static_cast<char>(length >> (8 * i));
  }
  // The reader is the judge of what the writer may write.
  const uint64_t data_bytes = tensors.empty() ? 0 : tensors.back().end;
  const auto read = ParseSafetensorsHeader(
      absl::string_view(header).substr(kLengthBytes), data_bytes);
  if (!read.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot be written as safetensors: ", read.status().message()));
  }
  return header;
}

absl::StatusOr<std::vector<TensorInfo>> ParseSafetensorsHeader(
    absl::string_view text, uint64_t data_bytes,
    SafetensorsMetadata* metadata) {
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("the header has ", text.size(), " bytes; at most ",
                     kMaxSafetensorsHeaderBytes, " are allowed"));
  }
  const size_t last = text.find_last_not_of(' ');
  if (last == absl::string_view::npos || text[0] != '{' || text[last] != '}') {
    return absl::DataLossError("the header is not a JSON object");
  }
  HeaderEvents events;
  if (!json::sax_parse(text.begin(), text.end(), &events)) {
    return absl::DataLossError(absl::StrCat("the header ", events.error()));
  }
  std::vector<TensorInfo> tensors = std::move(events.tensors());
  for (const TensorInfo& tensor : tensors) {
    RETURN_IF_ERROR(CheckTensor(tensor));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  RETURN_IF_ERROR(CheckLayout(tensors, data_bytes));
  if (metadata != nullptr) *metadata = std::move(events.metadata());
  return tensors;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file,
                   ReadableFile::Open(path));
  const auto damaged = [&path](absl::string_view why) {
    return absl::DataLossError(absl::StrCat("'", path, "': ", why));
  };
  if (file->size() < kLengthBytes) return damaged("the file has no header");
  unsigned char length_bytes[kLengthBytes];
  RETURN_IF_ERROR(
      file->ReadAt(0, absl::MakeSpan(reinterpret_cast<std::byte*>(length_bytes),
                                     kLengthBytes)));
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) {
    length = length << 8 | length_bytes[i];
  }
  // Checked before a byte is allocated for it.
  if (length > file->size() - kLengthBytes ||
      length > kMaxSafetensorsHeaderBytes) {
    if (IsLfsPointer(*file)) {
      return absl::FailedPreconditionError(LfsPointerSentence(path));
    }
    // Not the length: of a file of another kind these are its first bytes.
    return damaged(absl::StrCat("the header is longer than what the file has, ",
                                file->size(), " bytes"));
  }
  std::string header(length, '\0');
  RETURN_IF_ERROR(file->ReadAt(
      kLengthBytes,
      absl::MakeSpan(reinterpret_cast<std::byte*>(header.data()), length)));
  const uint64_t data_begin = kLengthBytes + length;
  SafetensorsMetadata metadata;
  auto tensors =
      ParseSafetensorsHeader(header, file->size() - data_begin, &metadata);
  if (!tensors.ok()) return damaged(tensors.status().message());
  return std::unique_ptr<SafetensorsFile>(new SafetensorsFile(
      std::move(file), data_begin, *std::move(tensors), std::move(metadata)));
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<ReadableFile> file,
                                 uint64_t data_begin,
                                 std::vector<TensorInfo> tensors,
                                 SafetensorsMetadata metadata)
    : file_(std::move(file)),
      data_begin_(data_begin),
      tensors_(std::move(tensors)),
      metadata_(std::move(metadata)) {
  by_name_.reserve(tensors_.size());
  for (const TensorInfo& tensor : tensors_) by_name_[tensor.name] = &tensor;
}

const TensorInfo* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

absl::Status SafetensorsFile::Read(const TensorInfo& tensor, uint64_t offset,
                                   uint64_t length, BufferChain* out) const {
  while (length > 0) {
    Buffer piece = Buffer::Allocate(std::min(length, kMostReadBytes));
    RETURN_IF_ERROR(ReadInto(tensor, offset, piece.mutable_bytes()));
    offset += piece.size();
    length -= piece.size();
    out->push_back(std::move(piece));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::ReadInto(const TensorInfo& tensor,
                                       uint64_t offset,
                                       absl::Span<std::byte> out) const {
  CHECK(offset <= tensor.end - tensor.begin &&
            out.size() <= tensor.end - tensor.begin - offset,
        "the range lies inside the tensor");
  return file_->ReadAt(data_begin_ + tensor.begin + offset, out);
}

}  // namespace paramd
