#ifndef PARAMD_COMPUTE_ONNX_OPSET_H_
#define PARAMD_COMPUTE_ONNX_OPSET_H_

namespace paramd {

// The versions of ONNX's operators that a model can be written with: quantised
// layers need 13, and Debian's library knows none behind 17.
constexpr int kLeastOpset = 13;
constexpr int kMostOpset = 17;

}  // namespace paramd

#endif  // PARAMD_COMPUTE_ONNX_OPSET_H_
