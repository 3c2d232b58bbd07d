#include "compute/quantized/integer_kernels.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

using Result = IntegerProduct::Result;

// The sums, with nothing of the library under test: one for each output.
std::vector<int64_t> Sums(const IntegerProduct& product, uint64_t examples,
                          const std::vector<uint8_t>& input) {
  std::vector<int64_t> sums;
  const uint64_t n = product.outputs;
  if (!product.convolution.has_value()) {
    for (uint64_t row = 0; row < examples; ++row) {
      for (uint64_t c = 0; c < n; ++c) {
        int64_t sum = 0;
        for (uint64_t k = 0; k < product.inputs; ++k) {
          sum += int64_t{input[row * product.inputs + k]} *
                 product.weights[k * n + c];
        }
        sums.push_back(sum);
      }
    }
    return sums;
  }
  const Convolution& shape = *product.convolution;
  const Window& w = shape.window;
  const int64_t in = static_cast<int64_t>(shape.group_inputs());
  const auto at = [&](uint64_t image, int64_t y, int64_t x, int64_t channel) {
    if (y < 0 || x < 0 || y >= static_cast<int64_t>(w.height) ||
        x >= static_cast<int64_t>(w.width)) {
      return int64_t{product.zero_point};
    }
    return int64_t{
        input[((image * w.height + y) * w.width + x) * w.channels + channel]};
  };
  for (uint64_t image = 0; image < examples; ++image) {
    for (int64_t y = 0; y < static_cast<int64_t>(w.out_height); ++y) {
      for (int64_t x = 0; x < static_cast<int64_t>(w.out_width); ++x) {
        for (uint64_t c = 0; c < n; ++c) {
          const auto group = static_cast<int64_t>(c / shape.group_outputs());
          int64_t sum = 0;
          size_t weight = c;
          for (int64_t ky = 0; ky < static_cast<int64_t>(w.kernel_height);
               ++ky) {
            for (int64_t kx = 0; kx < static_cast<int64_t>(w.kernel_width);
                 ++kx) {
              for (int64_t i = 0; i < in; ++i, weight += n) {
                sum += product.weights[weight] *
                       at(image,
                          y * static_cast<int64_t>(w.stride_height) + ky -
                              static_cast<int64_t>(w.top),
                          x * static_cast<int64_t>(w.stride_width) + kx -
                              static_cast<int64_t>(w.left),
                          group * in + i);
              }
            }
          }
          sums.push_back(sum);
        }
      }
    }
  }
  return sums;
}

struct Drawn {
  IntegerProduct product;
  uint64_t examples = 0;
  std::vector<uint8_t> input;
};

// Extreme ones are as large as they can be, as far as that is told apart.
Drawn Draw(uint64_t seed, int most, bool convolution, bool extreme) {
  RandomStream random(seed);
  Drawn drawn;
  IntegerProduct& product = drawn.product;
  drawn.examples = 1 + random.Below(9);
  product.most = most;
  product.relu = random.Below(2) == 0;
  product.result = static_cast<Result>(random.Below(3));
  product.zero_point =
      random.Below(2) == 0 ? 0 : static_cast<uint8_t>(random.Below(256));
  uint64_t input = 0;
  uint64_t weights = 0;
  if (convolution) {
    Convolution shape;
    shape.groups = random.Below(3) == 0 ? 2 : 1;
    Window& w = shape.window;
    w.channels = shape.groups * (1 + random.Below(20));
    shape.outputs = shape.groups * (1 + random.Below(20));
    w.kernel_height = w.kernel_width = 1 + random.Below(3);
    w.stride_height = w.stride_width = 1 + random.Below(2);
    w.height = w.kernel_height + random.Below(8);
    w.width = w.kernel_width + random.Below(8);
    const bool same = random.Below(2) == 0;
    const auto outputs = [&](uint64_t size) {
      return same ? (size + w.stride_height - 1) / w.stride_height
                  : (size - w.kernel_height) / w.stride_height + 1;
    };
    w.out_height = outputs(w.height);
    w.out_width = outputs(w.width);
    const auto before = [&](uint64_t size, uint64_t out) {
      const uint64_t covered = (out - 1) * w.stride_height + w.kernel_height;
      return same && covered > size ? (covered - size) / 2 : 0;
    };
    w.top = before(w.height, w.out_height);
    w.left = before(w.width, w.out_width);
    product.inputs = w.kernel_height * w.kernel_width * shape.group_inputs();
    product.outputs = shape.outputs;
    product.convolution = shape;
    input = drawn.examples * w.height * w.width * w.channels;
  } else {
    product.inputs = 1 + random.Below(extreme ? 512 : 300);
    product.outputs = 1 + random.Below(70);
    input = drawn.examples * product.inputs;
  }
  weights = product.inputs * product.outputs;
  for (uint64_t i = 0; i < input; ++i) {
    drawn.input.push_back(extreme ? 255
                                  : static_cast<uint8_t>(random.Below(256)));
  }
  for (uint64_t i = 0; i < weights; ++i) {
    product.weights.push_back(static_cast<int8_t>(
        extreme ? most : static_cast<int>(random.Below(2 * most + 1)) - most));
  }
  for (uint64_t c = 0; c < product.outputs; ++c) {
    product.bias.push_back(static_cast<float>(random.Below(20001)) - 10000);
    product.scale.push_back(
        static_cast<float>(1 + random.Below(1000)) /
        (product.result == Result::kIntegers ? 1e5f : 1e3f));
  }
  return drawn;
}

