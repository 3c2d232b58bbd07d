#ifndef PARAMD_COMPUTE_MODEL_TESTING_LAYER_RUN_H_
#define PARAMD_COMPUTE_MODEL_TESTING_LAYER_RUN_H_

#include <cstdint>
#include <vector>

#include "compute/model/layer.h"

namespace paramd {

// What a layer is run on.
struct LayerValues {
  uint64_t examples = 0;
  std::vector<double> input = {};
  std::vector<int32_t> indices = {};  // If not empty, the input instead.
  std::vector<std::vector<double>> weights = {};
  std::vector<double> output_gradient = {};
  bool training = true;
  double share = 1;
};

// What it gave; all memory began as NaN.
struct LayerResult {
  std::vector<double> output;
  std::vector<double> input_gradient;  // Empty if nobody wanted it.
  std::vector<std::vector<double>> gradients;
};

// Random values away from 0, where relu has no derivative; weights too, but
// that those of untrained variables are above 0. `bound` above 0: the input is
// integers below it.
LayerValues RandomValues(const Layer& layer, uint64_t examples, uint64_t bound,
                         uint64_t seed);

// `dtype`: of what layers hand on. Backward runs twice, the second time without
// the output if the layer does not read it, and once more in two halves, which
// have to give the same bits.
LayerResult RunLayer(const Layer& layer, Device* device, DType dtype,
                     const LayerValues& values, bool wants_input = true);

// Compares, in float64 by the reference, every derivative that the layer gives,
// by input and by variables, of a random linear function of its output, with a
// central difference. Also checks that nothing changes when nobody wants the
// gradient by the input, and that the test device's float32 agrees with all of
// it, and so far as they can what it keeps in two bytes.
void ExpectLayerIsRight(const Layer& layer, uint64_t examples,
                        uint64_t bound = 0);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_TESTING_LAYER_RUN_H_
