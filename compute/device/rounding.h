#ifndef PARAMD_COMPUTE_DEVICE_ROUNDING_H_
#define PARAMD_COMPUTE_DEVICE_ROUNDING_H_

#include <cstddef>

#include "compute/device/compute_format.h"

namespace paramd {

// Overwrites `out`, which may be `numbers`, with what the numbers are in the
// format. NaN stays NaN.
void Round(ComputeFormat format, const float* numbers, size_t count,
           float* out);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_ROUNDING_H_
