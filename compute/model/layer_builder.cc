#include "compute/model/layer_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "compute/model/attention.h"
#include "compute/model/image_layers.h"
#include "compute/model/interaction_layers.h"
#include "compute/model/norm_layers.h"
#include "compute/model/place_layers.h"

namespace paramd {
namespace {

Bag BagOf(v1::Layer::BagPool::Combine combine) {
  switch (combine) {
    case v1::Layer::BagPool::SUM:
      return Bag::kSum;
    case v1::Layer::BagPool::SQRT_N:
      return Bag::kSqrtN;
    case v1::Layer::BagPool::MAX:
      return Bag::kMax;
    default:
      return Bag::kMean;
  }
}

Layer::Limits LimitsOf(v1::ModelConfig::KernelInitializer kind, uint64_t inputs,
                       uint64_t outputs) {
  const auto in = static_cast<double>(inputs);
  switch (kind) {
    case v1::ModelConfig::HE_UNIFORM:
      return {.kernel = std::sqrt(6 / in)};
    case v1::ModelConfig::LECUN_UNIFORM:
      return {.kernel = std::sqrt(3 / in)};
    case v1::ModelConfig::PYTORCH:
      return {.kernel = std::sqrt(1 / in), .bias = std::sqrt(1 / in)};
    default:
      return {.kernel = std::sqrt(6 / (in + static_cast<double>(outputs)))};
  }
}

}  // namespace

std::string DimsText(const Dims& dims) {
  return dims.empty() ? "a single value" : absl::StrJoin(dims, "x");
}

bool LayerBuilder::Fits(const Dims& dims) {
  uint64_t size = 1;
  for (const uint64_t dimension : dims) {
    if (dimension != 0 && size > (kMaxSize - 1) / dimension) return false;
    size *= dimension;
  }
  return true;
}

LayerBuilder::LayerBuilder(std::vector<Input> inputs, absl::Status first,
                           v1::ModelConfig::KernelInitializer kernels)
    : inputs_(std::move(inputs)),
      kernels_(kernels),
      is_read_(inputs_.size()),
      dims_(inputs_.front().dims) {
  read_ = {.status = std::move(first), .bound = inputs_.front().bound};
}

absl::StatusOr<std::unique_ptr<Sequence>> LayerBuilder::Build(
    const google::protobuf::RepeatedPtrField<v1::Layer>& layers) {
  std::vector<std::unique_ptr<Layer>> made;
  for (const v1::Layer& layer : layers) {
    ++position_;
    ASSIGN_OR_RETURN(std::unique_ptr<Layer> one, Make(layer));
    if (layer.has_parallel() && !made.empty() &&
        !static_cast<const Parallel&>(*one).reads_input()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parallel layer '", one->name(), "' does not read what '",
          made.back()->name(),
          "' gives, for each of its branches names a feature: leave out the "
          "\"input\" of one, or the layers before it"));
    }
    one->InitialiseKernels([&](uint64_t inputs, uint64_t outputs) {
      return LimitsOf(kernels_, inputs, outputs);
    });
    made.push_back(std::move(one));
    if (layer.has_dropout() || layer.residual().drop_rate() > 0) {
      needs_.draws = true;
    }
    dims_ = made.back()->output_dims();
    if (!made.back()->is_view()) read_ = {.is_feature = false};
  }
  return std::make_unique<Sequence>("layers", std::move(made));
}

