#include "compute/onnx/write_model.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "base/status_macros.h"
#include "compute/model/parallel.h"
#include "compute/model/quantization_aware.h"
#include "compute/onnx/onnx_graph.h"
#include "compute/onnx/onnx_weights.h"
#include "compute/onnx/write_layers.h"

namespace paramd {
namespace {

using Mode = Quantization::Mode;

// A protocol buffer is shorter; names and nodes take the rest.
constexpr uint64_t kMostWeightBytes =
    static_cast<uint64_t>(std::numeric_limits<int32_t>::max()) - (64 << 20);

absl::Status CheckTables(const NetworkPlan& plan) {
  for (const v1::Variable& variable : plan.variables) {
    if (!variable.keyed()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the variable '", variable.name(),
        "' has rows by key (capacity), which ONNX can't look up: export it as "
        "safetensors, which has the keys beside the rows"));
  }
  return absl::OkStatus();
}

NumberFormat MatricesOf(const OnnxIntegers* integers) {
  if (integers == nullptr) return NumberFormat::kFp32;
  switch (integers->quantization.mode) {
    case Mode::kFloat16:
      return NumberFormat::kFp16;
    case Mode::kBFloat16:
      return NumberFormat::kBf16;
    case Mode::kStatic:
    case Mode::kDynamic:
      break;
  }
  return NumberFormat::kFp32;
}

absl::Status CheckBytes(const NetworkPlan& plan, const OnnxIntegers* integers) {
  uint64_t bytes = 0;
  for (const v1::Variable& variable : plan.variables) {
    const Dims dims(variable.shape().begin(), variable.shape().end());
    uint64_t of_one = sizeof(float);
    if (integers != nullptr && integers->tensors.count(variable.name()) > 0) {
      of_one = 1;
    } else if (dims.size() > 1) {
      of_one = BytesOf(MatricesOf(integers));
    }
    bytes += SizeOf(dims) * of_one;
  }
  if (bytes <= kMostWeightBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the weights are ", bytes, " bytes, and an ONNX file holds ",
      kMostWeightBytes,
      " at most: quantise the checkpoint first (paramd quantize), or export it "
      "as safetensors"));
}

