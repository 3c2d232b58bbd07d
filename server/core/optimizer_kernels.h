#ifndef PARAMD_SERVER_CORE_OPTIMIZER_KERNELS_H_
#define PARAMD_SERVER_CORE_OPTIMIZER_KERNELS_H_

#include <cstddef>

namespace paramd {

// Constants of one application of Adam.
struct AdamStep {
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float rate;         // Learning rate / (1 - beta1^t).
  float correction2;  // 1 / (1 - beta2^t).
  float epsilon;
};

// Constants of one application of SGD with momentum.
struct MomentumStep {
  float rate;
  float momentum;
  bool nesterov;
};

// Constants of one application of Adagrad.
struct AdagradStep {
  float rate;
  float epsilon;
};

// Where an optimizer with one slot reads and writes, as AdamArrays.
struct OneSlotArrays {
  const float* values;
  const float* slot;
  float* new_values;
  float* new_slot;
};

// Where Adam reads and writes. An output may be the input of the same name, and
// overlaps with nothing else.
struct AdamArrays {
  const float* values;
  const float* momentum;
  const float* variance;
  float* new_values;
  float* new_momentum;
  float* new_variance;
};

// The loops of the optimizers over `count` elements, for one kind of machine.
// `gradient` is 4 * count bytes of little-endian floats at any address.
//
// All sets of kernels agree bit for bit: they are compiled from the same plain
// IEEE float operations, in the same order for each element, none fused (the
// whole tree is compiled with -ffp-contract=off), with no function of libm but
// sqrt, which IEEE defines.
struct OptimizerKernels {
  // Squares are summed in so many places: element i of a block in place i %
  // kSumLanes, one after the other. So the sum has the same bits however the
  // gradient is cut.
  static constexpr size_t kSumLanes = 16;

  // w' = w - rate * g. `new_values` may be `values`.
  void (*sgd)(float rate, const std::byte* gradient, size_t count,
              const float* values, float* new_values);
  // v' = momentum * v + g
  // w' = w - rate * v', with nesterov w - rate * (g + momentum * v')
  void (*momentum)(const MomentumStep& step, const std::byte* gradient,
                   size_t count, const OneSlotArrays& arrays);
  // a' = a + g * g
  // w' = w - (rate * g) / (sqrt(a') + epsilon)
  void (*adagrad)(const AdagradStep& step, const std::byte* gradient,
                  size_t count, const OneSlotArrays& arrays);
  // m' = beta1 * m + (1 - beta1) * g
  // v' = beta2 * v + (1 - beta2) * (g * g)
  // w' = w - (rate * m') / (sqrt(v' * correction2) + epsilon)
  void (*adam)(const AdamStep& step, const std::byte* gradient, size_t count,
               const AdamArrays& arrays);
  // w' = w - rate * (g + lambda * (g * (g * (w - old)))). `old_values` may be
  // `values` and overlaps with nothing else.
  void (*sgd_compensated)(float rate, float lambda, const std::byte* gradient,
                          size_t count, const float* values,
                          const float* old_values, float* new_values);
  // Adds the squares of the elements, of which the first is element `first` of
  // the block. The square of a float is exact in a double and stays finite, so
  // the sums are finite if and only if all elements are.
  void (*add_squares)(const std::byte* gradient, size_t count, size_t first,
                      double* sums);
  // Whether no element is infinite or not a number.
  bool (*all_finite)(const std::byte* gradient, size_t count);
};

// For any machine: the twin that the others are tested against.
const OptimizerKernels& PortableKernels();
// Null where the machine has no AVX2, or no AVX-512.
const OptimizerKernels* Avx2Kernels();
const OptimizerKernels* Avx512Kernels();

// The fastest of this machine.
const OptimizerKernels& MachineKernels();

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZER_KERNELS_H_
