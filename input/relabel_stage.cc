#include "input/relabel_stage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "input/transform.h"

namespace paramd {
namespace {

bool IsClass(const FeatureSpec& feature) {
  return feature.dims.empty() && !feature.ragged &&
         (feature.dtype == DType::kInt32 || feature.dtype == DType::kInt64 ||
          feature.dtype == DType::kUInt8);
}

bool IsVector(const FeatureSpec& feature) {
  return feature.dims.size() == 1 && !feature.ragged &&
         feature.dtype == DType::kFloat32;
}

absl::Status CheckFeature(const FeatureSpec& feature) {
  if (IsClass(feature) || IsVector(feature)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", feature.name, "' is ", ShapeText(feature.dtype, feature.dims),
      "; a label is one whole number, or a vector of float32 as the stage "
      "one_hot makes it"));
}

absl::Status CheckClasses(const LabelFile& file, const FeatureSpec& feature) {
  const uint64_t classes = file.header().classes;
  const uint64_t has = IsVector(feature) ? feature.dims[0] : feature.classes;
  const bool suits = IsVector(feature)
                         ? has == classes
                         : has <= classes && (feature.dtype != DType::kUInt8 ||
                                              classes <= 256);
  if (suits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", file.path(), "' has ", classes, " classes, and '", feature.name,
      "' is ", ShapeText(feature.dtype, feature.dims),
      has > 0 && !IsVector(feature) ? absl::StrCat(" of ", has, " classes")
                                    : "",
      ": label these examples by a model of the same classes"));
}

absl::Status CheckFile(const LabelFile& file, const Stage& upstream,
                       const v1::DataSet& data, const std::string& model) {
  const LabelFileHeader& header = file.header();
  RETURN_IF_ERROR(CheckLabelled(header, file.path(), upstream, data));
  if (!model.empty() && header.model != model) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", file.path(), "' is of the model ", header.model, ", not of ",
        model, ": name a file of that one, or leave model out"));
  }
  if (header.records > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", file.path(), "' names no example"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RelabelStage>> RelabelStage::Create(
    const Stage& upstream, const v1::DataSet& data,
    const v1::InputStage::Relabel& config) {
  InputSpec spec = upstream.spec();
  const std::string name =
      config.feature().empty() ? "label" : config.feature();
  size_t feature = 0;
  while (feature < spec.features.size() &&
         spec.features[feature].name != name) {
    ++feature;
  }
  if (feature == spec.features.size()) {
    FeatureSpec added;
    added.name = name;
    added.dtype = DType::kInt32;
    spec.features.push_back(std::move(added));
  }
  RETURN_IF_ERROR(CheckFeature(spec.features[feature]));
  std::unique_ptr<LabelFile> file;
  if (!config.file().empty()) {
    ASSIGN_OR_RETURN(file, LabelFile::Open(config.file()));
    RETURN_IF_ERROR(CheckFile(*file, upstream, data, config.model()));
    RETURN_IF_ERROR(CheckClasses(*file, spec.features[feature]));
    RETURN_IF_ERROR(
        CheckClassNames(file->header(), file->path(), data.meaning(), name));
    if (IsClass(spec.features[feature])) {
      spec.features[feature].classes = file->header().classes;
    }
  }
  return std::unique_ptr<RelabelStage>(
      new RelabelStage(upstream, std::move(spec), feature, std::move(file)));
}

RelabelStage::RelabelStage(const Stage& upstream, InputSpec spec,
                           size_t feature, std::unique_ptr<LabelFile> file)
    : Stage("relabel", std::move(spec),
            file == nullptr ? upstream.size() : file->header().records),
      upstream_(upstream),
      feature_(feature),
      file_(std::move(file)) {}

absl::optional<uint32_t> RelabelStage::file_crc32c() const {
  if (file_ == nullptr) return absl::nullopt;
  return file_->header().records_crc32c;
}

ExamplePlace RelabelStage::UpstreamOf(const ExamplePlace& place) const {
  if (file_ == nullptr) return place;
  return {.epoch = place.epoch, .offset = file_->examples()[place.offset]};
}

absl::Status RelabelStage::SetLabel(uint64_t offset, Example* example) const {
  if (file_ == nullptr && !is_added()) return absl::OkStatus();
  OwnedTensor& value = example->values[feature_];
  const FeatureSpec& feature = spec().features[feature_];
  value.Reset(feature.dtype, feature.dims);
  if (IsVector(feature)) {
    return file_->ReadProbabilities(offset, value.values<float>());
  }
  const uint32_t label = file_ == nullptr ? 0 : file_->labels()[offset];
  switch (feature.dtype) {
    case DType::kInt64:
      value.values<int64_t>()[0] = label;
      break;
    case DType::kUInt8:
      value.values<uint8_t>()[0] = static_cast<uint8_t>(label);
      break;
    default:
      value.values<int32_t>()[0] = static_cast<int32_t>(label);
      break;
  }
  return absl::OkStatus();
}

absl::Status RelabelStage::DoGet(const ExamplePlace& place,
                                 Example* example) const {
  RETURN_IF_ERROR(upstream_.Get(UpstreamOf(place), example));
  example->values.resize(spec().features.size());
  return SetLabel(place.offset, example);
}

absl::Status RelabelStage::GetFeature(const ExamplePlace& place, size_t feature,
                                      Example* example) const {
  const bool is_ours = feature == feature_ && (file_ != nullptr || is_added());
  if (!is_ours) {
    RETURN_IF_ERROR(upstream_.GetFeature(UpstreamOf(place), feature, example));
    example->values.resize(spec().features.size());
    return absl::OkStatus();
  }
  example->dropped = false;
  example->index = IndexAt(place);
  example->values.resize(spec().features.size());
  return SetLabel(place.offset, example);
}

}  // namespace paramd
