#include "worker/model/model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "worker/model/dense.h"
#include "worker/model/relu_layer.h"

namespace paramd {
namespace {

using Shape = std::vector<uint64_t>;

std::string ShapeText(const Shape& shape) { return absl::StrJoin(shape, "x"); }

// Follows the shape of one example through the layers and makes them.
class LayerBuilder {
 public:
  explicit LayerBuilder(Shape shape) : shape_(std::move(shape)) {}

  absl::Status Add(const v1::Layer& layer) {
    ++position_;
    switch (layer.kind_case()) {
      case v1::Layer::kFlatten:
        last_ = NextName("flatten");
        shape_ = {Width()};
        return absl::OkStatus();
      case v1::Layer::kDense:
        return AddDense(layer.dense());
      case v1::Layer::kRelu:
        last_ = NextName("relu");
        layers_.push_back(std::make_unique<ReluLayer>(Width()));
        return absl::OkStatus();
      case v1::Layer::KIND_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "layer ", position_,
        " of the model has no known kind; flatten, dense and relu are known"));
  }

  // Whether the loss can take what comes out for so many classes.
  absl::Status CheckOutput(uint32_t classes) const {
    if (layers_.empty()) {
      return absl::InvalidArgumentError(
          "the model computes nothing; give it at least one dense layer");
    }
    if (shape_.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the loss softmax_cross_entropy needs a flat output; "
                       "the last layer '",
                       last_, "' gives ", ShapeText(shape_)));
    }
    if (shape_[0] < classes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the last layer '", last_, "' gives ", shape_[0],
          " values; the input has ", classes, " classes and needs one each"));
    }
    return absl::OkStatus();
  }

  std::vector<std::unique_ptr<Layer>> Release() { return std::move(layers_); }

 private:
  absl::Status AddDense(const v1::Layer::Dense& dense) {
    last_ = NextName("dense");
    if (shape_.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("dense layer '", last_, "' needs a flat input; it gets ",
                       ShapeText(shape_), ": put \"flatten\" before it"));
    }
    if (dense.units() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("dense layer '", last_, "' has no units"));
    }
    if (shape_[0] > Model::kMaxVariableSize / dense.units()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dense layer '", last_, "' from ", shape_[0], " to ", dense.units(),
          " values is too large; a variable has at most ",
          Model::kMaxVariableSize));
    }
    layers_.push_back(std::make_unique<Dense>(last_, shape_[0], dense.units()));
    shape_ = {dense.units()};
    return absl::OkStatus();
  }

  std::string NextName(const std::string& kind) {
    return absl::StrCat(kind, "_", ++counts_[kind]);
  }

  uint64_t Width() const {
    uint64_t width = 1;
    for (const uint64_t dimension : shape_) width *= dimension;
    return width;
  }

  Shape shape_;
  int position_ = 0;
  std::string last_;  // Name of the layer added last.
  std::map<std::string, int> counts_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

absl::Status CheckInput(const InputSpec& input) {
  uint64_t width = 1;
  for (const uint64_t dimension : input.example_shape) {
    // BLAS counts in 32 bits.
    if (dimension == 0 ||
        width > std::numeric_limits<int32_t>::max() / dimension) {
      return absl::InvalidArgumentError(
          absl::StrCat("examples of ", ShapeText(input.example_shape),
                       " values can't be trained on"));
    }
    width *= dimension;
  }
  return absl::OkStatus();
}

