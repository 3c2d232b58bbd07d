#include "compute/quantized/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "compute/device/cpu_device.h"
#include "compute/model/attention.h"
#include "compute/model/nested_layers.h"
#include "compute/model/network.h"
#include "compute/model/norm_layers.h"
#include "compute/model/quantization_aware.h"
#include "compute/model/transformed_layer.h"
#include "compute/quantized/affine.h"
#include "compute/quantized/observer.h"
#include "compute/quantized/products.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

using Mode = Quantization::Mode;

// What a product was seen to get. Not thread-safe.
struct Seen {
  std::unique_ptr<Observer> observer;
  bool finite = true;

  void Add(const ConstTensor& input) {
    const auto values = input.values<float>();
    finite =
        finite && std::all_of(values.begin(), values.end(),
                              [](float value) { return std::isfinite(value); });
    if (finite) observer->Add(values);
  }
};

// By the product's name.
using SeenInputs = std::map<std::string, Seen>;

// Looks at what a layer gets, and changes nothing. Not thread-safe.
class Tap : public LayerTransform {
 public:
  // `seen` outlives it.
  explicit Tap(Seen* seen) : seen_(*seen) {}

  ConstTensor Input(const Use&, const ConstTensor& input,
                    const Tensor& /*memory*/) const override {
    seen_.Add(input);
    return input;
  }

 private:
  Seen& seen_;
};

// Attention that looks at what its two projections get. Not thread-safe.
class TappedAttention : public Attention {
 public:
  // Both outlive it.
  TappedAttention(const Attention& attention, Seen* projection, Seen* output)
      : Attention(attention.name(), attention.input_dims(), attention.heads(),
                  attention.is_causal()),
        projection_(*projection),
        output_(*output) {}

 protected:
  void Project(const Pass& pass, size_t kernel, const ConstTensor& input,
               const Tensor& output) const override {
    (kernel == kProjectionKernel ? projection_ : output_).Add(input);
    Attention::Project(pass, kernel, input, output);
  }

 private:
  Seen& projection_;
  Seen& output_;
};

// Looks for a set that says nothing.
class Variety {
 public:
  void Add(const Column& column) {
    if (column.tensor().dtype != DType::kFloat32) {
      varies_ = true;
      return;
    }
    for (const float value : column.values<float>()) {
      if (!first_.has_value()) first_ = value;
      varies_ |= value != *first_;
    }
  }
  bool varies() const { return varies_; }
  float value() const { return first_.value_or(0); }

 private:
  bool varies_ = false;
  absl::optional<float> first_;
};

// The layers with a tap on each product, which adds to what was seen of it.
// `seen` outlives them.
std::unique_ptr<Sequence> WithTaps(const FoundProducts& found,
                                   const Sequence& layers, SeenInputs* seen) {
  std::map<const Layer*, std::vector<Seen*>> taps;  // By kernel.
  for (const FoundProduct& product : found.products) {
    taps[&product.At(product.layer)].push_back(&seen->at(product.name));
  }
  return Rebuild(layers, [&](const Sequence& sequence, size_t i) {
    const auto& layer = sequence.shared_layer(i);
    const auto of_layer = taps.find(layer.get());
    if (of_layer == taps.end()) return Replacement();
    const std::vector<Seen*>& of = of_layer->second;
    if (const auto* const attention =
            dynamic_cast<const Attention*>(layer.get())) {
      return Replacement{
          std::make_shared<TappedAttention>(*attention, of[0], of[1]), i + 1};
    }
    return Replacement{
        std::make_shared<TransformedLayer>(layer, std::make_shared<Tap>(of[0])),
        i + 1};
  });
}

