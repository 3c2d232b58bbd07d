#include "compute/onnx/onnx_graph.h"

#include <exception>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "compute/onnx/opset.h"
#include "onnx/checker.h"
#include "onnx/shape_inference/implementation.h"

namespace paramd {
namespace {

constexpr char kBatch[] = "batch";

// The first version of the file format that has the opset.
int IrVersionOf(int opset) { return opset < 15 ? 7 : 8; }

onnx::TensorProto::DataType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kInt32:
      return onnx::TensorProto::INT32;
    case DType::kInt64:
      return onnx::TensorProto::INT64;
    case DType::kUInt8:
      return onnx::TensorProto::UINT8;
    default:
      return onnx::TensorProto::FLOAT;
  }
}

void Describe(const std::string& name, DType dtype, const Dims& dims,
              onnx::ValueInfoProto* info) {
  info->set_name(name);
  auto* const type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(TypeOf(dtype));
  type->mutable_shape()->add_dim()->set_dim_param(kBatch);
  for (const uint64_t dimension : dims) {
    type->mutable_shape()->add_dim()->set_dim_value(
        static_cast<int64_t>(dimension));
  }
}

struct SetAttribute {
  onnx::AttributeProto* attribute;

  void operator()(int64_t value) const {
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  void operator()(float value) const {
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute->add_ints(value);
  }
};

template <class T>
absl::string_view RawBytes(absl::Span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

}  // namespace

OnnxGraph::OnnxGraph(int opset)
    : opset_(opset), graph_(*model_.mutable_graph()) {
  CHECK(opset >= kLeastOpset && opset <= kMostOpset, "an opset that is known");
  model_.set_ir_version(IrVersionOf(opset));
  auto* const operators = model_.add_opset_import();
  operators->set_domain("");
  operators->set_version(opset);
}

void OnnxGraph::AddInput(const std::string& name, DType dtype,
                         const Dims& dims) {
  CHECK(names_.insert(name).second, "inputs are named first, each once");
  Describe(name, dtype, dims, graph_.add_input());
}

void OnnxGraph::AddOutput(const std::string& value, const std::string& name,
                          const Dims& dims) {
  const std::string unique = Unique(name);
  onnx::NodeProto& node = *graph_.add_node();
  node.set_name(absl::StrCat(unique, "/Identity"));
  node.set_op_type("Identity");
  node.add_input(value);
  node.add_output(unique);
  Describe(unique, DType::kFloat32, dims, graph_.add_output());
}

std::string OnnxGraph::Add(const std::string& op,
                           std::vector<std::string> inputs,
                           const Attributes& attributes) {
  return AddMany(op, std::move(inputs), attributes, 1).front();
}

std::vector<std::string> OnnxGraph::AddMany(const std::string& op,
                                            std::vector<std::string> inputs,
                                            const Attributes& attributes,
                                            size_t outputs) {
  const std::string name = Unique(Local(op));
  onnx::NodeProto& node = *graph_.add_node();
  node.set_name(name);
  node.set_op_type(op);
  for (std::string& input : inputs) *node.add_input() = std::move(input);
  std::vector<std::string> made = {name};
  for (size_t i = 1; i < outputs; ++i) {
    made.push_back(Unique(absl::StrCat(name, ":", i)));
  }
  for (const std::string& output : made) node.add_output(output);
  for (const auto& [key, value] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    absl::visit(SetAttribute{&attribute}, value);
  }
  return made;
}

std::string OnnxGraph::AddConstant(absl::string_view name,
                                   onnx::TensorProto::DataType type,
                                   const Dims& dims, absl::string_view bytes) {
  const std::string unique = Unique(name);
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(unique);
  tensor.set_data_type(type);
  for (const uint64_t dimension : dims) {
    tensor.add_dims(static_cast<int64_t>(dimension));
  }
  tensor.set_raw_data(bytes.data(), bytes.size());
  return unique;
}

std::string OnnxGraph::AddFloats(absl::string_view name, const Dims& dims,
                                 absl::Span<const float> values) {
  return AddConstant(name, onnx::TensorProto::FLOAT, dims, RawBytes(values));
}

std::string OnnxGraph::AddInt64s(absl::string_view name,
                                 std::vector<int64_t> values) {
  return AddConstant(name, onnx::TensorProto::INT64, {values.size()},
                     RawBytes<int64_t>(values));
}

std::string OnnxGraph::Local(absl::string_view part) const {
  return layer_.empty() ? std::string(part) : absl::StrCat(layer_, "/", part);
}

void OnnxGraph::AddMetadata(const std::string& key, const std::string& value) {
  auto* const entry = model_.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

std::string OnnxGraph::Unique(absl::string_view name) {
  std::string unique(name);
  for (int number = 2; !names_.insert(unique).second; ++number) {
    unique = absl::StrCat(name, "_", number);
  }
  return unique;
}

absl::Status CheckOnnx(onnx::ModelProto* model) {
  try {
    onnx::checker::check_model(*model);
    // What is wrong is thrown.
    onnx::shape_inference::InferShapes(
        *model, onnx::OpSchemaRegistry::Instance(),
        {/*check_type=*/true, /*strict_mode=*/1, /*data_prop=*/true});
    model->mutable_graph()->clear_value_info();
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("what was written is no valid ONNX: ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace paramd
