#ifndef PARAMD_COMPUTE_DEVICE_FLOAT_TYPE_H_
#define PARAMD_COMPUTE_DEVICE_FLOAT_TYPE_H_

#include "base/check.h"
#include "tensor/tensor.h"

namespace paramd {

// Calls f(T()) for the type T of a tensor's elements, float or double.
template <class Function>
void WithFloatType(DType dtype, Function f) {
  CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
        "a device computes with float32 or float64");
  if (dtype == DType::kFloat32) {
    f(float());
  } else {
    f(double());
  }
}

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_FLOAT_TYPE_H_