template <class T>
std::vector<T> Computed(const Drawn& drawn, uint64_t outputs,
                        IntegerKernels* kernels) {
  std::vector<T> out(outputs);
  kernels->Multiply(drawn.product, drawn.examples, drawn.input.data(),
                    out.data());
  return out;
}

// What IntegerProduct says, from exact sums.
template <class T>
std::vector<T> Expected(const Drawn& drawn, const std::vector<int64_t>& sums) {
  std::vector<T> out;
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t c = i % drawn.product.outputs;
    float value = (static_cast<float>(sums[i]) + drawn.product.bias[c]) *
                  drawn.product.scale[c];
    if (drawn.product.relu) value = std::max(value, 0.0f);
    if (sizeof(T) == 1) {
      value = std::nearbyint(std::min(std::max(value, 0.0f), 255.0f));
    }
    out.push_back(static_cast<T>(value));
  }
  return out;
}

void ExpectRight(const Drawn& drawn, IntegerKernels* kernels) {
  const std::vector<int64_t> sums =
      Sums(drawn.product, drawn.examples, drawn.input);
  for (const int64_t sum : sums) ASSERT_LT(std::abs(sum), 1 << 24);
  switch (drawn.product.result) {
    case Result::kIntegers:
      ASSERT_EQ(Computed<uint8_t>(drawn, sums.size(), kernels),
                Expected<uint8_t>(drawn, sums));
      break;
    case Result::kFloat:
      ASSERT_EQ(Computed<float>(drawn, sums.size(), kernels),
                Expected<float>(drawn, sums));
      break;
    case Result::kSums:
      ASSERT_EQ(Computed<int32_t>(drawn, sums.size(), kernels),
                std::vector<int32_t>(sums.begin(), sums.end()));
      break;
  }
}

TEST(IntegerKernelsTest, EveryKernelGivesTheBitsOfExactSums) {
  IntegerKernels plain(IntegerKernels::Use::kPlainLoops);
  IntegerKernels right;
  int fast = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Drawn drawn = Draw(seed, seed % 3 == 0 ? 63 : 127,
                             /*convolution=*/seed % 2 == 0,
                             /*extreme=*/seed % 5 == 0);
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(ExpectRight(drawn, &plain));
    // The products of others are gone.
    IntegerKernels kernels;
    ASSERT_NO_FATAL_FAILURE(ExpectRight(drawn, &kernels));
    // As it was packed, and with fewer examples.
    ASSERT_NO_FATAL_FAILURE(ExpectRight(drawn, &kernels));
    Drawn less = drawn;
    less.examples = 1;
    ASSERT_NO_FATAL_FAILURE(ExpectRight(less, &kernels));
    fast += kernels.IsFast(drawn.product);
  }
  EXPECT_GT(fast, 100);
}

