#ifndef PARAMD_COMPUTE_ONNX_ONNX_GRAPH_H_
#define PARAMD_COMPUTE_ONNX_ONNX_GRAPH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "absl/types/variant.h"

#include "onnx/onnx_pb.h"
#include "tensor/tensor.h"

namespace paramd {

// A model that is written: nodes, one behind the other, and constants. Every
// value has a name of its own; the same calls give the same bytes. Not
// thread-safe.
class OnnxGraph {
 public:
  using Attribute = absl::variant<int64_t, float, std::vector<int64_t>>;
  using Attributes = std::vector<std::pair<std::string, Attribute>>;

  // REQUIRES: the opset is one of those of opset.h.
  explicit OnnxGraph(int opset);

  int opset() const { return opset_; }

  // Nodes and constants that are added from now on are named after this.
  void Enter(absl::string_view layer) { layer_ = std::string(layer); }
  const std::string& layer() const { return layer_; }

  // A value that is handed in, [batch, dims...]. REQUIRES: the name is free.
  void AddInput(const std::string& name, DType dtype, const Dims& dims);
  // The value `value` is handed out, as `name` or, if that is taken, with a
  // number behind it: [batch, dims...] of float32.
  void AddOutput(const std::string& value, const std::string& name,
                 const Dims& dims);

  // Adds a node, and returns the name of what it gives; of `outputs` values.
  std::string Add(const std::string& op, std::vector<std::string> inputs,
                  const Attributes& attributes = {});
  std::vector<std::string> AddMany(const std::string& op,
                                   std::vector<std::string> inputs,
                                   const Attributes& attributes,
                                   size_t outputs);

  // Adds a constant of these bytes, and returns its name: `name`, with a number
  // behind it if that is taken.
  std::string AddConstant(absl::string_view name,
                          onnx::TensorProto::DataType type, const Dims& dims,
                          absl::string_view bytes);
  std::string AddFloats(absl::string_view name, const Dims& dims,
                        absl::Span<const float> values);
  std::string AddFloat(absl::string_view name, float value) {
    return AddFloats(name, {}, {value});
  }
  // A vector.
  std::string AddInt64s(absl::string_view name, std::vector<int64_t> values);
  // Named after the layer: "dense_1/shape".
  std::string Local(absl::string_view part) const;

  // What people and programs find beside the graph.
  void AddMetadata(const std::string& key, const std::string& value);
  onnx::ModelProto* model() { return &model_; }

 private:
  // `name`, or with a number behind it.
  std::string Unique(absl::string_view name);

  const int opset_;
  onnx::ModelProto model_;
  onnx::GraphProto& graph_;
  absl::flat_hash_set<std::string> names_;
  std::string layer_;
};

// Whether ONNX's own checker and shape inference, at their strictest, find
// nothing wrong; INTERNAL, with what they say, else: a fault of paramd.
// The model stays as it is.
absl::Status CheckOnnx(onnx::ModelProto* model);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_ONNX_ONNX_GRAPH_H_
