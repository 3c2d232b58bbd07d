#ifndef PARAMD_COMPUTE_ONNX_TESTING_WRITTEN_MODEL_H_
#define PARAMD_COMPUTE_ONNX_TESTING_WRITTEN_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "compute/model/network_plan.h"
#include "compute/onnx/write_model.h"
#include "onnx/onnx_pb.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

// Of layers in text format; the loss is of classes.
v1::ModelConfig OnnxModelOf(absl::string_view layers);

// Features of float32, and "ids", integers below 20, where dims say so; a label
// of classes for each row of outputs.
InputSpec OnnxInputOf(std::vector<FeatureSpec> features, Dims label = {});

// A network with random weights.
struct OnnxNetwork {
  OnnxNetwork(const v1::ModelConfig& model, const InputSpec& input);

  std::vector<absl::Span<const float>> spans() const {
    return {weights.begin(), weights.end()};
  }
  // What is written of it. A failure of the test if nothing is.
  onnx::ModelProto Write(int opset = kLeastOpset,
                         const OnnxIntegers* integers = nullptr) const;

  std::unique_ptr<NetworkPlan> plan;
  std::vector<std::vector<float>> weights;
};

// "Gemm Relu Gemm Softmax": the operators, in order, less the last Identity.
std::string OperatorsOf(const onnx::ModelProto& model);
// Null: there is none of that name, or kind.
const onnx::TensorProto* FindConstant(const onnx::ModelProto& model,
                                      absl::string_view name);
const onnx::NodeProto* FindNode(const onnx::ModelProto& model,
                                absl::string_view op);
// Of a node's attribute.
std::vector<int64_t> IntsOf(const onnx::NodeProto& node,
                            absl::string_view attribute);

// The values of a constant.
template <class T>
std::vector<T> ConstantValues(const onnx::TensorProto& tensor) {
  const auto* const values =
      reinterpret_cast<const T*>(tensor.raw_data().data());
  return {values, values + tensor.raw_data().size() / sizeof(T)};
}

}  // namespace paramd

#endif  // PARAMD_COMPUTE_ONNX_TESTING_WRITTEN_MODEL_H_
