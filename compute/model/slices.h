#ifndef PARAMD_COMPUTE_MODEL_SLICES_H_
#define PARAMD_COMPUTE_MODEL_SLICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "input/batch.h"
#include "proto/paramd/v1/model.pb.h"
#include "tensor/tensor.h"

namespace paramd {

// Evaluations also report metrics by slice: for each feature that model.slices
// names and each of its values, over the examples that have this value, such as
// those of one kind of device.

// The most values that a feature in model.slices has.
inline constexpr uint32_t kMostSliceValues = 64;
// An evaluation has at most so many numbers of slices, as whoever asks for the
// status of a job gets all of them.
inline constexpr uint64_t kMostSliceNumbers = 2048;

// For a metric over scores (auc) each slice keeps the scores of its examples.
// One example has at most so many, counting those outside of slices, so that
// the scores of a batch that is evaluated fit into a message.
inline constexpr uint64_t kMostSliceScores = 80;

// The features that model.slices names. INVALID_ARGUMENT, a sentence, if the
// input has not one, it is one of `labels`, it is not one integer for each
// example below a number that the input states, or below more than
// kMostSliceValues, or is named twice.
absl::StatusOr<std::vector<FeatureSpec>> FindSlices(
    const v1::ModelConfig& config, const InputSpec& input,
    absl::Span<const std::string> labels);

// INVALID_ARGUMENT if slices of these features would have more numbers than
// kMostSliceNumbers, where each has so many.
absl::Status CheckSliceNumbers(absl::Span<const FeatureSpec> features,
                               uint64_t of_each);
// The same of scores and kMostSliceScores, where an example has `scores` of its
// own.
absl::Status CheckSliceScores(absl::Span<const FeatureSpec> features,
                              uint64_t scores);

// The examples of a batch that have one value of a feature.
struct SlicedBatch {
  std::string feature;
  uint32_t value = 0;
  ConstTensor outputs;  // Of these examples, [examples, ...].
  Batch batch;          // Has the features that were asked for, no others.
};

// Calls `use` with each slice that has an example; ascending by feature, then
// by value. `outputs`: of all examples of the batch, in host memory. `read`:
// the features that are wanted of a slice, each once. INVALID_ARGUMENT if the
// batch lacks one of `features`, DATA_LOSS, naming the example, if a value is
// out of range, and the first error of `use`. REQUIRES: the batch has all of
// `read`, none of them ragged.
absl::Status ForEachSlice(
    absl::Span<const FeatureSpec> features, absl::Span<const std::string> read,
    const ConstTensor& outputs, const Batch& batch,
    absl::FunctionRef<absl::Status(const SlicedBatch&)> use);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_SLICES_H_
