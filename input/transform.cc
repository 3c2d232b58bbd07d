#include "input/transform.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "input/own_map.h"

namespace paramd {
namespace {

using Result = absl::StatusOr<std::unique_ptr<Transform>>;

// Calls `f` with a value of the C++ type of `dtype`.
template <class F>
void WithType(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUInt8:
      return f(uint8_t{});
    case DType::kBFloat16:
    case DType::kFloat16:
      CHECK(false, "no feature is of two bytes");
  }
}

// Whole numbers are cut off at the bounds of their type; what is no number
// becomes 0.
template <class T>
T ToType(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    if (!(value == value)) return 0;
    // The largest int64 is no double: 2^63, the next, is not one any more.
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
      return std::numeric_limits<T>::min();
    }
    return static_cast<T>(value);
  }
}

Result MakeNormalise(const v1::InputStage::Normalise& config,
                     const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindFeature(context.input, config.feature()));
  InputSpec spec = context.input;
  FeatureSpec& feature = spec.features[f];
  std::vector<double> mean(config.mean().begin(), config.mean().end());
  std::vector<double> deviation(config.deviation().begin(),
                                config.deviation().end());
  if (mean.empty()) mean = {0};
  if (deviation.empty()) deviation = {1};
  const uint64_t channels = std::max(mean.size(), deviation.size());
  for (std::vector<double>* const numbers : {&mean, &deviation}) {
    if (numbers->size() == 1) numbers->resize(channels, numbers->front());
    if (numbers->size() != channels) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", mean.size(), " means and ", deviation.size(),
                       " deviations; give one or as many"));
    }
  }
  if (channels > 1 &&
      (feature.dims.empty() || feature.dims.back() != channels)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has numbers for ", channels, " channels; '", feature.name,
                     "' is ", ShapeText(feature.dtype, feature.dims)));
  }
  feature.dtype = DType::kFloat32;
  feature.classes = 0;
  return std::make_unique<FeatureTransform>(
      "normalise", std::move(spec), f, context.key,
      [mean, deviation, channels](const OwnedTensor& in, RandomStream,
                                  OwnedTensor* out) {
        out->Reset(DType::kFloat32, in.dims());
        const absl::Span<float> to = out->values<float>();
        WithType(in.dtype(), [&](auto type) {
          const auto from = in.values<decltype(type)>();
          for (size_t i = 0, c = 0; i < to.size(); ++i) {
            to[i] = static_cast<float>(
                (static_cast<double>(from[i]) - mean[c]) / deviation[c]);
            if (++c == channels) c = 0;
          }
        });
        return absl::OkStatus();
      });
}

Result MakeLog(const v1::InputStage::Log& config,
               const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindFeature(context.input, config.feature()));
  InputSpec spec = context.input;
  spec.features[f].dtype = DType::kFloat32;
  spec.features[f].classes = 0;
  return std::make_unique<FeatureTransform>(
      "log", std::move(spec), f, context.key,
      [](const OwnedTensor& in, RandomStream, OwnedTensor* out) {
        out->Reset(DType::kFloat32, in.dims());
        const absl::Span<float> to = out->values<float>();
        for (uint64_t i = 0; i < to.size(); ++i) {
          const double value = NumberAt(in, i);
          to[i] = static_cast<float>(
              std::copysign(std::log1p(std::abs(value)), value));
        }
        return absl::OkStatus();
      });
}

Result MakeCast(const std::string& name, const std::string& feature_name,
                DType dtype, double scale, const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f, FindFeature(context.input, feature_name));
  InputSpec spec = context.input;
  spec.features[f].dtype = dtype;
  if (scale != 1) spec.features[f].classes = 0;
  return std::make_unique<FeatureTransform>(
      name, std::move(spec), f, context.key,
      [dtype, scale](const OwnedTensor& in, RandomStream, OwnedTensor* out) {
        out->Reset(dtype, in.dims());
        WithType(dtype, [&](auto to_type) {
          using To = decltype(to_type);
          const absl::Span<To> to = out->values<To>();
          WithType(in.dtype(), [&](auto from_type) {
            const auto from = in.values<decltype(from_type)>();
            for (size_t i = 0; i < to.size(); ++i) {
              to[i] = ToType<To>(static_cast<double>(from[i]) * scale);
            }
          });
        });
        return absl::OkStatus();
      });
}

Result MakeTokenise(const v1::InputStage::Tokenise& config,
                    const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindFeature(context.input, config.feature()));
  const FeatureSpec& feature = context.input.features[f];
  if (feature.dtype != DType::kUInt8) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs bytes; '", feature.name, "' is ",
                     ShapeText(feature.dtype, feature.dims)));
  }
  InputSpec input = context.input;
  input.features[f].classes = 256;
  return MakeCast("tokenise", config.feature(), DType::kInt32, 1,
                  {.input = input, .key = context.key});
}

