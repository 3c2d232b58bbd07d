// The stages that change images: [height, width] or [height, width, channels].

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "input/decode_image.h"
#include "input/rand_augment.h"
#include "input/transform.h"

namespace paramd {
namespace {

using Result = absl::StatusOr<std::unique_ptr<Transform>>;

uint64_t ChannelsOf(const Dims& dims) { return dims.size() == 3 ? dims[2] : 1; }

Dims WithSize(const Dims& dims, uint64_t height, uint64_t width) {
  Dims changed = dims;
  changed[0] = height;
  changed[1] = width;
  return changed;
}

// The index of an image's feature.
absl::StatusOr<size_t> FindImage(const InputSpec& spec, const std::string& name,
                                 bool any_type) {
  ASSIGN_OR_RETURN(const size_t f, FindFeature(spec, name));
  const FeatureSpec& feature = spec.features[f];
  const bool suits = any_type || feature.dtype == DType::kUInt8 ||
                     feature.dtype == DType::kFloat32;
  if (feature.dims.size() >= 2 && feature.dims.size() <= 3 && suits) return f;
  return absl::InvalidArgumentError(absl::StrCat(
      "needs an image of uint8 or float32, height x width x channels; '", name,
      "' is ", ShapeText(feature.dtype, feature.dims)));
}

// Copies a rectangle whose corner (top, left) may lie outside of the image:
// what does is 0.
void CopyRectangle(const OwnedTensor& in, int64_t top, int64_t left,
                   OwnedTensor* out) {
  const size_t pixel = ChannelsOf(in.dims()) * SizeOf(in.dtype());
  const auto in_height = static_cast<int64_t>(in.dims()[0]);
  const auto in_width = static_cast<int64_t>(in.dims()[1]);
  const auto height = static_cast<int64_t>(out->dims()[0]);
  const auto width = static_cast<int64_t>(out->dims()[1]);
  const int64_t first = std::clamp<int64_t>(-left, 0, width);
  const int64_t last = std::clamp<int64_t>(in_width - left, first, width);
  std::byte* to = out->bytes().data();
  const size_t row = static_cast<size_t>(width) * pixel;
  for (int64_t y = 0; y < height; ++y, to += row) {
    std::fill_n(to, row, std::byte{0});
    if (y + top < 0 || y + top >= in_height) continue;
    std::copy_n(
        in.bytes().data() +
            static_cast<size_t>((y + top) * in_width + left + first) * pixel,
        static_cast<size_t>(last - first) * pixel,
        to + static_cast<size_t>(first) * pixel);
  }
}

// A part of an image; `random` chooses where, else it is the middle.
Result MakeCrop(const std::string& name, const std::string& feature,
                uint64_t height, uint64_t width, uint64_t padding, bool random,
                const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f, FindImage(context.input, feature, true));
  InputSpec spec = context.input;
  Dims& dims = spec.features[f].dims;
  const auto check = [height, width, padding](uint64_t h, uint64_t w) {
    if (height <= h + 2 * padding && width <= w + 2 * padding) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("the image is ", h, "x", w,
                                                   "; ", height, "x", width,
                                                   " cannot be cut out of it"));
  };
  if (dims[0] > 0 && dims[1] > 0) RETURN_IF_ERROR(check(dims[0], dims[1]));
  dims = WithSize(dims, height, width);
  return std::make_unique<FeatureTransform>(
      name, std::move(spec), f, context.key,
      [=](const OwnedTensor& in, RandomStream stream,
          OwnedTensor* out) -> absl::Status {
        const uint64_t h = in.dims()[0] + 2 * padding;
        const uint64_t w = in.dims()[1] + 2 * padding;
        RETURN_IF_ERROR(check(in.dims()[0], in.dims()[1]));
        out->Reset(in.dtype(), WithSize(in.dims(), height, width));
        const uint64_t top =
            random ? stream.Below(h - height + 1) : (h - height) / 2;
        const uint64_t left =
            random ? stream.Below(w - width + 1) : (w - width) / 2;
        CopyRectangle(
            in, static_cast<int64_t>(top) - static_cast<int64_t>(padding),
            static_cast<int64_t>(left) - static_cast<int64_t>(padding), out);
        return absl::OkStatus();
      });
}

