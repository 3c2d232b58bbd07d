#include "input/rand_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace paramd {
namespace {

constexpr size_t kOperations = 14;
constexpr size_t kLevels = 256;

// Values in [0, 1], row-major, channels last.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<float> values;

  float& at(int64_t y, int64_t x, int64_t c) {
    return values[static_cast<size_t>((y * width + x) * channels + c)];
  }
  float at(int64_t y, int64_t x, int64_t c) const {
    return values[static_cast<size_t>((y * width + x) * channels + c)];
  }
};

// What is no number is black.
size_t LevelOf(float value) {
  if (!(value > 0)) return 0;
  return static_cast<size_t>(std::min(value, 1.0f) * (kLevels - 1) + 0.5f);
}

template <class F>
void ForEachValue(Image* image, F f) {
  for (float& value : image->values) value = f(value);
}

// What an image is changed with: memory that is used again.
struct Work {
  Image image;
  Image other;
};

// Each pixel comes from where the matrix [a b; c d], around the middle, and the
// shift say; between pixels bilinear.
void Warp(double a, double b, double c, double d, double shift_x,
          double shift_y, Work* work) {
  Image* const image = &work->image;
  const Image& from = work->other = *image;
  const double middle_x = static_cast<double>(from.width - 1) / 2;
  const double middle_y = static_cast<double>(from.height - 1) / 2;
  const auto value = [&from](int64_t y, int64_t x, int64_t channel) {
    const bool inside = y >= 0 && y < from.height && x >= 0 && x < from.width;
    return inside ? from.at(y, x, channel) : 0.0f;
  };
  for (int64_t y = 0; y < from.height; ++y) {
    for (int64_t x = 0; x < from.width; ++x) {
      const double dx = static_cast<double>(x) - middle_x;
      const double dy = static_cast<double>(y) - middle_y;
      const double sx = a * dx + b * dy + middle_x + shift_x;
      const double sy = c * dx + d * dy + middle_y + shift_y;
      const auto left = static_cast<int64_t>(std::floor(sx));
      const auto top = static_cast<int64_t>(std::floor(sy));
      const auto u = static_cast<float>(sx - std::floor(sx));
      const auto v = static_cast<float>(sy - std::floor(sy));
      for (int64_t ch = 0; ch < from.channels; ++ch) {
        image->at(y, x, ch) =
            (value(top, left, ch) * (1 - u) + value(top, left + 1, ch) * u) *
                (1 - v) +
            (value(top + 1, left, ch) * (1 - u) +
             value(top + 1, left + 1, ch) * u) *
                v;
      }
    }
  }
}

// Counter-clockwise, by an angle in radians.
void Rotate(double angle, Work* work) {
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  Warp(cosine, -sine, sine, cosine, 0, 0, work);
}

float Grey(const Image& image, int64_t y, int64_t x) {
  if (image.channels < 3) return image.at(y, x, 0);
  return 0.299f * image.at(y, x, 0) + 0.587f * image.at(y, x, 1) +
         0.114f * image.at(y, x, 2);
}

// factor 0: the other; 1: the image; beyond: away from the other.
void Blend(float factor, Work* work) {
  const std::vector<float>& other = work->other.values;
  std::vector<float>& values = work->image.values;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        std::clamp(other[i] + factor * (values[i] - other[i]), 0.0f, 1.0f);
  }
}

// These make the other.
void MakeGrey(Work* work) {
  const Image& image = work->image;
  Image& grey = work->other = image;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      for (int64_t c = 0; c < image.channels; ++c) {
        grey.at(y, x, c) = Grey(image, y, x);
      }
    }
  }
}

void MakeMean(Work* work) {
  MakeGrey(work);
  double sum = 0;
  for (const float value : work->other.values) sum += double{value};
  const double count =
      std::max<double>(1, static_cast<double>(work->other.values.size()));
  ForEachValue(&work->other,
               [&](float) { return static_cast<float>(sum / count); });
}

// 3 x 3 with 5 in the middle, of 13; the border stays.
void MakeSmooth(Work* work) {
  const Image& image = work->image;
  Image& smooth = work->other = image;
  for (int64_t y = 1; y + 1 < image.height; ++y) {
    for (int64_t x = 1; x + 1 < image.width; ++x) {
      for (int64_t c = 0; c < image.channels; ++c) {
        float sum = 4 * image.at(y, x, c);
        for (int64_t dy = -1; dy <= 1; ++dy) {
          for (int64_t dx = -1; dx <= 1; ++dx) {
            sum += image.at(y + dy, x + dx, c);
          }
        }
        smooth.at(y, x, c) = sum / 13;
      }
    }
  }
}

// The darkest value of each channel becomes 0, the lightest 1.
void AutoContrast(Image* image) {
  for (int64_t c = 0; c < image->channels; ++c) {
    float low = 1, high = 0;
    for (size_t i = static_cast<size_t>(c); i < image->values.size();
         i += static_cast<size_t>(image->channels)) {
      low = std::min(low, image->values[i]);
      high = std::max(high, image->values[i]);
    }
    if (high <= low) continue;
    for (size_t i = static_cast<size_t>(c); i < image->values.size();
         i += static_cast<size_t>(image->channels)) {
      image->values[i] = (image->values[i] - low) / (high - low);
    }
  }
}

