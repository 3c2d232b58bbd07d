#ifndef PARAMD_COMPUTE_SHRINK_SHRINK_H_
#define PARAMD_COMPUTE_SHRINK_SHRINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "compute/model/trained_model.h"
#include "input/batch.h"
#include "proto/paramd/v1/model.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// A network without its channels of zeros.
struct Shrunk {
  struct Layer {
    std::string name;
    uint64_t before = 0;  // Outputs: units or filters.
    uint64_t after = 0;
  };

  v1::ModelConfig model;
  std::vector<Layer> layers;  // That have become smaller, in order.
  // Those of `model`, and their values, row-major.
  std::vector<v1::Variable> variables;
  std::vector<std::vector<float>> weights;
};

// The network with these weights, which are whole, without the outputs of dense
// layers and convolutions whose kernels are zero for them, and without what
// reads these outputs. Such an output is a constant, its bias, and what the
// layers behind it make of that; the next dense layer or convolution has it in
// its bias instead, so that the network computes the same but for the roundings
// of these sums. A layer all of whose outputs are constant keeps the first.
//
// INVALID_ARGUMENT, a sentence that names the layer, if there is no such
// output, or one that can't be cut: it is the network's own, or is read by a
// layer that adds, compares or reorders channels (a residual sum, branches,
// attention, a normalisation of each place, groups), or by a convolution beyond
// whose border it would be zero and is not, or its layer shares its variables
// or lies within another; or if the model is a program's or has
// quantization_aware, or does not fit the input. REQUIRES: no variable is
// keyed.
absl::StatusOr<Shrunk> Shrink(const v1::ModelConfig& model,
                              const InputSpec& input, WeightSpans weights);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_SHRINK_SHRINK_H_