LayerBuilder::Made LayerBuilder::Make(const v1::Layer& layer) {
  // Those look at what each layer inside of them reads.
  if (!layer.has_parallel() && !layer.has_recompute()) {
    RETURN_IF_ERROR(Take());
  }
  switch (layer.kind_case()) {
    case v1::Layer::kFlatten:
      return std::make_unique<Reshape>(NameOf("flatten", ""), dims_,
                                       Dims{SizeOf(dims_)});
    case v1::Layer::kDense:
      return MakeDense(layer.dense());
    case v1::Layer::kRelu:
      return MakeElementwise("relu", Elementwise::kRelu);
    case v1::Layer::kGelu:
      return MakeElementwise("gelu", Elementwise::kGelu);
    case v1::Layer::kTanh:
      return MakeElementwise("tanh", Elementwise::kTanh);
    case v1::Layer::kSigmoid:
      return MakeElementwise("sigmoid", Elementwise::kSigmoid);
    case v1::Layer::kConv2D:
      return MakeConv2d(layer.conv2d());
    case v1::Layer::kMaxPool:
    case v1::Layer::kAveragePool:
    case v1::Layer::kGlobalMaxPool:
    case v1::Layer::kGlobalAveragePool:
    case v1::Layer::kGlobalSumPool:
      return MakePooling(layer);
    case v1::Layer::kDotInteraction:
      return MakeInteraction("dot_interaction");
    case v1::Layer::kFactorizationMachine:
      return MakeInteraction("factorization_machine");
    case v1::Layer::kCross:
      return MakeCross(layer.cross());
    case v1::Layer::kParallel:
      return MakeParallel(layer.parallel());
    case v1::Layer::kReshape:
      return MakeReshape(layer.reshape());
    case v1::Layer::kResidual:
      return MakeResidual(layer.residual());
    case v1::Layer::kRecompute:
      return MakeRecompute(layer.recompute());
    case v1::Layer::kEmbedding:
      return MakeEmbedding(layer.embedding());
    case v1::Layer::kPositionalEmbedding:
      return MakePositionalEmbedding(layer.positional_embedding());
    case v1::Layer::kAttention:
      return MakeAttention(layer.attention());
    case v1::Layer::kBatchNorm:
    case v1::Layer::kLayerNorm:
    case v1::Layer::kDropout:
      return MakeNorm(layer);
    case v1::Layer::kSelect:
      return MakeSelect(layer.select());
    case v1::Layer::kBagPool:
      return MakeBagPool(layer.bag_pool());
    case v1::Layer::kAttentionPool:
      return MakeAttentionPool(layer.attention_pool());
    case v1::Layer::kMixture:
      return MakeMixture(layer.mixture());
    case v1::Layer::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("layer ", position_, " of the model has no known kind"));
}

LayerBuilder::Made LayerBuilder::MakePooling(const v1::Layer& layer) {
  switch (layer.kind_case()) {
    case v1::Layer::kMaxPool:
      return MakePool("max_pool", Pooling::Kind::kMax, layer.max_pool());
    case v1::Layer::kAveragePool:
      return MakePool("average_pool", Pooling::Kind::kAverage,
                      layer.average_pool());
    case v1::Layer::kGlobalMaxPool:
      return MakeGlobalPool("global_max_pool", Pooling::Kind::kMax);
    case v1::Layer::kGlobalAveragePool:
      return MakeGlobalPool("global_average_pool", Pooling::Kind::kAverage);
    default:
      return MakeGlobalPool("global_sum_pool", absl::nullopt);
  }
}

absl::Status LayerBuilder::Take() {
  if (read_.status.ok() && read_.is_feature) is_read_[read_.input] = true;
  return read_.status;
}

std::string LayerBuilder::NameOf(const std::string& kind,
                                 const std::string& given) {
  kind_ = kind;
  const int count = ++counts_[kind];
  last_ = given.empty() ? absl::StrCat(kind, "_", count) : given;
  return last_;
}

absl::Status LayerBuilder::Wants(absl::string_view what,
                                 absl::string_view advice) {
  return absl::InvalidArgumentError(absl::StrCat(
      kind_, " layer '", last_, "' needs ", what, "; it gets ",
      integers() ? "integers of " : "", DimsText(dims_),
      read_.is_feature && inputs_.size() > 1
          ? absl::StrCat(" of the feature '", inputs_[read_.input].name, "'")
          : "",
      advice.empty() ? "" : ": ", advice));
}

absl::Status LayerBuilder::CheckNumbers(const std::string& kind) {
  if (!integers()) return absl::OkStatus();
  return Wants(absl::StrCat("numbers"),
               absl::StrCat("put \"embedding\" before \"", kind, "\""));
}

LayerBuilder::Made LayerBuilder::MakeElementwise(const std::string& kind,
                                                 Elementwise function) {
  std::string name = NameOf(kind, "");
  RETURN_IF_ERROR(CheckNumbers(kind));
  return std::make_unique<ElementwiseLayer>(std::move(name), dims_, function);
}

LayerBuilder::Made LayerBuilder::MakeDense(const v1::Layer::Dense& dense) {
  std::string name = NameOf("dense", dense.name());
  RETURN_IF_ERROR(CheckNumbers("dense"));
  if (dims_.empty()) {
    return Wants("at least one dimension",
                 "put {\"reshape\": {\"dims\": [1]}} before it");
  }
  if (dense.units() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("dense layer '", last_, "' has no units"));
  }
  if (!Fits({dims_.back(), dense.units()}) ||
      !Fits({SizeOf(dims_) / dims_.back(), dense.units()})) {
    return absl::InvalidArgumentError(
        absl::StrCat("dense layer '", last_, "' from ", DimsText(dims_), " to ",
                     dense.units(), " values is too large; it may have up to ",
                     kMaxSize - 1, " weights, and outputs of one example"));
  }
  return std::make_unique<Dense>(std::move(name), dims_, dense.units());
}