// As many pixels at each level of each channel, by its histogram.
void Equalize(Image* image) {
  for (int64_t c = 0; c < image->channels; ++c) {
    std::array<uint64_t, kLevels> below = {};
    uint64_t count = 0;
    for (size_t i = static_cast<size_t>(c); i < image->values.size();
         i += static_cast<size_t>(image->channels)) {
      ++below[LevelOf(image->values[i])];
      ++count;
    }
    uint64_t sum = 0, first = 0;
    for (uint64_t& level : below) {
      if (sum == 0) first = level;
      sum += level;
      level = sum;
    }
    if (count == first) continue;
    for (size_t i = static_cast<size_t>(c); i < image->values.size();
         i += static_cast<size_t>(image->channels)) {
      image->values[i] =
          static_cast<float>(below[LevelOf(image->values[i])] - first) /
          static_cast<float>(count - first);
    }
  }
}

void Posterize(int bits, Image* image) {
  const int drop = 8 - bits;
  ForEachValue(image, [drop](float value) {
    return static_cast<float>(LevelOf(value) >> drop << drop) / 255.0f;
  });
}

// `strength` in [0, 1]; `sign` is -1 or 1, for those that go both ways.
void ApplyOperation(size_t operation, double strength, double sign,
                    Work* work) {
  Image* const image = &work->image;
  const double shear = sign * 0.3 * strength;
  const auto factor = static_cast<float>(1 + sign * 0.9 * strength);
  constexpr double kShare = 150.0 / 331.0;  // Of the side, at most.
  switch (operation) {
    case 0:
      return;  // As it is.
    case 1:
      return Warp(1, shear, 0, 1, 0, 0, work);
    case 2:
      return Warp(1, 0, shear, 1, 0, 0, work);
    case 3:
      return Warp(1, 0, 0, 1,
                  sign * kShare * strength * static_cast<double>(image->width),
                  0, work);
    case 4:
      return Warp(1, 0, 0, 1, 0,
                  sign * kShare * strength * static_cast<double>(image->height),
                  work);
    case 5:
      return Rotate(sign * strength * std::numbers::pi / 6, work);
    case 6:  // Brightness.
      return ForEachValue(image, [factor](float value) {
        return std::clamp(value * factor, 0.0f, 1.0f);
      });
    case 7:  // Colour.
      MakeGrey(work);
      return Blend(factor, work);
    case 8:  // Contrast.
      MakeMean(work);
      return Blend(factor, work);
    case 9:  // Sharpness.
      MakeSmooth(work);
      return Blend(factor, work);
    case 10:
      return Posterize(8 - static_cast<int>(std::lround(4 * strength)), image);
    case 11: {  // Solarize.
      const auto threshold = static_cast<float>(1 - strength);
      return ForEachValue(image, [threshold](float value) {
        return value >= threshold ? 1 - value : value;
      });
    }
    case 12:
      return AutoContrast(image);
    default:
      return Equalize(image);
  }
}

Work& WorkOfThisThread() {
  static thread_local Work work;
  return work;
}

void ReadImage(const OwnedTensor& in, Image* image) {
  image->height = static_cast<int64_t>(in.dims()[0]);
  image->width = static_cast<int64_t>(in.dims()[1]);
  image->channels =
      in.dims().size() == 3 ? static_cast<int64_t>(in.dims()[2]) : 1;
  image->values.resize(in.size());
  if (in.dtype() == DType::kUInt8) {
    const absl::Span<const uint8_t> from = in.values<uint8_t>();
    std::transform(
        from.begin(), from.end(), image->values.begin(),
        [](uint8_t level) { return static_cast<float>(level) / 255.0f; });
  } else {
    const absl::Span<const float> from = in.values<float>();
    std::copy(from.begin(), from.end(), image->values.begin());
  }
}

// Of the type and shape of `in`.
void WriteImage(const Image& image, const OwnedTensor& in, OwnedTensor* out) {
  out->Reset(in.dtype(), in.dims());
  if (in.dtype() == DType::kUInt8) {
    std::transform(image.values.begin(), image.values.end(),
                   out->values<uint8_t>().begin(), [](float value) {
                     return static_cast<uint8_t>(LevelOf(value));
                   });
  } else {
    std::copy(image.values.begin(), image.values.end(),
              out->values<float>().begin());
  }
}

}  // namespace

void RandAugment(const OwnedTensor& in, uint32_t operations, double strength,
                 RandomStream random, OwnedTensor* out) {
  Work& work = WorkOfThisThread();
  ReadImage(in, &work.image);
  for (uint32_t i = 0; i < operations; ++i) {
    const uint64_t operation = random.Below(kOperations);
    const double sign = random.Chance(0.5) ? -1 : 1;
    ApplyOperation(operation, std::clamp(strength / 30, 0.0, 1.0), sign, &work);
  }
  WriteImage(work.image, in, out);
}

void RotateImage(const OwnedTensor& in, double degrees, OwnedTensor* out) {
  Work& work = WorkOfThisThread();
  ReadImage(in, &work.image);
  Rotate(degrees / 180 * std::numbers::pi, &work);
  WriteImage(work.image, in, out);
}

}  // namespace paramd