size_t VariableSize(const v1::Variable& variable) {
  size_t size = 1;
  for (const uint64_t dimension : variable.shape()) size *= dimension;
  return size;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Create(
    const v1::ModelConfig& config, const InputSpec& input) {
  RETURN_IF_ERROR(CheckInput(input));
  if (config.layers().empty()) {
    return absl::InvalidArgumentError("the model has no layers");
  }
  if (config.loss() != v1::SOFTMAX_CROSS_ENTROPY) {
    return absl::InvalidArgumentError(
        "the model has no known loss; softmax_cross_entropy is known");
  }
  LayerBuilder builder(input.example_shape);
  for (const v1::Layer& layer : config.layers()) {
    RETURN_IF_ERROR(builder.Add(layer));
  }
  RETURN_IF_ERROR(builder.CheckOutput(input.classes));
  return std::unique_ptr<Model>(
      new Model(builder.Release(), input.example_size()));
}

Model::Model(std::vector<std::unique_ptr<Layer>> layers, uint64_t input_width)
    : input_width_(input_width) {
  size_t width = input_width;
  for (std::unique_ptr<Layer>& layer : layers) {
    Stage stage;
    stage.input_width = width;
    stage.first_variable = variables_.size();
    width = layer->output_width();
    for (const v1::Variable& variable : layer->variables()) {
      variables_.push_back(variable);
      variable_sizes_.push_back(VariableSize(variable));
    }
    stage.layer = std::move(layer);
    stages_.push_back(std::move(stage));
  }
}

BatchResult Model::ComputeGradient(WeightSpans weights, const Batch& batch,
                                   float divisor, GradientSpans gradients,
                                   Ready ready) {
  CHECK(divisor > 0, "the divisor of a gradient is above 0");
  CheckSizes(weights, batch);
  CHECK(gradients.size() == variables_.size(),
        "there is one gradient per variable");
  for (size_t i = 0; i < gradients.size(); ++i) {
    CHECK(gradients[i].size() == variable_sizes_[i],
          "a gradient has the size of its variable");
  }
  Forward(weights, batch);
  const ConstMatrix output = Output(stages_.size() - 1, batch.size());
  const BatchResult result =
      SoftmaxCrossEntropy(output, batch.labels, 1.0f / divisor,
                          {gradient_.data(), output.rows, output.columns});
  if (std::isfinite(result.loss_sum)) {
    Backward(weights, batch, gradients, ready);
  } else {
    Backward(weights, batch, gradients, [](size_t) {});
  }
  return result;
}

BatchResult Model::Evaluate(WeightSpans weights, const Batch& batch) {
  CheckSizes(weights, batch);
  Forward(weights, batch);
  return SoftmaxCrossEntropy(Output(stages_.size() - 1, batch.size()),
                             batch.labels, 1.0f, Matrix());
}

void Model::Reserve(size_t rows) {
  if (rows <= reserved_rows_) return;
  size_t widest = 0;
  for (Stage& stage : stages_) {
    const size_t width = stage.layer->output_width();
    stage.output.resize(rows * width);
    widest = std::max(widest, width);
  }
  gradient_.resize(rows * widest);
  next_gradient_.resize(rows * widest);
  reserved_rows_ = rows;
}

void Model::CheckSizes(WeightSpans weights, const Batch& batch) const {
  CHECK(batch.examples.size() == batch.size() * input_width_,
        "a batch has one row of the model's input per label");
  CHECK(weights.size() == variables_.size(),
        "there is one span of weights per variable");
  for (size_t i = 0; i < weights.size(); ++i) {
    CHECK(weights[i].size() == variable_sizes_[i],
          "weights have the size of their variable");
  }
}

Matrix Model::Output(size_t stage, size_t rows) {
  return {stages_[stage].output.data(), rows,
          stages_[stage].layer->output_width()};
}

ConstMatrix Model::Input(size_t stage, const Batch& batch) {
  if (stage > 0) return Output(stage - 1, batch.size());
  return {batch.examples.data(), batch.size(), input_width_};
}

void Model::Forward(WeightSpans weights, const Batch& batch) {
  Reserve(std::max<size_t>(batch.size(), 1));
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (IsAbandoned()) return;
    const Stage& stage = stages_[i];
    stage.layer->Forward(
        weights.subspan(stage.first_variable, stage.layer->variables().size()),
        Input(i, batch), Output(i, batch.size()));
  }
}

void Model::Backward(WeightSpans weights, const Batch& batch,
                     GradientSpans gradients, Ready ready) {
  const size_t rows = batch.size();
  for (size_t i = stages_.size(); i-- > 0;) {
    if (IsAbandoned()) return;
    const Stage& stage = stages_[i];
    const size_t count = stage.layer->variables().size();
    Layer::BackwardPass pass;
    pass.weights = weights.subspan(stage.first_variable, count);
    pass.gradients = gradients.subspan(stage.first_variable, count);
    pass.input = Input(i, batch);
    pass.output = Output(i, rows);
    pass.output_gradient = {gradient_.data(), rows, pass.output.columns};
    // Nobody trains the input.
    if (i > 0) {
      pass.input_gradient = {next_gradient_.data(), rows, pass.input.columns};
    }
    stage.layer->Backward(pass);
    for (size_t v = count; v-- > 0;) ready(stage.first_variable + v);
    std::swap(gradient_, next_gradient_);
  }
}

}  // namespace paramd
