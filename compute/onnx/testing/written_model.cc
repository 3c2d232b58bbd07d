#include "compute/onnx/testing/written_model.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {

v1::ModelConfig OnnxModelOf(absl::string_view layers) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("loss: SOFTMAX_CROSS_ENTROPY ", layers), &config));
  return config;
}

InputSpec OnnxInputOf(std::vector<FeatureSpec> features, Dims label) {
  InputSpec spec;
  spec.features = std::move(features);
  spec.features.push_back({"label", DType::kInt32, std::move(label), 3});
  return spec;
}

OnnxNetwork::OnnxNetwork(const v1::ModelConfig& model, const InputSpec& input) {
  auto planned = PlanNetwork(model, input);
  EXPECT_TRUE(planned.ok()) << planned.status();
  plan = *std::move(planned);
  RandomStream random(7);
  for (const v1::Variable& variable : plan->variables) {
    const Dims dims(variable.shape().begin(), variable.shape().end());
    weights.emplace_back(SizeOf(dims));
    for (float& value : weights.back()) value = random.Uniform() + 0.25f;
  }
}

onnx::ModelProto OnnxNetwork::Write(int opset,
                                    const OnnxIntegers* integers) const {
  const auto bytes = WriteOnnxModel(*plan, spans(), integers,
                                    {.opset = opset,
                                     .name = "job",
                                     .version = "0.1",
                                     .step = 12,
                                     .metadata = {{"paramd.step", "12"}}});
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto model;
  if (bytes.ok()) {
    EXPECT_TRUE(model.ParseFromString(*bytes));
  }
  return model;
}

std::string OperatorsOf(const onnx::ModelProto& model) {
  std::string text;
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.op_type() == "Identity") continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", node.op_type());
  }
  return text;
}

const onnx::TensorProto* FindConstant(const onnx::ModelProto& model,
                                      absl::string_view name) {
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.name() == name) return &tensor;
  }
  return nullptr;
}

const onnx::NodeProto* FindNode(const onnx::ModelProto& model,
                                absl::string_view op) {
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.op_type() == op) return &node;
  }
  return nullptr;
}

std::vector<int64_t> IntsOf(const onnx::NodeProto& node,
                            absl::string_view attribute) {
  for (const onnx::AttributeProto& one : node.attribute()) {
    if (one.name() == attribute) return {one.ints().begin(), one.ints().end()};
  }
  ADD_FAILURE() << node.name() << " has no " << attribute;
  return {};
}

}  // namespace paramd
