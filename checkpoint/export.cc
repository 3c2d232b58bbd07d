#include "checkpoint/export.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "nlohmann/json.hpp"

#include "base/status_macros.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_bundle.h"
#include "checkpoint/whole_directory.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

// A variable's values or slot and how they are written, or its step count.
struct Exported {
  CheckpointReader::Numbers numbers;
  NumberFormat format;
  absl::optional<int64_t> step = absl::nullopt;  // A scalar, instead.

  bool is_value() const { return numbers.slot.empty() && !step.has_value(); }
  bool is_int64() const { return step.has_value() || numbers.are_integers(); }
  uint64_t bytes() const {
    if (step.has_value()) return sizeof(*step);
    return numbers.bytes() / sizeof(float) * BytesOf(format);
  }
  std::vector<uint64_t> shape() const {
    if (step.has_value()) return {};
    return numbers.shape();
  }
};

absl::string_view SafetensorsNameOf(const Exported& tensor) {
  if (tensor.is_int64()) return "I64";
  switch (tensor.format) {
    case NumberFormat::kFp32:
      return "F32";
    case NumberFormat::kBf16:
      return "BF16";
    case NumberFormat::kFp16:
      return "F16";
  }
  return "";
}

// How many finite numbers are infinite in that format.
uint64_t Overflowed(const Buffer& numbers, const Buffer& encoded,
                    NumberFormat format) {
  if (format == NumberFormat::kFp32) return 0;
  const uint16_t infinite = format == NumberFormat::kBf16 ? 0x7f80 : 0x7c00;
  uint64_t count = 0;
  for (size_t i = 0; i * sizeof(float) < numbers.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, encoded.bytes().data() + i * sizeof(bits), sizeof(bits));
    if ((bits & 0x7fff) != infinite) continue;
    float number;
    std::memcpy(&number, numbers.bytes().data() + i * sizeof(number),
                sizeof(number));
    count += std::isfinite(number);
  }
  return count;
}

uint64_t Zeros(const Buffer& numbers) {
  uint64_t count = 0;
  for (size_t i = 0; i + sizeof(float) <= numbers.size(); i += sizeof(float)) {
    float number;
    std::memcpy(&number, numbers.bytes().data() + i, sizeof(number));
    count += number == 0;
  }
  return count;
}

// How often the blocks of a variable were updated: the least and the most.
std::pair<uint64_t, uint64_t> UpdatesOf(const SliceIndex::Entry& entry) {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  uint64_t most = 0;
  for (const SliceIndex::Saved& saved : entry.saved) {
    for (const v1::AppliedRun& run : saved.slice->applied()) {
      least = std::min(least, run.applied());
      most = std::max(most, run.applied());
    }
  }
  return {std::min(least, most), most};
}

// One export on its way into a directory that nobody else knows.
class Exporter {
 public:
  Exporter(CheckpointReader* reader, const ExportOptions& options,
           std::string directory, ExportResult* result)
      : reader_(reader),
        options_(options),
        directory_(std::move(directory)),
        result_(result) {
    // First those of eight bytes, so that all lie where readers want them.
    for (const SliceIndex::Entry& entry : reader->index().entries()) {
      if (!options.slots) continue;
      const auto [least, most] = UpdatesOf(entry);
      result->uneven += least < most;
      slots_.push_back(
          {{&entry, "step"}, NumberFormat::kFp32, static_cast<int64_t>(most)});
    }
    // Without its keys nobody could tell what a row is. Counts of keys without
    // one are of training.
    for (const SliceIndex::Entry& entry : reader->index().entries()) {
      for (const Slot& slot : SlotsOf(reader->manifest(), *entry.variable)) {
        if (slot.name == kSketchSlot) continue;
        const Exported exported = {{&entry, std::string(slot.name)},
                                   NumberFormat::kFp32};
        if (exported.is_int64()) values_.push_back(exported);
      }
    }
    for (const SliceIndex::Entry& entry : reader->index().entries()) {
      values_.push_back({{&entry, ""}, options.dtype});
      if (!options.slots) continue;
      for (const Slot& slot : SlotsOf(reader->manifest(), *entry.variable)) {
        if (slot.dtype == v1::INT64) continue;
        slots_.push_back(
            {{&entry, std::string(slot.name)}, NumberFormat::kFp32});
      }
    }
    for (const auto* exported : {&values_, &slots_}) {
      for (const Exported& tensor : *exported) {
        result->bytes += tensor.bytes();
        ++result->tensors;
      }
    }
  }

  absl::Status Run() {
    if (options_.layout == ExportOptions::Layout::kTensorBundle) {
      return WriteBundle();
    }
    RETURN_IF_ERROR(WriteModel("model", values_));
    return options_.slots ? WriteModel("optimizer", slots_) : absl::OkStatus();
  }

