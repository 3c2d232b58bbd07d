#include "compute/model/slices.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "compute/model/layer_builder.h"
#include "compute/model/network_batch.h"
#include "compute/model/task.h"

namespace paramd {
namespace {

absl::Status WrongSlice(const std::string& name, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("model.slices names the feature '", name, "'", what));
}

absl::Status CheckSlice(const FeatureSpec& feature,
                        absl::Span<const std::string> labels) {
  const std::string& name = feature.name;
  if (std::find(labels.begin(), labels.end(), name) != labels.end()) {
    return WrongSlice(name,
                      ", which is the label; name what is known of an example "
                      "without it");
  }
  if (feature.ragged || feature.size() != 1 || feature.dtype != DType::kInt32 ||
      feature.classes == 0) {
    return WrongSlice(
        name,
        absl::StrCat(
            ", which is ", NameOf(feature.dtype), " of ",
            feature.ragged ? "any number of values" : DimsText(feature.dims),
            "; it needs one whole number for each example, and the input "
            "must say how many values there are: give it \"classes\""));
  }
  if (feature.classes > kMostSliceValues) {
    return WrongSlice(name, absl::StrCat(", which has ", feature.classes,
                                         " values; a slice is of one of at "
                                         "most ",
                                         kMostSliceValues));
  }
  return absl::OkStatus();
}

// The rows of these examples, one behind the other.
void CopyExamples(const ConstTensor& from, absl::Span<const uint64_t> examples,
                  void* to) {
  const uint64_t bytes = from.size() / from.dims[0] * SizeOf(from.dtype);
  for (size_t i = 0; i < examples.size(); ++i) {
    std::memcpy(static_cast<std::byte*>(to) + i * bytes,
                static_cast<const std::byte*>(from.data) + examples[i] * bytes,
                bytes);
  }
}

// Of each value the examples that have it.
absl::StatusOr<std::vector<std::vector<uint64_t>>> ExamplesByValue(
    const FeatureSpec& feature, const Batch& batch) {
  ASSIGN_OR_RETURN(const Column* const column, FindColumn(feature, batch));
  std::vector<std::vector<uint64_t>> examples(feature.classes);
  const auto values = column->values<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || static_cast<uint32_t>(values[i]) >= feature.classes) {
      return absl::DataLossError(absl::StrCat(
          batch.Where(i), ": the feature '", feature.name, "' has ", values[i],
          "; model.slices needs a number from 0 to ", feature.classes - 1));
    }
    examples[static_cast<size_t>(values[i])].push_back(i);
  }
  return examples;
}

}  // namespace

absl::StatusOr<std::vector<FeatureSpec>> FindSlices(
    const v1::ModelConfig& config, const InputSpec& input,
    absl::Span<const std::string> labels) {
  std::vector<FeatureSpec> features;
  for (const std::string& name : config.slices()) {
    const FeatureSpec* const feature = input.Find(name);
    if (feature == nullptr) {
      return WrongSlice(name, absl::StrCat("; the input has ", NamesOf(input)));
    }
    RETURN_IF_ERROR(CheckSlice(*feature, labels));
    for (const FeatureSpec& before : features) {
      if (before.name == name) return WrongSlice(name, " twice");
    }
    features.push_back(*feature);
  }
  std::sort(features.begin(), features.end(),
            [](const FeatureSpec& a, const FeatureSpec& b) {
              return a.name < b.name;
            });
  return features;
}

absl::Status CheckSliceNumbers(absl::Span<const FeatureSpec> features,
                               uint64_t of_each) {
  uint64_t slices = 0;
  for (const FeatureSpec& feature : features) slices += feature.classes;
  if (slices * of_each <= kMostSliceNumbers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.slices makes ", slices, " slices, with ", of_each,
      " numbers each; an evaluation has at most ", kMostSliceNumbers,
      " of them: name fewer features, or count fewer metrics"));
}

absl::Status CheckSliceScores(absl::Span<const FeatureSpec> features,
                              uint64_t scores) {
  if (features.empty() || scores * (1 + features.size()) <= kMostSliceScores) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model.slices keeps ", scores,
      " scores of each example, for auc and the "
      "like, ",
      1 + features.size(), " times; an evaluation keeps at most ",
      kMostSliceScores, ": name fewer features, or leave such metrics out"));
}

absl::Status ForEachSlice(
    absl::Span<const FeatureSpec> features, absl::Span<const std::string> read,
    const ConstTensor& outputs, const Batch& batch,
    absl::FunctionRef<absl::Status(const SlicedBatch&)> use) {
  std::vector<std::byte> memory(outputs.size() * SizeOf(outputs.dtype));
  SlicedBatch slice;
  slice.batch.columns.resize(read.size());
  for (const FeatureSpec& feature : features) {
    ASSIGN_OR_RETURN(const auto by_value, ExamplesByValue(feature, batch));
    slice.feature = feature.name;
    for (uint32_t value = 0; value < by_value.size(); ++value) {
      const std::vector<uint64_t>& examples = by_value[value];
      if (examples.empty()) continue;
      slice.value = value;
      slice.outputs = {memory.data(), outputs.dtype, outputs.dims};
      slice.outputs.dims[0] = examples.size();
      CopyExamples(outputs, examples, memory.data());
      slice.batch.examples = examples.size();
      for (size_t c = 0; c < read.size(); ++c) {
        const Column& from = *batch.Find(read[c]);
        Column& to = slice.batch.columns[c];
        to.Reset(from.spec(), examples.size());
        CopyExamples(from.tensor(), examples, to.tensor().data);
      }
      RETURN_IF_ERROR(use(slice));
    }
  }
  return absl::OkStatus();
}

}  // namespace paramd
