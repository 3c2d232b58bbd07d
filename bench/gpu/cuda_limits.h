#ifndef PARAMD_BENCH_GPU_CUDA_LIMITS_H_
#define PARAMD_BENCH_GPU_CUDA_LIMITS_H_

#include <cstdint>

#include "compute/device/compute_format.h"

namespace paramd {

// What the first GPU gives in plain calls of CUDA and cuBLAS, which figures
// stand beside. Seconds of one of `times`; below 0: it could not be done, and
// stderr says why.

// Of a matrix product of that side, of operands that are of the format already,
// random numbers, with a result of float32.
double PlainProductSeconds(ComputeFormat format, uint64_t side, int times);
// Of a cudaMemcpyAsync of pinned memory, to the GPU or from it.
double PlainCopySeconds(uint64_t bytes, bool up, int times);

}  // namespace paramd

#endif  // PARAMD_BENCH_GPU_CUDA_LIMITS_H_
