#include "worker/quantized/quantized_network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "worker/model/image_layers.h"
#include "worker/model/network.h"
#include "worker/model/norm_layers.h"
#include "worker/quantized/integer_run.h"
#include "worker/quantized/products.h"

namespace paramd {
namespace {

constexpr size_t kShiftOfBatchNorm = 1;

// The plan's layers and which variables they have, as they become.
class Rewriter {
 public:
  Rewriter(const Quantization& quantization, const IntegerTensors& tensors,
           WeightSpans weights, NetworkPlan* plan)
      : quantization_(quantization),
        tensors_(tensors),
        weights_(weights),
        plan_(*plan) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Find());
    const Sequence& layers = *plan_.layers;
    for (size_t i = 0; i < layers.size();) {
      if (products_.count(i) == 0) {
        Keep(i++);
      } else if (quantization_.mode == Quantization::Mode::kDynamic) {
        RETURN_IF_ERROR(AddDynamic(&i));
      } else {
        RETURN_IF_ERROR(AddRun(&i));
      }
    }
    plan_.layers = std::make_unique<Sequence>("layers", made_);
    plan_.shared = std::move(shared_);
    return absl::OkStatus();
  }

 private:
  // Which of the plan's products are quantised, by their layer.
  absl::Status Find() {
    const FoundProducts found = FindProducts(plan_, quantization_.mode);
    for (const Quantization::Layer& layer : quantization_.layers) {
      const auto product = std::find_if(
          found.products.begin(), found.products.end(),
          [&](const FoundProduct& one) { return Matches(one, layer); });
      if (product == found.products.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the checkpoint is quantised for another model: its ", layer.kind,
            " layer '", layer.name,
            layer.folded.empty()
                ? std::string("'")
                : absl::StrCat("' with '", layer.folded, "' behind it"),
            " is none of the job's"));
      }
      products_.emplace(product->layer, *product);
    }
    return absl::OkStatus();
  }

  bool Matches(const FoundProduct& product,
               const Quantization::Layer& layer) const {
    const std::string folded =
        product.batch_norm.has_value()
            ? plan_.layers->layer(*product.batch_norm).name()
            : "";
    return NameOf(product) == layer.name && product.kind() == layer.kind &&
           folded == layer.folded;
  }

  const std::string& NameOf(const FoundProduct& product) const {
    return plan_.layers->layer(product.layer).name();
  }

  void Keep(size_t i) {
    const Layer& layer = plan_.layers->layer(i);
    made_.push_back(plan_.layers->shared_layer(i));
    const size_t first = plan_.layers->first_variable(i);
    for (size_t v = 0; v < layer.variables().size(); ++v) {
      shared_.push_back(plan_.shared[first + v]);
    }
  }

  const Quantization::Input& InputOf(const FoundProduct& product) const {
    return *quantization_.Find(NameOf(product))->input;
  }

  absl::StatusOr<const IntegerTensor*> TensorOf(
      const FoundProduct& product) const {
    const v1::Variable& variable =
        plan_.variables[VariableOf(plan_, product.layer, 0)];
    const auto found = tensors_.find(variable.name());
    const Dims dims(variable.shape().begin(), variable.shape().end());
    if (found != tensors_.end() &&
        found->second.values.size() == SizeOf(dims) &&
        (found->second.scales.size() == 1 ||
         found->second.scales.size() == dims.back())) {
      return &found->second;
    }
    return absl::DataLossError(
        absl::StrCat("the checkpoint has no integers of the shape of '",
                     variable.name(), "'"));
  }

  // What a batch norm was folded into has all of the bias in the batch norm.
  std::vector<float> BiasOf(const FoundProduct& product) const {
    const bool is_folded = product.batch_norm.has_value();
    const size_t layer = is_folded ? *product.batch_norm : product.layer;
    const size_t place = is_folded ? kShiftOfBatchNorm : 1;
    if (place >= plan_.layers->layer(layer).variables().size()) return {};
    const auto bias = weights_[VariableOf(plan_, layer, place)];
    return {bias.begin(), bias.end()};
  }

  absl::StatusOr<IntegerProduct> Begin(const FoundProduct& product) const {
    ASSIGN_OR_RETURN(const IntegerTensor* const tensor, TensorOf(product));
    const v1::Variable& kernel =
        plan_.variables[VariableOf(plan_, product.layer, 0)];
    IntegerProduct made;
    made.outputs = kernel.shape(kernel.shape_size() - 1);
    made.inputs = tensor->values.size() / made.outputs;
    made.weights = tensor->values;
    // As they are: what the file says need not be so.
    made.most = 1;
    for (const int8_t weight : made.weights) {
      made.most = std::max<int>(made.most, std::abs(int{weight}));
    }
    made.relu = product.relu;
    if (product.is_convolution) {
      made.convolution =
          static_cast<const Conv2d&>(plan_.layers->layer(product.layer))
              .Shape(1);
    }
    return made;
  }

  uint64_t FlopsOf(size_t begin, size_t end) const {
    uint64_t flops = 0;
    for (size_t i = begin; i < end; ++i) {
      const Layer& layer = plan_.layers->layer(i);
      if (!layer.is_view()) flops += layer.flops();
    }
    return flops;
  }

  absl::Status AddDynamic(size_t* i) {
    const FoundProduct& product = products_.at(*i);
    ASSIGN_OR_RETURN(IntegerProduct made, Begin(product));
    made.result = IntegerProduct::Result::kSums;
    std::vector<float> bias = BiasOf(product);
    bias.resize(made.outputs);
    const Layer& first = plan_.layers->layer(*i);
    made_.push_back(std::make_shared<DynamicDense>(
        first.name(), first.input_dims(),
        plan_.layers->layer(product.end - 1).output_dims(), std::move(made),
        (*TensorOf(product))->scales, std::move(bias),
        FlopsOf(*i, product.end)));
    *i = product.end;
    return absl::OkStatus();
  }

  // The product that takes what `product` gives as integers, with the pools
  // between both; null: none does. Without relu, or where an input is cut
  // below 0, what lies between is not what both mean.
  const FoundProduct* Next(const FoundProduct& product,
                           std::vector<const Pool*>* pools) const {
    if (!product.relu) return nullptr;
    for (size_t i = product.end; i < plan_.layers->size(); ++i) {
      const Layer& layer = plan_.layers->layer(i);
      const auto found = products_.find(i);
      if (found != products_.end()) {
        return InputOf(found->second).zero_point == 0 ? &found->second
                                                      : nullptr;
      }
      if (PassesOn(layer)) continue;
      const auto* const pool = dynamic_cast<const Pool*>(&layer);
      if (pool == nullptr || pool->Shape(1).kind != Pooling::Kind::kMax) {
        return nullptr;
      }
      pools->push_back(pool);
    }
    return nullptr;
  }

  absl::Status AddRun(size_t* i) {
    const size_t begin = *i;
    const FoundProduct* product = &products_.at(begin);
    const Layer& first = plan_.layers->layer(begin);
    const Affine affine = AffineOf(*product);
    std::vector<IntegerRun::Step> steps;
    while (true) {
      std::vector<const Pool*> pools;
      const FoundProduct* const next = Next(*product, &pools);
      const Layer& layer = plan_.layers->layer(product->layer);
      const Quantization::Input& input = InputOf(*product);
      IntegerRun::Step& step = steps.emplace_back();
      ASSIGN_OR_RETURN(step.product, Begin(*product));
      if (next != nullptr) {
        step.product.result = IntegerProduct::Result::kInt8;
      }
      SetScales(input.scale, static_cast<uint8_t>(input.zero_point),
                (*TensorOf(*product))->scales, BiasOf(*product),
                next == nullptr ? 1 : InputOf(*next).scale, &step.product);
      step.rows = product->is_convolution
                      ? 1
                      : layer.input_size() / step.product.inputs;
      step.outputs = layer.output_size();
      if (next == nullptr) break;
      for (const Pool* const pool : pools) {
        IntegerRun::Step& pooled = steps.emplace_back();
        pooled.pool = pool->Shape(1).window;
        pooled.outputs = pool->output_size();
      }
      product = next;
    }
    made_.push_back(std::make_shared<IntegerRun>(
        first.name(), first.input_dims(),
        plan_.layers->layer(product->end - 1).output_dims(), affine,
        std::move(steps), FlopsOf(begin, product->end)));
    *i = product->end;
    return absl::OkStatus();
  }

  Affine AffineOf(const FoundProduct& product) const {
    const Quantization::Input& input = InputOf(product);
    return {input.scale, static_cast<uint8_t>(input.zero_point)};
  }

  const Quantization& quantization_;
  const IntegerTensors& tensors_;
  const WeightSpans weights_;
  NetworkPlan& plan_;
  std::map<size_t, FoundProduct> products_;
  Sequence::Layers made_;
  std::vector<size_t> shared_;
};

}  // namespace

absl::Status UseIntegers(const Quantization& quantization,
                         const IntegerTensors& tensors, WeightSpans weights,
                         NetworkPlan* plan) {
  return Rewriter(quantization, tensors, weights, plan).Run();
}

absl::StatusOr<std::unique_ptr<TrainedModel>> OpenQuantized(
    const v1::ModelConfig& model, const InputSpec& input,
    const std::string& directory, WeightSpans weights,
    IntegerKernels::Use use) {
  ASSIGN_OR_RETURN(std::unique_ptr<NetworkPlan> plan,
                   PlanNetwork(model, input));
  ASSIGN_OR_RETURN(const Quantization quantization,
                   ReadQuantization(directory));
  std::vector<std::string> names;
  for (const Quantization::Layer& layer : quantization.layers) {
    names.push_back(absl::StrCat(layer.name, "/kernel"));
  }
  ASSIGN_OR_RETURN(const IntegerTensors tensors,
                   ReadIntegerTensors(directory, names));
  RETURN_IF_ERROR(UseIntegers(quantization, tensors, weights, plan.get()));
  return std::make_unique<Network>(
      std::move(plan), [use] { return std::make_unique<IntegerDevice>(use); },
      "cpu");
}

}  // namespace paramd
