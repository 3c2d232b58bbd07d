#include "compute/quantized/quantized_network.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "compute/model/attention.h"
#include "compute/model/image_layers.h"
#include "compute/model/nested_layers.h"
#include "compute/model/network.h"
#include "compute/model/quantization_aware.h"
#include "compute/quantized/integer_attention.h"
#include "compute/quantized/integer_run.h"
#include "compute/quantized/quantized_products.h"

namespace paramd {
namespace {

// What stands for the layers that are products.
class IntegerLayers {
 public:
  // Both outlive it.
  IntegerLayers(const Quantization& quantization,
                const QuantizedProducts& products)
      : quantization_(quantization), products_(products) {}

  // For a layer, and those behind it that are computed with it; see Rebuild.
  Replacement At(const Layer& layer) const {
    const FoundProduct* const product = products_.At(layer);
    if (product == nullptr) return {};
    if (product->kind == FoundProduct::Kind::kProjection) {
      const auto& attention = static_cast<const Attention&>(layer);
      const FoundProduct* const output =
          products_.At(layer, Attention::kOutputKernel);
      return {std::make_shared<IntegerAttention>(
                  attention, Make(*product).layer, Make(*output).layer),
              product->end};
    }
    Made made = Make(*product);
    return {std::move(made.layer), made.end};
  }

 private:
  struct Made {
    std::unique_ptr<const Layer> layer;
    size_t end = 0;
  };

  Made Make(const FoundProduct& product) const {
    return products_.mode() == Quantization::Mode::kDynamic
               ? MakeDynamic(product)
               : MakeRun(product);
  }

  IntegerProduct Begin(const FoundProduct& product) const {
    const v1::Variable& kernel = product.kernel_variable();
    IntegerProduct made;
    made.weights = products_.TensorOf(product).values;
    made.outputs = kernel.shape(kernel.shape_size() - 1);
    made.inputs = made.weights.size() / made.outputs;
    // As they are: what the file says need not be so.
    made.most = 1;
    for (const int8_t weight : made.weights) {
      made.most = std::max<int>(made.most, std::abs(int{weight}));
    }
    made.relu = product.relu;
    if (product.is_convolution()) {
      made.convolution =
          static_cast<const Conv2d&>(product.At(product.layer)).Shape(1);
    }
    return made;
  }

  // Of the layers of a product's sequence from it to the end of another.
  uint64_t FlopsOf(const FoundProduct& product, size_t end) const {
    uint64_t flops = 0;
    for (size_t i = product.layer; i < end; ++i) {
      const Layer& layer = product.At(i);
      if (!layer.is_view()) flops += layer.flops();
    }
    return flops;
  }

  Made MakeDynamic(const FoundProduct& product) const {
    IntegerProduct made = Begin(product);
    made.result = IntegerProduct::Result::kSums;
    std::vector<float> bias = products_.BiasOf(product);
    bias.resize(made.outputs);
    return {std::make_unique<DynamicDense>(
                product.name, product.input_dims, product.end_dims,
                std::move(made), products_.TensorOf(product).scales,
                std::move(bias), FlopsOf(product, product.end)),
            product.end};
  }

  Made MakeRun(const FoundProduct& first) const {
    const FoundProduct* product = &first;
    std::vector<IntegerRun::Step> steps;
    while (true) {
      std::vector<const Pool*> pools;
      const FoundProduct* const next = products_.Next(*product, &pools);
      const Affine input = products_.InputOf(*product);
      IntegerRun::Step& step = steps.emplace_back();
      step.product = Begin(*product);
      if (next != nullptr) {
        step.product.result = IntegerProduct::Result::kIntegers;
      }
      SetScales(input.scale, input.zero_point,
                products_.TensorOf(*product).scales, products_.BiasOf(*product),
                next == nullptr ? 1 : products_.InputOf(*next).scale,
                &step.product);
      step.rows = product->is_convolution()
                      ? 1
                      : SizeOf(product->input_dims) / step.product.inputs;
      step.outputs = SizeOf(product->output_dims);
      if (next == nullptr) break;
      for (const Pool* const pool : pools) {
        IntegerRun::Step& pooled = steps.emplace_back();
        pooled.pool = pool->Shape(1).window;
        pooled.outputs = pool->output_size();
      }
      product = next;
    }
    return {std::make_unique<IntegerRun>(
                first.name, first.input_dims, product->end_dims,
                static_cast<int>(quantization_.activation_bits),
                products_.InputOf(first), std::move(steps),
                FlopsOf(first, product->end)),
            product->end};
  }

  const Quantization& quantization_;
  const QuantizedProducts& products_;
};

// Gives a plan these layers, whose variables are among the plan's.
void UseLayers(std::unique_ptr<Sequence> layers, NetworkPlan* plan) {
  std::map<std::string, size_t> places;
  for (size_t v = 0; v < plan->variables.size(); ++v) {
    places[plan->variables[v].name()] = v;
  }
  plan->shared.clear();
  for (const v1::Variable& variable : layers->variables()) {
    plan->shared.push_back(places.at(variable.name()));
  }
  plan->layers = std::move(layers);
}

}  // namespace

absl::Status UseIntegers(const Quantization& quantization,
                         const IntegerTensors& tensors, WeightSpans weights,
                         NetworkPlan* plan) {
  ASSIGN_OR_RETURN(
      const QuantizedProducts products,
      QuantizedProducts::Find(quantization, tensors, weights, *plan));
  const IntegerLayers integers(quantization, products);
  UseLayers(Rebuild(*plan->layers,
                    [&](const Sequence& sequence, size_t layer) {
                      return integers.At(sequence.layer(layer));
                    }),
            plan);
  return absl::OkStatus();
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