Result MakeOneHot(const v1::InputStage::OneHot& config,
                  const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindFeature(context.input, config.feature()));
  InputSpec spec = context.input;
  FeatureSpec& feature = spec.features[f];
  const uint64_t classes =
      config.classes() > 0 ? config.classes() : feature.classes;
  if (classes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "needs classes: those of '", feature.name, "' are not known"));
  }
  feature.dims.push_back(classes);
  feature.dtype = DType::kFloat32;
  feature.classes = 0;
  return std::make_unique<FeatureTransform>(
      "one_hot", std::move(spec), f, context.key,
      [classes](const OwnedTensor& in, RandomStream,
                OwnedTensor* out) -> absl::Status {
        Dims dims = in.dims();
        dims.push_back(classes);
        out->Reset(DType::kFloat32, dims);
        const absl::Span<float> to = out->values<float>();
        std::fill(to.begin(), to.end(), 0.0f);
        for (uint64_t i = 0; i < in.size(); ++i) {
          const double value = NumberAt(in, i);
          if (!(value >= 0 && value < static_cast<double>(classes)) ||
              value != std::floor(value)) {
            return absl::InvalidArgumentError(
                absl::StrCat("value ", value,
                             " is not a class; classes are whole numbers "
                             "below ",
                             classes));
          }
          to[i * classes + static_cast<uint64_t>(value)] = 1;
        }
        return absl::OkStatus();
      });
}

// Copies what both shapes have, dimension by dimension, to `out` of shape
// `dims`.
void CopyCommon(const OwnedTensor& in, size_t dimension, uint64_t from,
                uint64_t to, const Dims& dims, std::byte* out) {
  const size_t width = SizeOf(in.dtype());
  const uint64_t common = std::min(in.dims()[dimension], dims[dimension]);
  if (dimension + 1 == in.dims().size()) {
    std::copy_n(in.bytes().data() + from * width, common * width,
                out + to * width);
    return;
  }
  uint64_t from_step = 1, to_step = 1;
  for (size_t d = dimension + 1; d < in.dims().size(); ++d) {
    from_step *= in.dims()[d];
    to_step *= dims[d];
  }
  for (uint64_t i = 0; i < common; ++i) {
    CopyCommon(in, dimension + 1, from + i * from_step, to + i * to_step, dims,
               out);
  }
}

Result MakePad(const v1::InputStage::Pad& config,
               const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindFeature(context.input, config.feature()));
  InputSpec spec = context.input;
  FeatureSpec& feature = spec.features[f];
  const Dims dims(config.dims().begin(), config.dims().end());
  if (feature.dims.size() != dims.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pads to ", dims.size(), " dimensions; '", feature.name,
                     "' is ", ShapeText(feature.dtype, feature.dims)));
  }
  feature.dims = dims;
  return std::make_unique<FeatureTransform>(
      "pad", std::move(spec), f, context.key,
      [dims, value = config.value()](const OwnedTensor& in, RandomStream,
                                     OwnedTensor* out) {
        out->Reset(in.dtype(), dims);
        CopyPadded(in, dims, value, out->bytes());
        return absl::OkStatus();
      });
}

// Drops an example whose value is not wanted.
class Filter : public Transform {
 public:
  Filter(InputSpec spec, size_t feature, const v1::InputStage::Filter& config)
      : Transform("filter", std::move(spec)),
        feature_(feature),
        config_(config) {}

 protected:
  absl::Status DoApply(const ExamplePlace& /*place*/,
                       Example* example) const override {
    const OwnedTensor& tensor = example->values[feature_];
    if (tensor.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("filter needs one value; '", config_.feature(), "' is ",
                       ShapeText(tensor.dtype(), tensor.dims())));
    }
    const double value = NumberAt(tensor, 0);
    const bool listed =
        config_.values().empty() ||
        std::find(config_.values().begin(), config_.values().end(), value) !=
            config_.values().end();
    example->dropped = !listed ||
                       (config_.has_min() && !(value >= config_.min())) ||
                       (config_.has_max() && !(value <= config_.max()));
    return absl::OkStatus();
  }

 private:
  const size_t feature_;
  const v1::InputStage::Filter config_;
};

}  // namespace

