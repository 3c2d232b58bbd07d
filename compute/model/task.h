#ifndef PARAMD_COMPUTE_MODEL_TASK_H_
#define PARAMD_COMPUTE_MODEL_TASK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "compute/model/loss.h"
#include "input/batch.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

// Something that a network learns: a loss over its outputs, or over a part of
// them.
struct Task {
  // Of an output that the job names; empty: the loss is that of the model.
  std::string name;
  FeatureSpec label;
  // What metrics over groups read; no name: nothing does.
  FeatureSpec group;
  // By whose number an example counts; no name: each counts once.
  FeatureSpec weight;
  // Of an example's item, of a loss over a batch; no name: scores are not
  // corrected.
  FeatureSpec probability;
  std::unique_ptr<Loss> loss;
  double factor = 1;  // Of its loss in the sum of all.
  // Of its part of an example's outputs, and the column that it begins at.
  Dims dims;
  uint64_t first = 0;

  uint64_t columns() const { return SizeOf(dims); }
  // Of what a prediction has for an example.
  Dims prediction_dims() const { return loss->prediction_dims(dims); }
};

// "mean_squared_error"; empty if nobody knows the loss.
std::string LossName(v1::Loss loss);

// The names of the input's features, as a sentence lists them: "'x', 'label'".
std::string NamesOf(const InputSpec& input);

// Sets which features the task's loss and metrics read: label, group, weight
// and probability. INVALID_ARGUMENT, a sentence, if the input lacks one or it
// is of another type.
absl::Status FindFeatures(const v1::ModelConfig& config, const InputSpec& input,
                          Task* task);

// Sets the task's loss over outputs of the layer `last`, with its metrics.
// INVALID_ARGUMENT, a sentence, if it can't take them for the task's label, or
// if a metric or another setting does not go with it. REQUIRES: FindFeatures.
absl::Status MakeLoss(const v1::ModelConfig& config, const Dims& output,
                      const std::string& last, Task* task);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_TASK_H_
