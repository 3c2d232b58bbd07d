#include "compute/quantized/quantized_network.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "compute/model/image_layers.h"
#include "compute/model/network.h"
#include "compute/model/quantization_aware.h"
#include "compute/quantized/integer_run.h"
#include "compute/quantized/quantized_products.h"

namespace paramd {
namespace {

// The plan's layers and which variables they have, as they become.
class Rewriter {
 public:
  // All outlive it.
  Rewriter(const Quantization& quantization, const QuantizedProducts& products,
           NetworkPlan* plan)
      : quantization_(quantization), products_(products), plan_(*plan) {}

  absl::Status Run() {
    const Sequence& layers = *plan_.layers;
    for (size_t i = 0; i < layers.size();) {
      if (products_.At(i) == nullptr) {
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
  void Keep(size_t i) {
    const Layer& layer = plan_.layers->layer(i);
    made_.push_back(plan_.layers->shared_layer(i));
    const size_t first = plan_.layers->first_variable(i);
    for (size_t v = 0; v < layer.variables().size(); ++v) {
      shared_.push_back(plan_.shared[first + v]);
    }
  }

  absl::StatusOr<IntegerProduct> Begin(const FoundProduct& product) const {
    ASSIGN_OR_RETURN(const IntegerTensor* const tensor,
                     products_.TensorOf(product));
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
    const FoundProduct& product = *products_.At(*i);
    ASSIGN_OR_RETURN(IntegerProduct made, Begin(product));
    made.result = IntegerProduct::Result::kSums;
    std::vector<float> bias = products_.BiasOf(product);
    bias.resize(made.outputs);
    const Layer& first = plan_.layers->layer(*i);
    made_.push_back(std::make_shared<DynamicDense>(
        first.name(), first.input_dims(),
        plan_.layers->layer(product.end - 1).output_dims(), std::move(made),
        (*products_.TensorOf(product))->scales, std::move(bias),
        FlopsOf(*i, product.end)));
    *i = product.end;
    return absl::OkStatus();
  }

  absl::Status AddRun(size_t* i) {
    const size_t begin = *i;
    const FoundProduct* product = products_.At(begin);
    const Layer& first = plan_.layers->layer(begin);
    const Affine affine = products_.InputOf(*product);
    std::vector<IntegerRun::Step> steps;
    while (true) {
      std::vector<const Pool*> pools;
      const FoundProduct* const next = products_.Next(*product, &pools);
      const Layer& layer = plan_.layers->layer(product->layer);
      const Affine input = products_.InputOf(*product);
      IntegerRun::Step& step = steps.emplace_back();
      ASSIGN_OR_RETURN(step.product, Begin(*product));
      if (next != nullptr) {
        step.product.result = IntegerProduct::Result::kIntegers;
      }
      SetScales(
          input.scale, input.zero_point,
          (*products_.TensorOf(*product))->scales, products_.BiasOf(*product),
          next == nullptr ? 1 : products_.InputOf(*next).scale, &step.product);
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
        plan_.layers->layer(product->end - 1).output_dims(),
        static_cast<int>(quantization_.activation_bits), affine,
        std::move(steps), FlopsOf(begin, product->end)));
    *i = product->end;
    return absl::OkStatus();
  }

  const Quantization& quantization_;
  const QuantizedProducts& products_;
  NetworkPlan& plan_;
  Sequence::Layers made_;
  std::vector<size_t> shared_;
};

}  // namespace

absl::Status UseIntegers(const Quantization& quantization,
                         const IntegerTensors& tensors, WeightSpans weights,
                         NetworkPlan* plan) {
  ASSIGN_OR_RETURN(
      const QuantizedProducts products,
      QuantizedProducts::Find(quantization, tensors, weights, *plan));
  return Rewriter(quantization, products, plan).Run();
}

absl::StatusOr<std::unique_ptr<TrainedModel>> OpenQuantized(
    const v1::ModelConfig& model, const InputSpec& input,
    const std::string& directory, WeightSpans weights,
    IntegerKernels::Use use) {
  ASSIGN_OR_RETURN(std::unique_ptr<NetworkPlan> plan,
                   PlanNetwork(model, input));
  RemoveTransforms(plan.get());  // The integers are what they stand for.
  ASSIGN_OR_RETURN(const Quantization quantization,
                   ReadQuantization(directory));
  ASSIGN_OR_RETURN(const IntegerTensors tensors,
                   ReadIntegers(directory, quantization));
  RETURN_IF_ERROR(UseIntegers(quantization, tensors, weights, plan.get()));
  return std::make_unique<Network>(
      std::move(plan), [use] { return std::make_unique<IntegerDevice>(use); },
      "cpu");
}

}  // namespace paramd
