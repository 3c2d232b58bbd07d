#ifndef PARAMD_WORKER_MODEL_NETWORK_PLAN_H_
#define PARAMD_WORKER_MODEL_NETWORK_PLAN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/model.pb.h"
#include "worker/input/batch.h"
#include "worker/model/loss.h"
#include "worker/model/sequence.h"

namespace paramd {

// A network that fits its input.
struct NetworkPlan {
  FeatureSpec input;
  FeatureSpec label;
  std::unique_ptr<Sequence> layers;
  std::unique_ptr<Loss> loss;
  // Those of the layers, a shared one once, where it is used first.
  std::vector<v1::Variable> variables;
  // For each variable of `layers`, which of `variables` it is.
  std::vector<size_t> shared;
  // Integers of the input are below this; 0: it has none.
  uint64_t input_bound = 0;
  // It is int64, keys of embeddings.
  bool has_keys = false;
};

// INVALID_ARGUMENT, a sentence that names the layer, what it gets and what it
// needs, if the input has not the features that are asked for, if there is no
// layer or no loss, if shapes do not fit, if the output does not fit the loss and
// its label, if a metric is not one of the loss, if layers of one name have
// variables of different shapes, or if a variable, or a layer's output of one
// example, had 2^31 values or more.
absl::StatusOr<std::unique_ptr<NetworkPlan>> PlanNetwork(
    const v1::ModelConfig& config, const InputSpec& input);

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_NETWORK_PLAN_H_