absl::StatusOr<Dims> LayerBuilder::Image() {
  RETURN_IF_ERROR(CheckNumbers(kind_));
  if (dims_.size() == 2) return Dims{dims_[0], dims_[1], 1};
  if (dims_.size() == 3) return dims_;
  return Wants("an image [height, width, channels] or [height, width]");
}

LayerBuilder::Made LayerBuilder::MakeConv2d(const v1::Layer::Conv2d& conv) {
  std::string name = NameOf("conv2d", conv.name());
  ASSIGN_OR_RETURN(const Dims image, Image());
  const Conv2d::Options options{
      .filters = conv.filters(),
      .groups = conv.groups(),
      .bias = conv.bias(),
      .sliding = {.kernel = conv.kernel(),
                  .stride = conv.stride(),
                  .same = conv.padding() != v1::Layer::VALID}};
  const Sliding& sliding = options.sliding;
  if (options.filters == 0 || sliding.kernel == 0 || sliding.stride == 0 ||
      options.groups == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "conv2d layer '", last_,
        "' needs filters, kernel, stride and groups of at least 1"));
  }
  if (image[2] % options.groups != 0 || options.filters % options.groups != 0) {
    return Wants(absl::StrCat("channels and filters (", options.filters,
                              ") that are multiples of its ", options.groups,
                              " groups"));
  }
  if (sliding.Outputs(image[0]) == 0 || sliding.Outputs(image[1]) == 0) {
    return Wants(absl::StrCat("an image of at least ", sliding.kernel, "x",
                              sliding.kernel),
                 "\"padding\": \"same\" takes any");
  }
  if (!Fits({sliding.kernel, sliding.kernel, image[2], options.filters}) ||
      !Fits({image[0], image[1], options.filters})) {
    return Wants(
        "fewer filters or a smaller kernel: weights, and outputs of "
        "one example, must be below 2^31");
  }
  return std::make_unique<Conv2d>(std::move(name), image, options);
}

LayerBuilder::Made LayerBuilder::MakePool(const std::string& kind,
                                          Pooling::Kind pooling,
                                          const v1::Layer::Pool& pool) {
  std::string name = NameOf(kind, "");
  ASSIGN_OR_RETURN(const Dims image, Image());
  const Sliding sliding{
      .kernel = pool.size(),
      .stride = pool.stride() == 0 ? pool.size() : pool.stride(),
      .same = pool.padding() == v1::Layer::SAME};
  if (sliding.kernel == 0 ||
      sliding.kernel * sliding.kernel > Pooling::kMaxWindow) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, " layer '", last_, "' has size ", sliding.kernel,
                     "; it must be from 1 to 16"));
  }
  if (sliding.Outputs(image[0]) == 0 || sliding.Outputs(image[1]) == 0) {
    return Wants(absl::StrCat("an image of at least ", sliding.kernel, "x",
                              sliding.kernel));
  }
  return std::make_unique<Pool>(std::move(name), image, pooling, sliding);
}

LayerBuilder::Made LayerBuilder::MakeGlobalPool(
    const std::string& kind, absl::optional<Pooling::Kind> pooling) {
  std::string name = NameOf(kind, "");
  RETURN_IF_ERROR(CheckNumbers(kind));
  if (dims_.size() < 2) return Wants("[..., channels]");
  if (!pooling.has_value()) {
    return std::make_unique<GlobalSumPool>(std::move(name), dims_);
  }
  return std::make_unique<GlobalPool>(std::move(name), dims_, *pooling);
}

LayerBuilder::Made LayerBuilder::MakeSelect(const v1::Layer::Select& select) {
  std::string name = NameOf("select", "");
  const uint64_t begin = select.begin();
  if (dims_.empty()) return Wants("places");
  if (begin >= dims_[0] || select.count() > dims_[0] - begin) {
    return Wants(absl::StrCat(begin + std::max<uint64_t>(select.count(), 1),
                              " places or more"));
  }
  const uint64_t count =
      select.count() == 0 ? dims_[0] - begin : select.count();
  read_.first += begin * (SizeOf(dims_) / dims_[0]);
  return std::make_unique<Select>(std::move(name), dims_, begin, count,
                                  integers());
}

LayerBuilder::Made LayerBuilder::MakeBagPool(const v1::Layer::BagPool& pool) {
  std::string name = NameOf("bag_pool", "");
  RETURN_IF_ERROR(CheckNumbers("bag_pool"));
  if (dims_.size() != 2) return Wants("[places, values]");
  return std::make_unique<BagPool>(std::move(name), dims_,
                                   BagOf(pool.combine()));
}