// Has the network predict the calibration set. How many examples it was: fewer
// than were asked for where some are dropped.
absl::StatusOr<uint64_t> RunOnAll(WeightSpans weights,
                                  const QuantizeOptions& options,
                                  const std::vector<std::string>& features,
                                  Network* network) {
  const Pipeline& data = *options.calibration;
  RETURN_IF_ERROR(network->CheckTestData(data.spec()));
  Batch batch;
  Batch out;
  Variety variety;
  uint64_t examples = 0;
  for (uint64_t number = 0; number < options.batches; ++number) {
    const uint64_t begin = number * options.batch;
    if (begin >= data.size()) break;
    RETURN_IF_ERROR(
        data.Read({.epoch = 1,
                   .begin = begin,
                   .end = std::min(data.size(), begin + options.batch)},
                  &batch));
    examples += batch.size();
    if (batch.size() == 0) continue;
    for (const std::string& feature : features) {
      const Column* const column = batch.Find(feature);
      if (column != nullptr) variety.Add(*column);
    }
    RETURN_IF_ERROR(network->Predict(weights, batch, &out));
  }
  if (examples == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the calibration set, ", options.calibrated_on, ", is empty"));
  }
  if (!variety.varies()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the calibration set, ", options.calibrated_on,
                     ", is constant: all of "
                     "its ",
                     examples, " examples are ", variety.value(),
                     ", which says nothing of the ranges of the network"));
  }
  return examples;
}

// What each product gets on the calibration set, which has so many `examples`.
// `plan` is the one that they were found in, `again` another one of the same
// network.
absl::StatusOr<SeenInputs> Observe(const FoundProducts& found,
                                   const NetworkPlan& plan, WeightSpans weights,
                                   const QuantizeOptions& options,
                                   std::unique_ptr<NetworkPlan> again,
                                   uint64_t* examples) {
  SeenInputs seen;
  for (const FoundProduct& product : found.products) {
    ASSIGN_OR_RETURN(seen[product.name].observer,
                     MakeObserver(options.observer, options.activation_bits));
  }
  again->layers = WithTaps(found, *plan.layers, &seen);
  std::vector<std::string> features;
  for (const NetworkPlan::Input& input : plan.inputs) {
    features.push_back(input.feature.name);
  }
  Network network(
      std::move(again), [] { return std::make_unique<CpuDevice>(); }, "cpu");
  ASSIGN_OR_RETURN(*examples, RunOnAll(weights, options, features, &network));
  return seen;
}

absl::Status CheckFiniteWeights(const std::string& name,
                                absl::Span<const float> values) {
  for (const float value : values) {
    if (std::isfinite(value)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name,
        "' has a weight that is not finite, which no integer stands "
        "for"));
  }
  return absl::OkStatus();
}

template <class T>
std::string BytesOfValues(absl::Span<const T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

QuantizedTensor InFloat(const v1::Variable& variable,
                        absl::Span<const float> values) {
  return {variable.name(),
          "F32",
          {variable.shape().begin(), variable.shape().end()},
          BytesOfValues(values),
          {}};
}

absl::StatusOr<QuantizedTensor> InHalf(const v1::Variable& variable,
                                       absl::Span<const float> values,
                                       NumberFormat format) {
  QuantizedTensor tensor = InFloat(variable, {});
  tensor.dtype = format == NumberFormat::kFp16 ? "F16" : "BF16";
  tensor.bytes.resize(values.size() * BytesOf(format));
  auto* const bytes = reinterpret_cast<std::byte*>(tensor.bytes.data());
  EncodeNumbers(format, values.data(), values.size(), bytes);
  if (AreFinite(format, bytes, values.size())) return tensor;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", variable.name(), "' has a number that is too large for ",
      tensor.dtype, " or not finite"));
}

// Tables, kernels and matrices; vectors cost little and matter most.
absl::StatusOr<Quantized> InHalves(const NetworkPlan& plan, WeightSpans weights,
                                   Mode mode) {
  Quantized made;
  made.quantization.mode = mode;
  const NumberFormat format =
      mode == Mode::kFloat16 ? NumberFormat::kFp16 : NumberFormat::kBf16;
  bool any = false;
  for (size_t v = 0; v < plan.variables.size(); ++v) {
    const v1::Variable& variable = plan.variables[v];
    if (variable.shape_size() < 2) {
      made.tensors.push_back(InFloat(variable, weights[v]));
      continue;
    }
    any = true;
    ASSIGN_OR_RETURN(made.tensors.emplace_back(),
                     InHalf(variable, weights[v], format));
  }
  if (any) return made;
  return absl::InvalidArgumentError(
      "the model has no kernel or table that could be in fewer bits");
}

