#include "checkpoint/trained_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "nlohmann/json.hpp"

#include "base/lfs_pointer.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "config/optimizer_slots.h"
#include "tensor/number_reader.h"

namespace paramd {
namespace {

constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr uint64_t kMaxIndexBytes = uint64_t{256} << 20;

// Null if it is none that is read.
const NumberFormat* FormatOf(absl::string_view dtype) {
  static constexpr NumberFormat kFp32 = NumberFormat::kFp32;
  static constexpr NumberFormat kFp16 = NumberFormat::kFp16;
  static constexpr NumberFormat kBf16 = NumberFormat::kBf16;
  if (dtype == "F32") return &kFp32;
  if (dtype == "F16") return &kFp16;
  if (dtype == "BF16") return &kBf16;
  return nullptr;
}

// Elements of one row.
uint64_t RowElements(absl::Span<const uint64_t> shape) {
  uint64_t elements = 1;
  for (size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

absl::Status NoTensor(const std::string& name, const std::string& path) {
  return absl::NotFoundError(
      absl::StrCat("'", path, "' has no tensor '", name, "'"));
}

// As an export calls what lies beside the rows of a keyed variable.
std::string SlotTensor(const std::string& name, absl::string_view slot) {
  return absl::StrCat(name, "/slot:", slot);
}

void TakeIntegers(const BufferChain& chain, std::vector<uint64_t>* out) {
  out->resize(ChainSize(chain) / sizeof(uint64_t));
  ChainReader(chain).Read(AsWritableBytes(absl::MakeSpan(*out)));
}

// Of `numbers`, which are the rows `wanted`.
absl::Status CheckFinite(absl::Span<const TrainedTensors::Rows> wanted,
                         const BufferChain& numbers, TrainedTensors* tensors) {
  ChainReader reader(numbers);
  for (const TrainedTensors::Rows& rows : wanted) {
    ASSIGN_OR_RETURN(const auto tensor, tensors->Find(rows.tensor));
    ASSIGN_OR_RETURN(const RowShape shape, ToRowShape(tensor.shape));
    absl::optional<std::pair<uint64_t, float>> wrong;
    NumberReader(&reader).ForEachRun(
        (rows.rows.end - rows.rows.begin) * shape.row_elements,
        [&](const std::byte* bytes, size_t offset, size_t count) {
          for (size_t i = 0; i < count && !wrong.has_value(); ++i) {
            float number;
            std::memcpy(&number, bytes + i * sizeof(number), sizeof(number));
            if (!std::isfinite(number)) wrong.emplace(offset + i, number);
          }
        });
    if (!wrong.has_value()) continue;
    const auto [element, number] = *wrong;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", rows.tensor, "' in '", tensor.file, "' is ",
        std::isnan(number) ? "not a number" : "infinite", " at row ",
        rows.rows.begin + element / shape.row_elements, ", element ",
        element % shape.row_elements, ": nothing can be trained from it"));
  }
  return absl::OkStatus();
}

// A checkpoint of paramd, whatever slices it was saved in.
class SavedVariables : public TrainedTensors {
 public:
  explicit SavedVariables(std::unique_ptr<CheckpointReader> reader)
      : reader_(std::move(reader)) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const SliceIndex::Entry& entry : reader_->index().entries()) {
      names.push_back(entry.variable->name());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<Tensor> Find(const std::string& name) override {
    const SliceIndex::Entry* const entry = reader_->index().Find(name);
    if (entry == nullptr) return NoTensor(name, reader_->directory());
    const v1::Variable& variable = *entry->variable;
    return Tensor{std::string(SafetensorsDType(variable.dtype())),
                  {variable.shape().begin(), variable.shape().end()},
                  reader_->directory(),
                  variable.keyed()};
  }

  absl::Status Read(absl::Span<const Rows> wanted, BufferChain* out) override {
    for (const Rows& rows : wanted) {
      const SliceIndex::Entry* const entry = reader_->index().Find(rows.tensor);
      RETURN_IF_ERROR(ReadRows({entry, ""}, rows.rows,
                               entry->shape.row_elements * sizeof(float), out));
    }
    return absl::OkStatus();
  }

  absl::Status ReadKeys(const Rows& wanted, Keys* out) override {
    const SliceIndex::Entry* const entry = reader_->index().Find(wanted.tensor);
    for (const auto& [slot, integers] :
         {std::make_pair(kKeySlot, &out->keys),
          std::make_pair(kUsedSlot, &out->used)}) {
      BufferChain chain;
      RETURN_IF_ERROR(ReadRows({entry, std::string(slot)}, wanted.rows,
                               sizeof(uint64_t), &chain));
      TakeIntegers(chain, integers);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadRows(const CheckpointReader::Numbers& numbers,
                        const RowRange& rows, uint64_t row_bytes,
                        BufferChain* out) {
    return reader_->Read(numbers, rows.begin * row_bytes,
                         (rows.end - rows.begin) * row_bytes, out);
  }

  const std::unique_ptr<CheckpointReader> reader_;
};

// What torch.save writes: a zip archive, or a pickle in its second protocol.
bool IsOfTorchSave(const std::string& path) {
  const auto file = ReadableFile::Open(path);
  char begin[4] = {};
  if (!file.ok() ||
      !(*file)->ReadAt(0, AsWritableBytes(absl::MakeSpan(begin))).ok()) {
    return false;
  }
  const absl::string_view text(begin, sizeof(begin));
  return text == "PK\x03\x04" || absl::StartsWith(text, "\x80\x02");
}

// What SafetensorsFile::Open answers, but FAILED_PRECONDITION naming what it is
// where it is another thing.
absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenFile(
    const std::string& path) {
  auto file = SafetensorsFile::Open(path);
  if (!absl::IsDataLoss(file.status()) || !IsOfTorchSave(path)) return file;
  return absl::FailedPreconditionError(
      absl::StrCat("'", path,
                   "' is not a safetensors file but one of torch.save; let "
                   "safetensors.torch.save_file write the weights again"));
}

// One safetensors file or several.
class TensorFiles : public TrainedTensors {
 public:
  // `paths`: in which file each tensor lies, as `index` says, a file's path.
  explicit TensorFiles(std::map<std::string, std::string> paths,
                       std::string index = "")
      : paths_(std::move(paths)), index_(std::move(index)) {}

  void Add(const std::string& path, std::unique_ptr<SafetensorsFile> file) {
    for (const TensorInfo& tensor : file->tensors()) {
      paths_[tensor.name] = path;
    }
    files_[path] = std::move(file);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, path] : paths_) names.push_back(name);
    return names;
  }

  absl::StatusOr<Tensor> Find(const std::string& name) override {
    ASSIGN_OR_RETURN(const Place place, PlaceOf(name));
    const bool keyed = paths_.count(SlotTensor(name, kKeySlot)) > 0 &&
                       paths_.count(SlotTensor(name, kUsedSlot)) > 0;
    return Tensor{place.tensor->dtype, place.tensor->shape, paths_.at(name),
                  keyed};
  }

  absl::Status Read(absl::Span<const Rows> wanted, BufferChain* out) override {
    for (const Rows& rows : wanted) {
      ASSIGN_OR_RETURN(const Place place, PlaceOf(rows.tensor));
      const NumberFormat* const format = FormatOf(place.tensor->dtype);
      if (format == nullptr) {
        return absl::FailedPreconditionError(absl::StrCat(
            "'", rows.tensor, "' in '", paths_.at(rows.tensor), "' is ",
            place.tensor->dtype, "; F32, F16 and BF16 are read"));
      }
      const uint64_t row = RowElements(place.tensor->shape);
      const uint64_t elements = (rows.rows.end - rows.rows.begin) * row;
      const uint64_t width = BytesOf(*format);
      BufferChain bytes;
      RETURN_IF_ERROR(place.file->Read(*place.tensor,
                                       rows.rows.begin * row * width,
                                       elements * width, &bytes));
      ChainReader reader(bytes);
      for (Buffer& numbers : NumberReader(&reader, *format).Take(elements)) {
        out->push_back(std::move(numbers));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadKeys(const Rows& wanted, Keys* out) override {
    ASSIGN_OR_RETURN(const Place values, PlaceOf(wanted.tensor));
    const std::vector<uint64_t> shape = {values.tensor->shape[0]};
    for (const auto& [slot, integers] :
         {std::make_pair(kKeySlot, &out->keys),
          std::make_pair(kUsedSlot, &out->used)}) {
      const std::string name = SlotTensor(wanted.tensor, slot);
      ASSIGN_OR_RETURN(const Place place, PlaceOf(name));
      const TensorInfo& tensor = *place.tensor;
      if (tensor.dtype != "I64" || tensor.shape != shape) {
        return absl::FailedPreconditionError(absl::StrCat(
            "'", name, "' in '", paths_.at(name), "' is ", tensor.dtype, " ",
            ShapeName(tensor.shape), "; beside the rows of '", wanted.tensor,
            "' it must be I64 ", ShapeName(shape)));
      }
      BufferChain chain;
      RETURN_IF_ERROR(place.file->Read(
          tensor, wanted.rows.begin * sizeof(uint64_t),
          (wanted.rows.end - wanted.rows.begin) * sizeof(uint64_t), &chain));
      TakeIntegers(chain, integers);
    }
    return absl::OkStatus();
  }

 private:
  struct Place {
    const SafetensorsFile* file;
    const TensorInfo* tensor;
  };

  absl::StatusOr<Place> PlaceOf(const std::string& name) {
    const auto path = paths_.find(name);
    if (path == paths_.end()) {
      return NoTensor(name, paths_.empty() ? "" : paths_.begin()->second);
    }
    std::unique_ptr<SafetensorsFile>& file = files_[path->second];
    if (file == nullptr) {
      auto open = OpenFile(path->second);
      if (absl::IsNotFound(open.status())) {
        return absl::FailedPreconditionError(
            absl::StrCat("'", path->second, "' is missing, in which '", index_,
                         "' says tensors to be"));
      }
      ASSIGN_OR_RETURN(file, std::move(open));
    }
    const TensorInfo* const tensor = file->Find(name);
    if (tensor == nullptr) {
      return absl::DataLossError(
          absl::StrCat("'", path->second, "' has no tensor '", name,
                       "', which the index beside it says to be there"));
    }
    return Place{file.get(), tensor};
  }

  std::map<std::string, std::string> paths_;
  const std::string index_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

absl::StatusOr<std::unique_ptr<TrainedTensors>> OpenIndex(
    const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kIndexFile);
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxIndexBytes));
  if (absl::StartsWith(text, kLfsPointerBegin)) {
    return absl::FailedPreconditionError(LfsPointerSentence(path));
  }
  const auto json =
      nlohmann::json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object()) {
    return absl::DataLossError(
        absl::StrCat("'", path, "' is not an index: it has no \"weight_map\""));
  }
  std::map<std::string, std::string> paths;
  for (const auto& [name, file] : map->items()) {
    const std::string* const plain = file.get_ptr<const std::string*>();
    if (plain == nullptr || !IsShardFileName(*plain)) {
      return absl::DataLossError(
          absl::StrCat("'", path, "' does not say in which file beside it '",
                       name, "' lies"));
    }
    paths[name] = absl::StrCat(directory, "/", *plain);
  }
  return std::make_unique<TensorFiles>(std::move(paths), path);
}

}  // namespace

bool IsTrainedDType(absl::string_view dtype) {
  return FormatOf(dtype) != nullptr;
}

std::string TrainedFileIn(const std::string& directory) {
  const auto names = ListDirectory(directory);
  if (!names.ok()) return "";
  for (const char* const name : {kManifestFile, kIndexFile}) {
    if (std::binary_search(names->begin(), names->end(), name)) return name;
  }
  return "";
}

absl::Status ReadFinite(absl::Span<const TrainedTensors::Rows> wanted,
                        TrainedTensors* tensors, BufferChain* out) {
  BufferChain numbers;
  RETURN_IF_ERROR(tensors->Read(wanted, &numbers));
  RETURN_IF_ERROR(CheckFinite(wanted, numbers, tensors));
  out->insert(out->end(), numbers.begin(), numbers.end());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TrainedTensors>> TrainedTensors::Open(
    const std::string& path) {
  if (!IsDirectory(path)) {
    ASSIGN_OR_RETURN(auto file, OpenFile(path));
    auto files =
        std::make_unique<TensorFiles>(std::map<std::string, std::string>());
    files->Add(path, std::move(file));
    return std::unique_ptr<TrainedTensors>(std::move(files));
  }
  const std::string kind = TrainedFileIn(path);
  if (kind == kManifestFile) {
    ASSIGN_OR_RETURN(auto reader, CheckpointReader::Open(path));
    return std::unique_ptr<TrainedTensors>(
        std::make_unique<SavedVariables>(std::move(reader)));
  }
  if (kind == kIndexFile) return OpenIndex(path);
  return absl::FailedPreconditionError(absl::StrCat(
      "'", path, "' holds neither ", kManifestFile, " nor ", kIndexFile));
}

}  // namespace paramd
