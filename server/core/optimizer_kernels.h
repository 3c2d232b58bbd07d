#ifndef PARAMD_SERVER_CORE_OPTIMIZER_KERNELS_H_
#define PARAMD_SERVER_CORE_OPTIMIZER_KERNELS_H_

#include <cstddef>

#include "server/core/optimizers/instruction_set.h"
#include "server/core/optimizers/loop_device.h"

namespace paramd {

// One kind of machine: which of the optimizers' loops (optimizers/kernel.h) it
// runs, and the loops that look at a gradient whatever the optimizer.
// `gradient` is 4 * count bytes of little-endian floats at any address. What
// lies in the memory of a device it leaves to that.
struct OptimizerKernels {
  // Squares are summed in so many places: element i of a block in place i %
  // kSumLanes, one after the other. So the sum has the same bits however the
  // gradient is cut.
  static constexpr size_t kSumLanes = 16;

  InstructionSet set;
  // Adds the squares of the elements, of which the first is element `first` of
  // the block. The square of a float is exact in a double and stays finite, so
  // the sums are finite if and only if all elements are.
  void (*add_squares)(const std::byte* gradient, size_t count, size_t first,
                      double* sums);
  // Whether no element is infinite or not a number.
  bool (*all_finite)(const std::byte* gradient, size_t count);
  // Where blocks lie, too, as far as it has room; null: there is none.
  LoopDevice* device = nullptr;
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