// The variables of a product's batch norm become those of one that adds `shift`
// and changes nothing else.
void MakeNeutral(const NetworkPlan& plan, const FoundProduct& product,
                 const std::vector<float>& shift,
                 std::vector<QuantizedTensor>* tensors) {
  const size_t norm = *product.batch_norm;
  const double epsilon =
      static_cast<const BatchNormLayer&>(product.At(norm)).epsilon();
  const std::vector<std::vector<float>> values = {
      std::vector<float>(shift.size(),
                         static_cast<float>(std::sqrt(1 + epsilon))),
      shift, std::vector<float>(shift.size(), 0.0f),
      std::vector<float>(shift.size(), 1.0f)};
  for (size_t v = 0; v < values.size(); ++v) {
    const size_t variable = VariableOf(plan, product, norm, v);
    (*tensors)[variable] = InFloat(plan.variables[variable], values[v]);
  }
}

absl::Status AddProduct(const NetworkPlan& plan, const FoundProduct& product,
                        WeightSpans weights, const QuantizeOptions& options,
                        Quantized* made) {
  const size_t kernel =
      VariableOf(plan, product, product.layer, product.kernel);
  const v1::Variable& variable = plan.variables[kernel];
  const FoldedProduct folded = Fold(plan, product, weights);
  RETURN_IF_ERROR(CheckFiniteWeights(variable.name(), folded.kernel));
  const uint64_t channels = variable.shape(variable.shape_size() - 1);
  QuantizedWeights integers = QuantizeWeights(
      folded.kernel, channels, options.per_channel, options.most_weight);
  QuantizedTensor& tensor = made->tensors[kernel];
  tensor.dtype = "I8";
  tensor.bytes = BytesOfValues<int8_t>(integers.values);
  tensor.scales = std::move(integers.scales);
  if (!product.batch_norm.has_value()) return absl::OkStatus();
  if (product.has_bias()) {
    const size_t bias =
        VariableOf(plan, product, product.layer, product.kernel + 1);
    made->tensors[bias] =
        InFloat(plan.variables[bias], std::vector<float>(channels, 0.0f));
  }
  MakeNeutral(plan, product, folded.bias, &made->tensors);
  return absl::OkStatus();
}

absl::Status NothingToQuantize(const FoundProducts& found) {
  std::string why = "no layer of the model can be quantised";
  for (const Quantization::Left& left : found.left) {
    absl::StrAppend(&why, &left == &found.left.front() ? ": " : "; ", "'",
                    left.name, "': ", left.why);
  }
  return absl::InvalidArgumentError(why);
}

void SetInput(const Affine& affine, Quantization::Layer* layer) {
  layer->input.emplace();
  layer->input->scale = affine.scale;
  layer->input->zero_point = affine.zero_point;
}

absl::Status SetInput(const Seen& seen, int bits, Quantization::Layer* layer) {
  if (!seen.finite) {
    return absl::InvalidArgumentError(
        absl::StrCat("on the calibration set an input of '", layer->name,
                     "' is not finite, which no range has"));
  }
  const FloatRange range = seen.observer->Range();
  SetInput(bits == 8 ? AffineOf(range) : Affine{Int16ScaleOf(range), 0}, layer);
  return absl::OkStatus();
}

// Without its input and its integers.
Quantization::Layer LayerOf(const FoundProduct& product) {
  Quantization::Layer layer;
  layer.name = product.name;
  layer.kind = std::string(NameOf(product.kind));
  if (product.batch_norm.has_value()) {
    layer.folded = product.At(*product.batch_norm).name();
  }
  return layer;
}