Result MakeFlip(const std::string& feature, const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f, FindImage(context.input, feature, true));
  return std::make_unique<FeatureTransform>(
      "flip", context.input, f, context.key,
      [](const OwnedTensor& in, RandomStream stream, OwnedTensor* out) {
        out->Reset(in.dtype(), in.dims());
        const std::byte* from = in.bytes().data();
        std::byte* to = out->bytes().data();
        if (!stream.Chance(0.5)) {
          std::copy_n(from, in.bytes().size(), to);
          return absl::OkStatus();
        }
        const size_t pixel = ChannelsOf(in.dims()) * SizeOf(in.dtype());
        const uint64_t width = in.dims()[1];
        for (uint64_t y = 0; y < in.dims()[0]; ++y) {
          for (uint64_t x = 0; x < width; ++x) {
            std::copy_n(from + (y * width + width - 1 - x) * pixel, pixel,
                        to + (y * width + x) * pixel);
          }
        }
        return absl::OkStatus();
      });
}

// Where a pixel of the result lies between two of the source, along one side.
struct Between {
  uint64_t low, high;
  float share;  // Of the high one.
};

// Of pixel i of `to`. Pixels are squares: the middle of the first lies at 0.5.
Between PlaceOf(uint64_t i, uint64_t from, uint64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5,
                               0.0, static_cast<double>(from - 1));
  Between place;
  place.low = static_cast<uint64_t>(at);
  place.high = std::min(place.low + 1, from - 1);
  place.share = static_cast<float>(at - static_cast<double>(place.low));
  return place;
}

template <class T>
void ResizeBilinear(const OwnedTensor& in, OwnedTensor* out) {
  const uint64_t channels = ChannelsOf(in.dims());
  const uint64_t row = in.dims()[1] * channels;
  const uint64_t height = out->dims()[0];
  static thread_local std::vector<Between> xs;  // Its memory is used again.
  xs.resize(out->dims()[1]);
  for (uint64_t x = 0; x < xs.size(); ++x) {
    xs[x] = PlaceOf(x, in.dims()[1], xs.size());
  }
  const T* from = in.values<T>().data();
  T* to = out->values<T>().data();
  for (uint64_t i = 0; i < height; ++i) {
    const Between y = PlaceOf(i, in.dims()[0], height);
    const T* low = from + y.low * row;
    const T* high = from + y.high * row;
    for (const Between& x : xs) {
      for (uint64_t c = 0; c < channels; ++c) {
        const uint64_t l = x.low * channels + c;
        const uint64_t h = x.high * channels + c;
        const float above = static_cast<float>(low[l]) * (1 - x.share) +
                            static_cast<float>(low[h]) * x.share;
        const float below = static_cast<float>(high[l]) * (1 - x.share) +
                            static_cast<float>(high[h]) * x.share;
        const float value = above * (1 - y.share) + below * y.share;
        *to++ = static_cast<T>(std::is_integral_v<T> ? value + 0.5f : value);
      }
    }
  }
}

Result MakeResize(const v1::InputStage::Resize& config,
                  const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindImage(context.input, config.feature(), false));
  InputSpec spec = context.input;
  Dims& dims = spec.features[f].dims;
  dims = WithSize(dims, config.height(), config.width());
  return std::make_unique<FeatureTransform>(
      "resize", std::move(spec), f, context.key,
      [height = config.height(), width = config.width()](
          const OwnedTensor& in, RandomStream,
          OwnedTensor* out) -> absl::Status {
        if (in.size() == 0) {
          return absl::InvalidArgumentError("the image has no pixels");
        }
        out->Reset(in.dtype(), WithSize(in.dims(), height, width));
        if (in.dtype() == DType::kUInt8) {
          ResizeBilinear<uint8_t>(in, out);
        } else {
          ResizeBilinear<float>(in, out);
        }
        return absl::OkStatus();
      });
}