absl::Status FeatureTransform::DoApply(const ExamplePlace& place,
                                       Example* example) const {
  const CounterRandom epochs(key_);
  const CounterRandom offsets(epochs.Bits(place.epoch));
  OwnedTensor& value = example->values[feature_];
  const absl::Status status = change_(
      value, RandomStream(offsets.Bits(place.offset)), &example->scratch);
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat(name(), " of '", spec().features[feature_].name,
                     "': ", status.message()));
  }
  std::swap(value, example->scratch);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Transform>> MakeTransform(
    const v1::InputStage& config, const TransformContext& context) {
  switch (config.kind_case()) {
    case v1::InputStage::kNormalise:
      return MakeNormalise(config.normalise(), context);
    case v1::InputStage::kLog:
      return MakeLog(config.log(), context);
    case v1::InputStage::kCast:
      return MakeCast("cast", config.cast().feature(),
                      ToDType(config.cast().type()), config.cast().scale(),
                      context);
    case v1::InputStage::kTokenise:
      return MakeTokenise(config.tokenise(), context);
    case v1::InputStage::kOneHot:
      return MakeOneHot(config.one_hot(), context);
    case v1::InputStage::kPad:
      return MakePad(config.pad(), context);
    case v1::InputStage::kMap:
      return MakeOwnMap(config.map(), context);
    case v1::InputStage::kFilter: {
      ASSIGN_OR_RETURN(const size_t feature,
                       FindFeature(context.input, config.filter().feature()));
      return std::make_unique<Filter>(context.input, feature, config.filter());
    }
    default:
      return MakeImageTransform(config, context);
  }
}

bool IsTransform(const v1::InputStage& config) {
  switch (config.kind_case()) {
    case v1::InputStage::KIND_NOT_SET:
    case v1::InputStage::kShuffle:
    case v1::InputStage::kRepeat:
    case v1::InputStage::kTake:
    case v1::InputStage::kSkip:
    case v1::InputStage::kInterleave:
    case v1::InputStage::kCache:
    case v1::InputStage::kBatch:
    case v1::InputStage::kPaddedBatch:
    case v1::InputStage::kBucketByLength:
    case v1::InputStage::kWindow:
    case v1::InputStage::kPrefetch:
    case v1::InputStage::kRelabel:
      return false;
    default:
      return true;
  }
}

absl::StatusOr<size_t> FindFeature(const InputSpec& spec,
                                   absl::string_view name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < spec.features.size(); ++i) {
    if (spec.features[i].name == name) return i;
    names.push_back(absl::StrCat("'", spec.features[i].name, "'"));
  }
  return absl::InvalidArgumentError(absl::StrCat("needs the feature '", name,
                                                 "'; here examples have ",
                                                 absl::StrJoin(names, ", ")));
}

std::string ShapeText(DType dtype, const Dims& dims) {
  if (dims.empty()) return absl::StrCat("one ", NameOf(dtype));
  std::vector<std::string> texts;
  for (const uint64_t d : dims) texts.push_back(d == 0 ? "?" : absl::StrCat(d));
  return absl::StrCat(NameOf(dtype), " ", absl::StrJoin(texts, "x"));
}

void CopyPadded(const OwnedTensor& in, const Dims& dims, double value,
                absl::Span<std::byte> to) {
  WithType(in.dtype(), [&](auto type) {
    using T = decltype(type);
    T* const values = reinterpret_cast<T*>(to.data());
    std::fill_n(values, to.size() / sizeof(T), ToType<T>(value));
  });
  CopyCommon(in, 0, 0, 0, dims, to.data());
}

double NumberAt(const OwnedTensor& tensor, uint64_t i) {
  double number = 0;
  WithType(tensor.dtype(), [&](auto type) {
    number = static_cast<double>(tensor.values<decltype(type)>()[i]);
  });
  return number;
}

absl::Status CheckSizes(const InputSpec& spec) {
  for (const FeatureSpec& feature : spec.features) {
    uint64_t left = kMostValues;
    for (const uint64_t d : feature.dims) left /= std::max<uint64_t>(d, 1);
    if (left > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "feature '", feature.name, "' is ",
        ShapeText(feature.dtype, feature.dims),
        "; an example may have at most ", kMostValues, " values of it"));
  }
  return absl::OkStatus();
}

DType ToDType(v1::InputFeature::Type type) {
  switch (type) {
    case v1::InputFeature::TYPE_FLOAT64:
      return DType::kFloat64;
    case v1::InputFeature::TYPE_INT32:
      return DType::kInt32;
    case v1::InputFeature::TYPE_INT64:
      return DType::kInt64;
    case v1::InputFeature::TYPE_UINT8:
      return DType::kUInt8;
    default:
      return DType::kFloat32;
  }
}

}  // namespace paramd