// The options of a network that was trained to be quantised.
absl::StatusOr<QuantizeOptions> AsTrained(
    const v1::ModelConfig::QuantizationAware& aware, QuantizeOptions options) {
  if (options.mode != Mode::kStatic) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mode ", NameOf(options.mode),
        " is not for a model with quantization_aware, which was trained for "
        "static ranges"));
  }
  options.per_channel = true;
  options.activation_bits = 8;
  options.most_weight = MostOfBits(aware.weight_bits());
  return options;
}

// Of each layer of the plan's own sequence; see LearnedInputs.
using Learned = std::vector<absl::optional<Affine>>;

// Leaves those in float that training has not prepared: others than layers of
// the plan's own sequence with a range, and the batch norms behind them.
void KeepLearned(const NetworkPlan& plan, const Learned& learned,
                 FoundProducts* found) {
  std::vector<FoundProduct> kept;
  const auto leave = [&](const std::string& name) {
    found->left.push_back(
        {name,
         "quantization_aware has not trained it, which trains neither layers "
         "inside of others nor attention"});
  };
  for (FoundProduct& product : found->products) {
    if (product.sequence == plan.layers.get() &&
        learned[product.layer].has_value()) {
      kept.push_back(std::move(product));
      continue;
    }
    leave(product.name);
    if (product.batch_norm.has_value()) {
      leave(product.At(*product.batch_norm).name());
    }
  }
  found->products = std::move(kept);
}

}  // namespace

absl::StatusOr<Quantized> Quantize(const v1::ModelConfig& model,
                                   const InputSpec& input, WeightSpans weights,
                                   const QuantizeOptions& wanted) {
  ASSIGN_OR_RETURN(const auto plan, PlanNetwork(model, input));
  QuantizeOptions options = wanted;
  Learned learned;
  if (model.has_quantization_aware()) {
    ASSIGN_OR_RETURN(options, AsTrained(model.quantization_aware(), wanted));
    ASSIGN_OR_RETURN(learned, LearnedInputs(*plan, weights));
    RemoveTransforms(plan.get());
  }
  Quantized made;
  made.quantization.mode = options.mode;
  if (!made.quantization.has_integers()) {
    return InHalves(*plan, weights, options.mode);
  }
  FoundProducts found = FindProducts(*plan, options.mode);
  if (!learned.empty()) KeepLearned(*plan, learned, &found);
  if (found.products.empty()) return NothingToQuantize(found);
  made.quantization.most_weight = static_cast<uint32_t>(options.most_weight);
  made.quantization.per_channel = options.per_channel;
  made.quantization.activation_bits =
      static_cast<uint32_t>(options.activation_bits);
  made.quantization.left = found.left;
  SeenInputs seen;
  if (!learned.empty()) {
    made.quantization.observer = "learned in training";
  } else if (options.mode == Mode::kStatic) {
    ASSIGN_OR_RETURN(auto again, PlanNetwork(model, input));
    ASSIGN_OR_RETURN(seen,
                     Observe(found, *plan, weights, options, std::move(again),
                             &made.quantization.examples));
    made.quantization.observer = options.observer;
    made.quantization.calibrated_on = options.calibrated_on;
  }
  for (size_t v = 0; v < plan->variables.size(); ++v) {
    made.tensors.push_back(InFloat(plan->variables[v], weights[v]));
  }
  for (const FoundProduct& product : found.products) {
    Quantization::Layer& layer =
        made.quantization.layers.emplace_back(LayerOf(product));
    if (!learned.empty()) {
      SetInput(*learned[product.layer], &layer);
    } else if (options.mode == Mode::kStatic) {
      RETURN_IF_ERROR(
          SetInput(seen[product.name], options.activation_bits, &layer));
    }
    RETURN_IF_ERROR(AddProduct(*plan, product, weights, options, &made));
  }
  return made;
}

}  // namespace paramd