 private:
  // Hands over the tensor's bytes as they are written.
  absl::Status Stream(
      const Exported& tensor,
      const std::function<absl::Status(absl::Span<const std::byte>)>& write) {
    if (tensor.step.has_value()) return write(AsBytes<int64_t>({*tensor.step}));
    return reader_->ForEachPiece(
        tensor.numbers, [&](const Buffer& piece) -> absl::Status {
          const Buffer encoded = Encoded(piece, tensor.format);
          result_->overflowed += Overflowed(piece, encoded, tensor.format);
          if (tensor.is_value()) {
            result_->numbers += piece.size() / sizeof(float);
            result_->zeros += Zeros(piece);
          }
          RETURN_IF_ERROR(write(encoded.bytes()));
          if (options_.progress) {
            options_.progress(reader_->read_bytes(), reader_->total_bytes());
          }
          return absl::OkStatus();
        });
  }

  absl::Status WriteFile(const std::string& name,
                         absl::Span<const Exported> tensors) {
    std::vector<TensorInfo> infos;
    uint64_t end = 0;
    for (const Exported& tensor : tensors) {
      const uint64_t begin = end;
      end += tensor.bytes();
      infos.push_back({tensor.numbers.name(),
                       std::string(SafetensorsNameOf(tensor)), tensor.shape(),
                       begin, end});
    }
    ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(infos));
    ASSIGN_OR_RETURN(const auto file, Create(name));
    RETURN_IF_ERROR(file->Append(header));
    for (const Exported& tensor : tensors) {
      RETURN_IF_ERROR(Stream(tensor, [&](absl::Span<const std::byte> bytes) {
        return file->Append(bytes);
      }));
    }
    return file->Finish();
  }

  // How many of the tensors from `first` on go into one file.
  size_t CountForOneFile(absl::Span<const Exported> tensors) const {
    uint64_t bytes = 0;
    size_t count = 0;
    for (; count < tensors.size(); ++count) {
      bytes += tensors[count].bytes();
      if (count > 0 && bytes > options_.max_shard_bytes) break;
    }
    return count;
  }

  // `name`.safetensors, or several files and their index.
  absl::Status WriteModel(const std::string& name,
                          const std::vector<Exported>& tensors) {
    std::vector<absl::Span<const Exported>> files;
    uint64_t bytes = 0;
    for (absl::Span<const Exported> left = tensors; !left.empty();) {
      files.push_back(left.first(CountForOneFile(left)));
      left.remove_prefix(files.back().size());
    }
    if (files.size() <= 1) {
      return WriteFile(absl::StrCat(name, ".safetensors"), tensors);
    }
    std::map<std::string, std::string> weight_map;
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string file = absl::StrFormat("%s-%05d-of-%05d.safetensors",
                                               name, i + 1, files.size());
      RETURN_IF_ERROR(WriteFile(file, files[i]));
      for (const Exported& tensor : files[i]) {
        weight_map[tensor.numbers.name()] = file;
        bytes += tensor.bytes();
      }
    }
    const nlohmann::json index = {{"metadata", {{"total_size", bytes}}},
                                  {"weight_map", weight_map}};
    ASSIGN_OR_RETURN(const auto file,
                     Create(absl::StrCat(name, ".safetensors.index.json")));
    RETURN_IF_ERROR(file->Append(absl::StrCat(index.dump(2), "\n")));
    return file->Finish();
  }

  absl::Status WriteBundle() {
    ASSIGN_OR_RETURN(const auto bundle, TensorBundleWriter::Create(directory_));
    for (const auto* exported : {&values_, &slots_}) {
      for (const Exported& tensor : *exported) {
        RETURN_IF_ERROR(bundle->Begin({tensor.numbers.name(), tensor.format,
                                       tensor.shape(), tensor.is_int64()}));
        RETURN_IF_ERROR(Stream(tensor, [&](absl::Span<const std::byte> bytes) {
          return bundle->Append(bytes);
        }));
      }
    }
    return bundle->Finish();
  }

  absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& name) {
    return NewFile::Create(absl::StrCat(directory_, "/", name));
  }

  CheckpointReader* const reader_;
  const ExportOptions& options_;
  const std::string directory_;
  ExportResult* const result_;
  std::vector<Exported> values_;
  std::vector<Exported> slots_;
};

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() !=
         std::filesystem::file_type::not_found;
}

}  // namespace

absl::StatusOr<ExportResult> ExportCheckpoint(CheckpointReader* reader,
                                              const ExportOptions& options) {
  ExportResult result;
  ASSIGN_OR_RETURN(result.directory, AbsolutePath(options.to));
  if (Exists(result.directory)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "'", result.directory, "' exists; an export makes a new directory"));
  }
  ASSIGN_OR_RETURN(
      result.files,
      MakeWholeDirectory(
          result.directory, [&](const std::string& directory) -> absl::Status {
            RETURN_IF_ERROR(
                Exporter(reader, options, directory, &result).Run());
            return reader->Finish(options.progress);
          }));
  return result;
}

}  // namespace paramd
