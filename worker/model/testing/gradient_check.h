#ifndef PARAMD_WORKER_MODEL_TESTING_GRADIENT_CHECK_H_
#define PARAMD_WORKER_MODEL_TESTING_GRADIENT_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "worker/model/layer.h"

namespace paramd {

// Compares every derivative that the layer gives, by input and by variables, of
// a random linear function of its output, with a central difference. Inputs and
// weights are random in [-1, 1) and away from 0, where relu has no derivative.
// Fails the test, naming the element, where they differ by more than 1e-3. Also
// checks that Backward overwrites, and that it leaves the gradients alike when
// nobody wants that of the input.
void ExpectLayerGradientsMatchDifferences(const Layer& layer, size_t rows,
                                          size_t input_width, uint64_t seed);

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_TESTING_GRADIENT_CHECK_H_