TEST(IntegerKernelsTest, WhatWouldSaturateIsLeftToPlainLoops) {
  const char* const isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  const IntegerKernels kernels;
  IntegerProduct product;
  product.most = 63;
  EXPECT_TRUE(kernels.IsFast(product));
  product.most = 64;
  EXPECT_EQ(kernels.IsFast(product), SumsAreExact());
  if (isa != nullptr && absl::string_view(isa) == "AVX2") {
    EXPECT_FALSE(SumsAreExact());
  }
}

TEST(IntegerKernelsTest, LongerSumsAreExactOrApartByTheirRounding) {
  for (const int most : {127, 63}) {
    Drawn drawn;
    drawn.examples = 3;
    drawn.product.inputs = 4099;
    drawn.product.outputs = 17;
    drawn.product.most = most;
    drawn.product.weights.assign(4099 * 17, static_cast<int8_t>(most));
    drawn.product.bias.assign(17, 0);
    drawn.product.scale.assign(17, 1);
    drawn.input.assign(3 * 4099, 255);
    const double sum = 255.0 * most * 4099;
    IntegerKernels kernels;
    for (const float found : Computed<float>(drawn, 51, &kernels)) {
      EXPECT_NEAR(found, sum, sum / (1 << 24));
    }
    drawn.product.result = Result::kSums;
    IntegerKernels others;
    for (const int32_t found : Computed<int32_t>(drawn, 51, &others)) {
      EXPECT_NEAR(found, sum, sum / (1 << 24));
    }
  }
}

TEST(SetScalesTest, TheProductIsThatOfTheNumbersWhichIntegersStandFor) {
  RandomStream random(5);
  IntegerProduct product;
  product.inputs = 6;
  product.outputs = 2;
  for (int i = 0; i < 12; ++i) {
    product.weights.push_back(static_cast<int8_t>(random.Below(255)) - 127);
  }
  const std::vector<float> weight_scales = {0.5f, 0.25f};
  SetScales(0.125f, 100, weight_scales, {3, -4}, 1, &product);
  std::vector<uint8_t> input;
  for (int i = 0; i < 6; ++i) {
    input.push_back(static_cast<uint8_t>(random.Below(256)));
  }
  std::vector<float> found(2);
  MultiplyPlainly(product, 1, input.data(), found.data());
  for (int c = 0; c < 2; ++c) {
    double expected = c == 0 ? 3 : -4;
    for (int k = 0; k < 6; ++k) {
      expected += 0.125 * (input[k] - 100) * weight_scales[c] *
                  product.weights[k * 2 + c];
    }
    EXPECT_NEAR(found[c], expected, 1e-3);
  }
}

TEST(MaxPoolIntegersTest, IsTheLargestInsideOfTheImage) {
  RandomStream random(9);
  // "Same", of 5 x 4 pixels with 19 channels: a border of one below.
  const Window w = {.batch = 2,
                    .height = 5,
                    .width = 4,
                    .channels = 19,
                    .out_height = 3,
                    .out_width = 2,
                    .kernel_height = 2,
                    .kernel_width = 2,
                    .stride_height = 2,
                    .stride_width = 2,
                    .top = 0,
                    .left = 0};
  std::vector<uint8_t> input(2 * 5 * 4 * 19);
  for (uint8_t& value : input) value = static_cast<uint8_t>(random.Below(256));
  std::vector<uint8_t> found(2 * 3 * 2 * 19);
  MaxPoolIntegers(w, input.data(), found.data());
  size_t i = 0;
  for (uint64_t image = 0; image < 2; ++image) {
    for (uint64_t y = 0; y < 3; ++y) {
      for (uint64_t x = 0; x < 2; ++x) {
        for (uint64_t c = 0; c < 19; ++c, ++i) {
          uint8_t largest = 0;
          for (uint64_t row = 2 * y; row < std::min<uint64_t>(2 * y + 2, 5);
               ++row) {
            for (uint64_t column = 2 * x; column < 2 * x + 2; ++column) {
              largest = std::max(
                  largest, input[((image * 5 + row) * 4 + column) * 19 + c]);
            }
          }
          ASSERT_EQ(found[i], largest);
        }
      }
    }
  }
}

}  // namespace
}  // namespace paramd