LayerBuilder::Made LayerBuilder::MakeAttentionPool(
    const v1::Layer::AttentionPool& pool) {
  const uint64_t units = pool.units();
  std::string name = NameOf("attention_pool", pool.name());
  RETURN_IF_ERROR(CheckNumbers("attention_pool"));
  if (dims_.size() != 2 || dims_[0] < 2) {
    return Wants("[places, values] with two places or more: one, and a list");
  }
  if (units == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention_pool layer '", last_, "' has no units"));
  }
  if (!Fits({4, dims_[1], units}) || !Fits({4, dims_[0], dims_[1]}) ||
      !Fits({dims_[0], units})) {
    return Wants(
        "fewer places, values or units: weights, and what it keeps of "
        "one example, must be below 2^31");
  }
  return std::make_unique<AttentionPool>(std::move(name), dims_, units);
}

LayerBuilder::Made LayerBuilder::MakeInteraction(const std::string& kind) {
  std::string name = NameOf(kind, "");
  RETURN_IF_ERROR(CheckNumbers(kind));
  if (dims_.size() != 2 || dims_[0] < 2) {
    return Wants("[fields, values] with two fields or more");
  }
  if (!Fits({dims_[0], dims_[0]})) return Wants("fewer fields");
  auto dots = std::make_unique<DotInteraction>(name, dims_);
  if (kind == "dot_interaction") return dots;
  const uint64_t pairs = dots->output_size();
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::move(dots));
  layers.push_back(
      std::make_unique<Reshape>(name, Dims{pairs}, Dims{pairs, 1}));
  layers.push_back(std::make_unique<GlobalSumPool>(name, Dims{pairs, 1}));
  return std::make_unique<Sequence>(std::move(name), std::move(layers));
}

LayerBuilder::Made LayerBuilder::MakeCross(const v1::Layer::Cross& cross) {
  std::string name = NameOf("cross", cross.name());
  RETURN_IF_ERROR(CheckNumbers("cross"));
  if (dims_.size() != 1)
    return Wants("one dimension", "put \"flatten\" before it");
  if (cross.layers() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cross layer '", last_, "' has no layers"));
  }
  if (!Fits({dims_[0], dims_[0]})) {
    return Wants("fewer values: its weights must be below 2^31");
  }
  return std::make_unique<Cross>(std::move(name), dims_, cross.layers());
}

LayerBuilder::Made LayerBuilder::MakeReshape(
    const v1::Layer::Reshape& reshape) {
  std::string name = NameOf("reshape", "");
  const Dims dims(reshape.dims().begin(), reshape.dims().end());
  if (!Fits(dims) || SizeOf(dims) != SizeOf(dims_)) {
    return Wants(absl::StrCat(DimsText(dims), ", the same number of values"));
  }
  return std::make_unique<Reshape>(std::move(name), dims_, dims);
}

LayerBuilder::Made LayerBuilder::MakeAttention(
    const v1::Layer::Attention& attention) {
  std::string name = NameOf("attention", attention.name());
  RETURN_IF_ERROR(CheckNumbers("attention"));
  if (dims_.size() != 2) return Wants("a sequence [places, values]");
  if (attention.heads() == 0 || dims_[1] % attention.heads() != 0) {
    return Wants(absl::StrCat("values that are a multiple of its ",
                              attention.heads(), " heads"));
  }
  if (!Fits({dims_[1], dims_[1], 3}) || !Fits({dims_[0], dims_[1], 3}) ||
      !Fits({dims_[0], dims_[0], attention.heads()})) {
    return Wants(
        "a shorter sequence or fewer values: weights, and what it "
        "keeps of one example, must be below 2^31");
  }
  return std::make_unique<Attention>(std::move(name), dims_, attention.heads(),
                                     attention.causal());
}

LayerBuilder::Made LayerBuilder::MakeNorm(const v1::Layer& layer) {
  if (layer.has_dropout()) {
    std::string name = NameOf("dropout", "");
    RETURN_IF_ERROR(CheckNumbers("dropout"));
    return std::make_unique<Dropout>(std::move(name), dims_,
                                     layer.dropout().rate());
  }
  const bool batch = layer.has_batch_norm();
  const std::string kind = batch ? "batch_norm" : "layer_norm";
  std::string name = NameOf(
      kind, batch ? layer.batch_norm().name() : layer.layer_norm().name());
  RETURN_IF_ERROR(CheckNumbers(kind));
  if (dims_.empty()) return Wants("at least one dimension");
  if (batch) {
    return std::make_unique<BatchNormLayer>(std::move(name), dims_,
                                            layer.batch_norm().epsilon(),
                                            layer.batch_norm().momentum());
  }
  return std::make_unique<LayerNormLayer>(std::move(name), dims_,
                                          layer.layer_norm().epsilon());
}

}  // namespace paramd