Result MakeDecode(const v1::InputStage::DecodeImage& config,
                  const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindFeature(context.input, config.feature()));
  InputSpec spec = context.input;
  FeatureSpec& feature = spec.features[f];
  if (feature.dtype != DType::kUInt8 || feature.dims.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs the bytes of a file; '", feature.name, "' is ",
                     ShapeText(feature.dtype, feature.dims)));
  }
  const uint32_t channels = config.channels() == 1 ? 1 : 3;
  feature.dims = {0, 0, channels};
  return std::make_unique<FeatureTransform>(
      "decode_image", std::move(spec), f, context.key,
      [channels,
       decode = config.exif_orientation() ? DecodeUpright : DecodeImage](
          const OwnedTensor& in, RandomStream, OwnedTensor* out) {
        return decode(in.bytes(), channels, out);
      });
}

Result MakeRandAugment(const v1::InputStage::RandAugment& config,
                       const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindImage(context.input, config.feature(), false));
  return std::make_unique<FeatureTransform>(
      "rand_augment", context.input, f, context.key,
      [operations = config.operations(), strength = config.strength()](
          const OwnedTensor& in, RandomStream stream, OwnedTensor* out) {
        RandAugment(in, operations, strength, stream, out);
        return absl::OkStatus();
      });
}

// Uniform in [-most, most).
double DrawWithin(double most, RandomStream* random) {
  return most * (2 * double{random->Uniform()} - 1);
}

// As tf.image.random_brightness: real numbers are not cut off.
Result MakeRandomBrightness(const v1::InputStage::RandomBrightness& config,
                            const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindImage(context.input, config.feature(), false));
  return std::make_unique<FeatureTransform>(
      "random_brightness", context.input, f, context.key,
      [most = config.max_delta()](const OwnedTensor& in, RandomStream stream,
                                  OwnedTensor* out) {
        const double delta = DrawWithin(most, &stream);
        out->Reset(in.dtype(), in.dims());
        if (in.dtype() == DType::kUInt8) {
          const absl::Span<const uint8_t> from = in.values<uint8_t>();
          std::transform(
              from.begin(), from.end(), out->values<uint8_t>().begin(),
              [delta](uint8_t v) {
                const double level = v + 255 * delta + 0.5;
                return static_cast<uint8_t>(std::clamp(level, 0.0, 255.0));
              });
        } else {
          const absl::Span<const float> from = in.values<float>();
          std::transform(from.begin(), from.end(), out->values<float>().begin(),
                         [delta = static_cast<float>(delta)](float v) {
                           return v + delta;
                         });
        }
        return absl::OkStatus();
      });
}

Result MakeRandomRotation(const v1::InputStage::RandomRotation& config,
                          const TransformContext& context) {
  ASSIGN_OR_RETURN(const size_t f,
                   FindImage(context.input, config.feature(), false));
  return std::make_unique<FeatureTransform>(
      "random_rotation", context.input, f, context.key,
      [most = config.max_degrees()](const OwnedTensor& in, RandomStream stream,
                                    OwnedTensor* out) {
        RotateImage(in, DrawWithin(most, &stream), out);
        return absl::OkStatus();
      });
}

}  // namespace

Result MakeImageTransform(const v1::InputStage& config,
                          const TransformContext& context) {
  switch (config.kind_case()) {
    case v1::InputStage::kCrop:
      return MakeCrop("crop", config.crop().feature(), config.crop().height(),
                      config.crop().width(), 0, false, context);
    case v1::InputStage::kRandomCrop:
      return MakeCrop(
          "random_crop", config.random_crop().feature(),
          config.random_crop().height(), config.random_crop().width(),
          config.random_crop().padding(), context.training, context);
    case v1::InputStage::kFlip:
      return MakeFlip(config.flip().feature(), context);
    case v1::InputStage::kResize:
      return MakeResize(config.resize(), context);
    case v1::InputStage::kDecodeImage:
      return MakeDecode(config.decode_image(), context);
    case v1::InputStage::kRandAugment:
      return MakeRandAugment(config.rand_augment(), context);
    case v1::InputStage::kRandomBrightness:
      return MakeRandomBrightness(config.random_brightness(), context);
    case v1::InputStage::kRandomRotation:
      return MakeRandomRotation(config.random_rotation(), context);
    default:
      return std::unique_ptr<Transform>();
  }
}

}  // namespace paramd