// What a loss makes of outputs: see Loss::Predict.
std::string WritePredictionOf(const Task& task, const std::string& outputs,
                              OnnxGraph* graph) {
  switch (task.loss->row_loss().kind) {
    case RowLoss::Kind::kSoftmaxCrossEntropy:
    case RowLoss::Kind::kDivergence:
      return graph->Add("Softmax", {outputs}, {{"axis", int64_t{-1}}});
    case RowLoss::Kind::kBinaryCrossEntropy:
      return graph->Add("Sigmoid", {outputs});
    case RowLoss::Kind::kInBatchSoftmax: {
      // Of [batch, 2, width].
      const std::string products = graph->Add(
          "ReduceProd", {outputs},
          {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
      return graph->Add("ReduceSum",
                        {products, graph->AddInt64s(graph->Local("axes"), {1})},
                        {{"keepdims", int64_t{1}}});
    }
    case RowLoss::Kind::kSquaredError:
      break;
  }
  return outputs;
}

class ModelWriter {
 public:
  ModelWriter(const NetworkPlan& plan, WeightSpans weights,
              const OnnxIntegers* integers, OnnxGraph* graph)
      : plan_(plan),
        integers_(integers),
        weights_(plan, weights, MatricesOf(integers), graph),
        graph_(*graph) {}

  absl::Status Run(WeightSpans weights) {
    if (integers_ != nullptr && integers_->quantization.has_integers()) {
      ASSIGN_OR_RETURN(
          QuantizedProducts found,
          QuantizedProducts::Find(integers_->quantization, integers_->tensors,
                                  weights, plan_));
      products_.emplace(std::move(found));
    }
    for (const NetworkPlan::Input& input : plan_.inputs) {
      const FeatureSpec& feature = input.feature;
      graph_.AddInput(feature.name, feature.dtype, feature.dims);
      inputs_.push_back({feature.name, feature.dims});
    }
    const size_t layers = plan_.layers->size();
    // The layers of several outputs are branches of the last one.
    ASSIGN_OR_RETURN(
        const OnnxValue value,
        WriteSequenceUntil(*plan_.layers,
                           plan_.IsOfOneTask() ? layers : layers - 1,
                           PassFrom(0, inputs_.front())));
    if (plan_.IsOfOneTask()) {
      AddPrediction(plan_.tasks.front(), "prediction", value);
      return absl::OkStatus();
    }
    return WriteTasks(value);
  }

 private:
  OnnxPass PassFrom(size_t first_variable, const OnnxValue& input) {
    return {&graph_,        &weights_,
            &inputs_,       products_.has_value() ? &*products_ : nullptr,
            first_variable, input};
  }

  absl::Status WriteTasks(const OnnxValue& value) {
    const size_t last = plan_.layers->size() - 1;
    const auto& branches =
        static_cast<const Parallel&>(plan_.layers->layer(last));
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      ASSIGN_OR_RETURN(
          const OnnxValue outputs,
          WriteSequence(branches.branch_layers(t),
                        PassFrom(plan_.layers->first_variable(last) +
                                     branches.first_variable(t),
                                 value)));
      AddPrediction(plan_.tasks[t], plan_.tasks[t].name, outputs);
    }
    return absl::OkStatus();
  }

  void AddPrediction(const Task& task, const std::string& name,
                     const OnnxValue& value) {
    graph_.Enter(name);
    const OnnxValue outputs = AsDims(&graph_, value, task.dims);
    graph_.AddOutput(WritePredictionOf(task, outputs.name, &graph_), name,
                     task.prediction_dims());
  }

  const NetworkPlan& plan_;
  const OnnxIntegers* const integers_;
  OnnxWeights weights_;
  OnnxGraph& graph_;
  absl::optional<QuantizedProducts> products_;
  std::vector<OnnxValue> inputs_;
};

void DescribeModel(const OnnxOptions& options, OnnxGraph* graph) {
  onnx::ModelProto& model = *graph->model();
  model.set_producer_name("paramd");
  model.set_producer_version(options.version);
  model.set_model_version(static_cast<int64_t>(options.step));
  model.mutable_graph()->set_name(options.name.empty() ? "paramd"
                                                       : options.name);
  for (const auto& [key, value] : options.metadata) {
    graph->AddMetadata(key, value);
  }
}

}  // namespace

absl::Status CheckFitsOnnx(const NetworkPlan& plan,
                           const OnnxIntegers* integers) {
  RETURN_IF_ERROR(CheckTables(plan));
  if (HasTransforms(plan)) {
    return absl::InvalidArgumentError(
        "the model was trained to be quantised (quantization_aware): what it "
        "computes is exported once it is; run paramd quantize first");
  }
  if (integers != nullptr && integers->quantization.activation_bits != 8) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the checkpoint's layers get integers of ",
        integers->quantization.activation_bits,
        " bits, which ONNX quantises to from opset 21 on: quantise the model "
        "again without --activation_bits for ONNX, whose opsets here are ",
        kLeastOpset, " to ", kMostOpset));
  }
  return CheckBytes(plan, integers);
}

absl::StatusOr<std::string> WriteOnnxModel(const NetworkPlan& plan,
                                           WeightSpans weights,
                                           const OnnxIntegers* integers,
                                           const OnnxOptions& options) {
  RETURN_IF_ERROR(CheckFitsOnnx(plan, integers));
  OnnxGraph graph(options.opset);
  RETURN_IF_ERROR(ModelWriter(plan, weights, integers, &graph).Run(weights));
  DescribeModel(options, &graph);
  RETURN_IF_ERROR(CheckOnnx(graph.model()));
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  if (!graph.model()->SerializeToCodedStream(&coded)) {
    return absl::InternalError("the ONNX model can't be serialised");
  }
  coded.Trim();
  return bytes;
}

}  // namespace paramd
