#ifndef PARAMD_COMPUTE_ONNX_WRITE_MODEL_H_
#define PARAMD_COMPUTE_ONNX_WRITE_MODEL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "checkpoint/quantization.h"
#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "compute/onnx/opset.h"
#include "compute/quantized/quantized_products.h"

namespace paramd {

struct OnnxOptions {
  int opset = kLeastOpset;  // To kMostOpset.
  // What the file says of itself.
  std::string name;     // Of the graph.
  std::string version;  // Of paramd.
  uint64_t step = 0;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Of a quantised checkpoint.
struct OnnxIntegers {
  Quantization quantization;
  IntegerTensors tensors;
};

// Whether a network can be an ONNX model, as far as its variables say: before
// they are read. INVALID_ARGUMENT, a sentence that says what can be done, if a
// table has rows by key, layers get integers of 16 bits, or the weights do not
// fit one file. `integers`: null, or of a quantised checkpoint.
absl::Status CheckFitsOnnx(const NetworkPlan& plan,
                           const OnnxIntegers* integers);

// A trained network as an ONNX model, in its bytes, which follow from the
// arguments alone. It reads the features that the layers read, [batch,
// dims...], as the job's input gives them, and gives what Predict gives, under
// the same names: of classes their probabilities. `integers`: null, or of the
// quantised checkpoint that the weights are read of.
//
// The errors of CheckFitsOnnx; INVALID_ARGUMENT also if a layer has no form in
// ONNX or the integers are of another network; DATA_LOSS if their shapes are;
// INTERNAL if what was written does not pass ONNX's own checks.
absl::StatusOr<std::string> WriteOnnxModel(const NetworkPlan& plan,
                                           WeightSpans weights,
                                           const OnnxIntegers* integers,
                                           const OnnxOptions& options);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_ONNX_WRITE_MODEL_H_
