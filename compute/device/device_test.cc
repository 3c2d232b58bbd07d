#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/float_type.h"
#include "compute/device/reference_device.h"
#include "compute/device/rounding.h"
#include "compute/device/testing/test_device.h"

namespace paramd {
namespace {

using DeviceTest = OnTestDevice;

// Memory of a device, with tensors of random values, and of bytes and indices,
// in it; what a primitive writes begins as NaN.
class Values {
 public:
  // `dtype`: of numbers that layers hand on. `format`: what random ones of them
  // are rounded to.
  Values(uint64_t seed, Device* device, DType dtype,
         ComputeFormat format = ComputeFormat::kFp32)
      : random_(seed), device_(*device), dtype_(dtype), format_(format) {}

  Tensor In(Dims dims, float low = -1, float high = 1) {
    std::vector<float> values = Draw(SizeOf(dims), low, high);
    Round(format_, values.data(), values.size(), values.data());
    return Numbers(values, dtype_, std::move(dims));
  }
  // Of a variable, or statistics.
  Tensor Weights(Dims dims, float low = -1, float high = 1) {
    const std::vector<float> values = Draw(SizeOf(dims), low, high);
    return Numbers(values, WideOf(dtype_), std::move(dims));
  }

  Tensor Out(Dims dims) { return NaNs(dtype_, std::move(dims)); }
  // A variable's gradient, or statistics.
  Tensor Sums(Dims dims) { return NaNs(WideOf(dtype_), std::move(dims)); }

  // Without values.
  Tensor None() const { return {nullptr, dtype_, {0}}; }

  Tensor Bytes(Dims dims) {
    const std::vector<uint8_t> bytes(SizeOf(dims), 77);
    return Held(bytes, std::move(dims));
  }

  Tensor Indices(uint64_t count, uint64_t bound) {
    std::vector<int32_t> indices;
    for (uint64_t i = 0; i < count; ++i) {
      indices.push_back(static_cast<int32_t>(random_.Below(bound)));
    }
    return Held(indices, {count});
  }

  const uint64_t* Offsets(const std::vector<int64_t>& offsets) {
    return static_cast<const uint64_t*>(Held(offsets, {offsets.size()}).data);
  }

  template <class T>
  Tensor Held(const std::vector<T>& values, Dims dims) {
    return {Copied(values.data(), values.size() * sizeof(T)), DTypeOf<T>::value,
            std::move(dims)};
  }

  // What is in a tensor of numbers.
  std::vector<double> Read(const Tensor& tensor) {
    std::vector<double> values;
    if (IsHalf(tensor.dtype)) {
      std::vector<uint16_t> halves(tensor.size());
      device_.Copy(tensor.data, 2 * halves.size(), halves.data());
      device_.Finish();
      std::vector<float> floats(halves.size());
      ReferenceDevice().Convert(
          ConstTensor(halves.data(), tensor.dtype, tensor.dims),
          {floats.data(), DType::kFloat32, tensor.dims});
      return {floats.begin(), floats.end()};
    }
    WithFloatType(tensor.dtype, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> typed(tensor.size());
      device_.Copy(tensor.data, typed.size() * sizeof(T), typed.data());
      device_.Finish();
      values.assign(typed.begin(), typed.end());
    });
    return values;
  }

 private:
  std::vector<float> Draw(uint64_t size, float low, float high) {
    std::vector<float> values(size);
    for (float& value : values) value = low + (high - low) * random_.Uniform();
    return values;
  }
  Tensor NaNs(DType dtype, Dims dims) {
    const std::vector<float> values(SizeOf(dims),
                                    std::numeric_limits<float>::quiet_NaN());
    return Numbers(values, dtype, std::move(dims));
  }
  Tensor Numbers(const std::vector<float>& values, DType dtype, Dims dims) {
    if (dtype == DType::kFloat32) return Held(values, std::move(dims));
    if (dtype == DType::kFloat64) {
      return Held(std::vector<double>(values.begin(), values.end()),
                  std::move(dims));
    }
    std::vector<uint16_t> halves(values.size());
    ReferenceDevice().Convert(ConstTensor(values.data(), DType::kFloat32, dims),
                              {halves.data(), dtype, dims});
    return {Copied(halves.data(), 2 * halves.size()), dtype, std::move(dims)};
  }
  void* Copied(const void* values, uint64_t bytes) {
    memory_.push_back(device_.Allocate(bytes));
    device_.Copy(values, bytes, memory_.back().get());
    return memory_.back().get();
  }

  RandomStream random_;
  Device& device_;
  const DType dtype_;
  const ComputeFormat format_;
  std::vector<Device::Memory> memory_;
};

// Runs a primitive and returns what it wrote.
using Primitive = std::function<std::vector<Tensor>(Device*, Values*)>;

// Of what the device keeps as `dtype` with float64 of the reference, and with
// itself.
void ExpectAgreeIn(DType dtype, Device* device, double tolerance,
                   const Primitive& primitive) {
  const ComputeFormat rounded =
      IsHalf(dtype) ? device->compute_format() : ComputeFormat::kFp32;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    ReferenceDevice reference;
    Values for_reference(seed, &reference, DType::kFloat64, rounded);
    Values for_device(seed, device, dtype, rounded);
    Values again(seed, device, dtype, rounded);
    const auto expected = primitive(&reference, &for_reference);
    const auto found = primitive(device, &for_device);
    const auto repeated = primitive(device, &again);
    for (size_t t = 0; t < expected.size(); ++t) {
      const auto want = for_reference.Read(expected[t]);
      const auto got = for_device.Read(found[t]);
      const auto repeat = again.Read(repeated[t]);
      double largest = 1;
      for (const double value : want) {
        largest = std::max(largest, std::abs(value));
      }
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], tolerance * largest)
            << NameOf(dtype) << ", result " << t << ", element " << i;
        ASSERT_EQ(got[i], repeat[i]);
      }
    }
  }
}

void ExpectAgree(const Primitive& primitive,
                 ComputeFormat format = ComputeFormat::kFp32,
                 double tolerance = 1e-5) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  device->SetComputeFormat(format);
  ExpectAgreeIn(DType::kFloat32, device.get(), tolerance, primitive);
}

// Also of numbers of two bytes, where the device keeps them so.
void ExpectAllAgree(const Primitive& primitive) {
  ExpectAgree(primitive);
  for (const auto& [format, tolerance] :
       {std::pair(ComputeFormat::kBf16, 1e-2),
        std::pair(ComputeFormat::kFp16, 2e-3)}) {
    const std::unique_ptr<Device> device = MakeTestDevice();
    device->SetComputeFormat(format);
    if (!IsHalf(device->activations())) continue;
    ExpectAgreeIn(device->activations(), device.get(), tolerance, primitive);
  }
}

// And how near to numbers that are not rounded they come.
constexpr std::pair<ComputeFormat, double> kFormats[] = {
    {ComputeFormat::kTf32, 2e-3},
    {ComputeFormat::kBf16, 1e-2},
    {ComputeFormat::kFp16, 2e-3}};

Window SomeWindow() {
  return {.batch = 3,
          .height = 7,
          .width = 6,
          .channels = 8,
          .out_height = 4,
          .out_width = 3,
          .kernel_height = 3,
          .kernel_width = 3,
          .stride_height = 2,
          .stride_width = 2,
          .top = 1,
          .left = 0};
}

Window Small() {
  return {.batch = 2,
          .height = 5,
          .width = 5,
          .channels = 1,
          .out_height = 4,
          .out_width = 4,
          .kernel_height = 2,
          .kernel_width = 2};
}

Convolution Of(const Window& window, uint64_t outputs, uint64_t groups) {
  return {.window = window, .outputs = outputs, .groups = groups};
}

class ConvolutionTest : public OnTestDevice,
                        public ::testing::WithParamInterface<Convolution> {
 protected:
  Dims Input() const {
    const Window& w = GetParam().window;
    return {w.batch, w.height, w.width, w.channels};
  }
  Dims Kernel() const {
    const Window& w = GetParam().window;
    return {w.kernel_height, w.kernel_width, GetParam().group_inputs(),
            GetParam().outputs};
  }
  Dims Output() const {
    const Window& w = GetParam().window;
    return {w.batch, w.out_height, w.out_width, GetParam().outputs};
  }
};

TEST_P(ConvolutionTest, AgreesForward) {
  for (const bool biased : {false, true}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      const Tensor bias = values->Weights({GetParam().outputs});
      const Tensor output = values->Out(Output());
      device->Convolve(GetParam(), values->In(Input()),
                       values->Weights(Kernel()), biased ? bias : Tensor(),
                       output);
      return std::vector<Tensor>{output};
    });
  }
}

TEST_P(ConvolutionTest, AgreesBackward) {
  ExpectAllAgree([&](Device* device, Values* values) {
    const Tensor dy = values->In(Output());
    const Tensor dx = values->Out(Input());
    const Tensor dw = values->Sums(Kernel());
    device->ConvolveBackwardInput(GetParam(), values->Weights(Kernel()), dy,
                                  dx);
    device->ConvolveBackwardKernel(GetParam(), values->In(Input()), dy, dw);
    return std::vector<Tensor>{dx, dw};
  });
}

TEST_P(ConvolutionTest, AgreesInOtherFormats) {
  for (const auto& [format, tolerance] : kFormats) {
    ExpectAgree(
        [&](Device* device, Values* values) {
          const Tensor x = values->In(Input());
          const Tensor w = values->In(Kernel());
          const Tensor dy = values->In(Output());
          const Tensor y = values->Out(Output());
          const Tensor dx = values->Out(Input());
          const Tensor dw = values->Out(Kernel());
          device->Convolve(GetParam(), x, w, Tensor(), y);
          device->ConvolveBackwardInput(GetParam(), w, dy, dx);
          device->ConvolveBackwardKernel(GetParam(), x, dy, dw);
          return std::vector<Tensor>{y, dx, dw};
        },
        format, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvolutionTest,
                         ::testing::Values(Of(SomeWindow(), 16, 1),
                                           Of(SomeWindow(), 4, 2),
                                           Of(SomeWindow(), 8, 8),
                                           Of(Small(), 5, 1)));

TEST_F(DeviceTest, PoolingAgrees) {
  for (const auto kind : {Pooling::Kind::kMax, Pooling::Kind::kAverage}) {
    for (const Window& w : {SomeWindow(), Small()}) {
      ExpectAllAgree([&](Device* device, Values* values) {
        const Pooling shape{.kind = kind, .window = w};
        const Dims out = {w.batch, w.out_height, w.out_width, w.channels};
        const Dims in = {w.batch, w.height, w.width, w.channels};
        const Tensor y = values->Out(out);
        const Tensor dx = values->Out(in);
        const Tensor places = values->Bytes(out);
        device->Pool(shape, values->In(in), y, places);
        device->PoolBackward(shape, places, values->In(out), dx);
        return std::vector<Tensor>{y, dx};
      });
    }
  }
}

TEST_F(DeviceTest, PoolingOverAllPlacesAgrees) {
  for (const auto kind : {Pooling::Kind::kMax, Pooling::Kind::kAverage}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      const Tensor x = values->In({3, 20, 5});
      const Tensor y = values->Out({3, 5});
      const Tensor dx = values->Out({3, 20, 5});
      device->PoolAll(kind, x, y);
      device->PoolAllBackward(kind, x, y, values->In({3, 5}), dx);
      return std::vector<Tensor>{y, dx};
    });
  }
}

TEST_F(DeviceTest, BagsAgree) {
  for (const Bag kind : {Bag::kSum, Bag::kMean, Bag::kSqrtN, Bag::kMax}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      // The last example has no place with values, others miss one.
      const Tensor indices = values->Held(
          std::vector<int32_t>{4, -1, 0, -1, -1, 5, 1, 2, 1, -1, -1, -1}, {12});
      const Tensor x = values->Out({4, 3, 5});
      const Tensor y = values->Out({4, 5});
      const Tensor dx = values->Out({4, 3, 5});
      device->Gather(values->Weights({6, 5}), indices, x);
      device->PoolBag(kind, x, y);
      device->PoolBagBackward(kind, x, y, values->In({4, 5}), dx);
      return std::vector<Tensor>{y, dx};
    });
  }
}

TEST_F(DeviceTest, ProductsAgree) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      ExpectAllAgree([&](Device* device, Values* values) {
        const Product product{.m = 13,
                              .n = 9,
                              .k = 21,
                              .transpose_a = transpose_a,
                              .transpose_b = transpose_b,
                              .scale = 0.25};
        const Tensor c = values->Out({13, 9});
        device->Multiply(product, values->In({13, 21}), values->In({21, 9}), c);
        return std::vector<Tensor>{c};
      });
    }
  }
}

// As a dense layer has them: weights and their gradients are float32.
TEST_F(DeviceTest, ProductsWithVariablesAgree) {
  ExpectAllAgree([](Device* device, Values* values) {
    const Tensor x = values->In({17, 6});
    const Tensor w = values->Weights({6, 5});
    const Tensor dy = values->In({17, 5});
    const Tensor y = values->Out({17, 5});
    const Tensor dx = values->Out({17, 6});
    const Tensor dw = values->Sums({6, 5});
    device->Multiply({.m = 17, .n = 5, .k = 6}, x, w, y);
    device->Multiply({.m = 17, .n = 6, .k = 5, .transpose_b = true}, dy, w, dx);
    device->Multiply({.m = 6, .n = 5, .k = 17, .transpose_a = true}, x, dy, dw);
    return std::vector<Tensor>{y, dx, dw};
  });
}

TEST_F(DeviceTest, ConvertedNumbersAreTheRoundedOnes) {
  for (const auto format : {ComputeFormat::kBf16, ComputeFormat::kFp16}) {
    const std::unique_ptr<Device> device = MakeTestDevice();
    device->SetComputeFormat(format);
    const DType half =
        format == ComputeFormat::kBf16 ? DType::kBFloat16 : DType::kFloat16;
    Values values(1, device.get(), DType::kFloat32);
    Values halves(1, device.get(), half);
    const Tensor x = values.In({300}, -70000, 70000);
    const Tensor there = halves.Out({300});
    const Tensor back = values.Out({300});
    device->Convert(x, there);
    device->Convert(there, back);
    const auto read = values.Read(x);
    std::vector<float> wanted(read.begin(), read.end());
    Round(format, wanted.data(), wanted.size(), wanted.data());
    const auto got = values.Read(back);
    EXPECT_EQ(std::vector<float>(got.begin(), got.end()), wanted);
    EXPECT_EQ(halves.Read(there), got);
  }
}

TEST_F(DeviceTest, EveryNumberOfFp16IsConvertedExactly) {
  std::vector<float> numbers;
  for (int exponent = 0; exponent < 31; ++exponent) {
    for (int mantissa = 0; mantissa < 1024; ++mantissa) {
      const float number =
          exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                        : std::ldexp(1024.0f + static_cast<float>(mantissa),
                                     exponent - 25);
      numbers.push_back(number);
      numbers.push_back(-number);
    }
  }
  numbers.push_back(INFINITY);
  numbers.push_back(-INFINITY);
  const std::unique_ptr<Device> device = MakeTestDevice();
  device->SetComputeFormat(ComputeFormat::kFp16);
  Values values(1, device.get(), DType::kFloat32);
  Values halves(1, device.get(), DType::kFloat16);
  const Dims dims = {numbers.size()};
  const Tensor there = halves.Out(dims);
  const Tensor back = values.Out(dims);
  device->Convert(values.Held(numbers, dims), there);
  device->Convert(there, back);
  const auto got = values.Read(back);
  EXPECT_EQ(std::vector<float>(got.begin(), got.end()), numbers);
}

TEST_F(DeviceTest, AGridOfProductsAgrees) {
  // Scores of attention: queries and keys of 2 x 3 heads, interleaved.
  ExpectAllAgree([&](Device* device, Values* values) {
    const Product product{.m = 5,
                          .n = 5,
                          .k = 4,
                          .transpose_b = true,
                          .outer = 2,
                          .inner = 3,
                          .a = {.row = 24, .outer = 5 * 24, .inner = 4},
                          .b = {.row = 24, .outer = 5 * 24, .inner = 4},
                          .c = {.outer = 75, .inner = 25}};
    const Tensor qk = values->In({2, 5, 24});
    const Tensor c = values->Out({2, 3, 5, 5});
    device->Multiply(product, qk, qk, c);
    return std::vector<Tensor>{c};
  });
}

TEST_F(DeviceTest, ProductsOfOtherFormatsAgree) {
  for (const auto& [format, tolerance] : kFormats) {
    for (const int transposed : {0, 1, 2, 3}) {
      ExpectAgree(
          [&](Device* device, Values* values) {
            const Product product{.m = 13,
                                  .n = 9,
                                  .k = 21,
                                  .transpose_a = transposed % 2 == 1,
                                  .transpose_b = transposed / 2 == 1,
                                  .scale = 0.25};
            const Tensor c = values->Out({13, 9});
            device->Multiply(product, values->In({13, 21}), values->In({21, 9}),
                             c);
            return std::vector<Tensor>{c};
          },
          format, tolerance);
    }
  }
}

TEST_F(DeviceTest, AGridOfProductsOfOtherFormatsAgrees) {
  for (const auto& [format, tolerance] : kFormats) {
    ExpectAgree(
        [&](Device* device, Values* values) {
          // Shares that mix values of heads, which lie interleaved.
          const Product product{.m = 5,
                                .n = 4,
                                .k = 6,
                                .transpose_a = true,
                                .outer = 2,
                                .inner = 3,
                                .a = {.row = 5, .outer = 90, .inner = 30},
                                .b = {.row = 24, .outer = 6 * 24, .inner = 4},
                                .c = {.row = 12, .outer = 60, .inner = 4}};
          const Tensor c = values->Out({2, 5, 12});
          device->Multiply(product, values->In({2, 3, 6, 5}),
                           values->In({2, 6, 24}), c);
          return std::vector<Tensor>{c};
        },
        format, tolerance);
  }
}

// The same on each device, but for the order of sums.
TEST_F(DeviceTest, AProductIsThatOfItsRoundedOperands) {
  for (const auto format : {ComputeFormat::kBf16, ComputeFormat::kFp16}) {
    const std::unique_ptr<Device> device = MakeTestDevice();
    device->SetComputeFormat(format);
    Values values(1, device.get(), DType::kFloat32);
    const Product product{.m = 7, .n = 8, .k = 33};
    const Tensor a = values.In({7, 33}, -3, 3);
    const Tensor b = values.In({33, 8}, -1e-5f, 1e-5f);
    const Tensor c = values.Out({7, 8});
    device->Multiply(product, a, b, c);

    ReferenceDevice reference;
    Values rounded(1, &reference, DType::kFloat64);
    const auto round = [&](const Tensor& tensor) {
      const std::vector<double> read = values.Read(tensor);
      std::vector<float> floats(read.begin(), read.end());
      Round(format, floats.data(), floats.size(), floats.data());
      return rounded.Held(std::vector<double>(floats.begin(), floats.end()),
                          tensor.dims);
    };
    const Tensor expected = rounded.Out({7, 8});
    reference.Multiply(product, round(a), round(b), expected);
    const auto want = rounded.Read(expected);
    const auto got = values.Read(c);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-5 * 33 * 3e-5) << NameOf(format);
    }
  }
}

TEST_F(DeviceTest, WhatIsTooLargeForFp16IsInfinite) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  device->SetComputeFormat(ComputeFormat::kFp16);
  Values values(1, device.get(), DType::kFloat32);
  const Tensor a = values.Held(std::vector<float>{65519, 65520}, {2, 1});
  const Tensor b = values.Held(std::vector<float>{2}, {1, 1});
  const Tensor c = values.Out({2, 1});
  device->Multiply({.m = 2, .n = 1, .k = 1}, a, b, c);
  EXPECT_EQ(values.Read(c)[0], 2 * 65504);
  EXPECT_TRUE(std::isinf(values.Read(c)[1]));
}

TEST_F(DeviceTest, UnscalingSaysWhetherAllIsFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::unique_ptr<Device> device = MakeTestDevice();
  Values values(1, device.get(), DType::kFloat32);
  const Tensor overflow = values.Out({1});
  for (const float last : {8.0f, kInfinity, -kInfinity, std::nanf("")}) {
    const Tensor some = values.Held(std::vector<float>{-4, 3e38f, last}, {3});
    device->Unscale(0.25, some, overflow);
    EXPECT_EQ(values.Read(overflow)[0], std::isfinite(last) ? 0 : 1) << last;
    EXPECT_EQ(values.Read(some)[0], -1);
    EXPECT_EQ(values.Read(some)[1], 3e38f / 4);
  }
}

TEST_F(DeviceTest, AProductWithoutDepthIsZero) {
  ExpectAllAgree([&](Device* device, Values* values) {
    const Tensor c = values->Out({2, 2});
    device->Multiply({.m = 2, .n = 2}, values->None(), values->None(), c);
    return std::vector<Tensor>{c};
  });
}

TEST_F(DeviceTest, BatchNormAgrees) {
  for (const uint64_t columns : {3, 16, 40}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      const Norm norm{.scale = values->Weights({columns}),
                      .shift = values->Weights({columns})};
      const Tensor x = values->In({50, columns}, -1, 3);
      const Tensor mean = values->Sums({columns});
      const Tensor variance = values->Sums({columns});
      const Tensor y = values->Out({50, columns});
      const Tensor used = values->Out({50, columns});
      const NormGradients gradients{values->Sums({columns}),
                                    values->Sums({columns}),
                                    values->Out({50, columns})};
      device->BatchNorm(norm, x, mean, variance, y);
      device->BatchNormBackward(norm, x, mean, variance,
                                values->In({50, columns}), gradients);
      device->BatchNormWith(norm, x, values->Weights({columns}),
                            values->Weights({columns}, 0.5f, 2), used);
      return std::vector<Tensor>{y,
                                 mean,
                                 variance,
                                 used,
                                 gradients.scale,
                                 gradients.shift,
                                 gradients.input};
    });
  }
}

TEST_F(DeviceTest, LayerNormAgrees) {
  for (const uint64_t columns : {3, 16, 40}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      const Norm norm{.scale = values->Weights({columns}),
                      .shift = values->Weights({columns})};
      const Tensor x = values->In({50, columns}, -1, 3);
      const Tensor mean = values->Sums({50});
      const Tensor variance = values->Sums({50});
      const Tensor y = values->Out({50, columns});
      const NormGradients gradients{values->Sums({columns}),
                                    values->Sums({columns}),
                                    values->Out({50, columns})};
      device->LayerNorm(norm, x, mean, variance, y);
      device->LayerNormBackward(norm, x, mean, variance,
                                values->In({50, columns}), gradients);
      return std::vector<Tensor>{y, gradients.scale, gradients.shift,
                                 gradients.input};
    });
  }
}

TEST_F(DeviceTest, SoftmaxAgrees) {
  for (const bool causal : {false, true}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      const Tensor y = values->In({2, 3, 7, 7}, -5, 5);
      const Tensor dx = values->Out({2, 3, 7, 7});
      device->Softmax(causal, y, y);
      device->SoftmaxBackward(y, values->In({2, 3, 7, 7}), dx);
      return std::vector<Tensor>{y, dx};
    });
  }
}

TEST_F(DeviceTest, GatherAndScatterAgree) {
  for (const uint64_t count : {1, 30, 300}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      const Tensor indices = values->Indices(count, 6);
      const Tensor rows = values->Out({count, 4});
      const Tensor table = values->Sums({6, 4});
      device->Gather(values->Weights({6, 4}), indices, rows);
      device->ScatterAdd(indices, values->In({count, 4}), table);
      return std::vector<Tensor>{rows, table};
    });
  }
}

TEST_F(DeviceTest, AnIndexBelowZeroIsNoRow) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  Values values(1, device.get(), DType::kFloat32);
  const Tensor indices = values.Held(std::vector<int32_t>{1, -1, 1, -1}, {4});
  const Tensor table = values.In({2, 3});
  const Tensor rows = values.Out({4, 3});
  const Tensor sums = values.Out({2, 3});
  device->Gather(table, indices, rows);
  device->ScatterAdd(indices, rows, sums);
  const auto from = values.Read(table);
  const auto got = values.Read(rows);
  const auto added = values.Read(sums);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got[i], from[3 + i]);
    EXPECT_EQ(got[3 + i], 0);
    EXPECT_EQ(added[i], 0);
    EXPECT_EQ(added[3 + i], 2 * got[i]);
  }
}

TEST_F(DeviceTest, DotsOfPairsAgree) {
  for (const uint64_t fields : {2, 3, 26}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      const uint64_t pairs = fields * (fields - 1) / 2;
      const Tensor x = values->In({5, fields, 6});
      const Tensor dots = values->Out({5, pairs});
      const Tensor gradient = values->Out({5, fields, 6});
      device->DotPairs(x, dots);
      device->DotPairsBackward(x, values->In({5, pairs}), gradient);
      return std::vector<Tensor>{dots, gradient};
    });
  }
}

TEST_F(DeviceTest, CopiedColumnsAgree) {
  ExpectAllAgree([&](Device* device, Values* values) {
    const Tensor to = values->In({4, 9});
    device->CopyColumns(values->In({4, 2, 3}), 1, 4, to, 3);
    return std::vector<Tensor>{to};
  });
}

TEST_F(DeviceTest, RowsAgree) {
  ExpectAllAgree([&](Device* device, Values* values) {
    const Tensor x = values->In({30, 7});
    const Tensor sum = values->Sums({7});
    const Tensor moved = values->Out({30, 7});
    const Tensor scaled = values->Out({30, 7});
    const Tensor added = values->Out({30, 7});
    const Tensor handed_on = values->Out({7});
    device->SumRows(x, sum);
    device->SumRows(x, handed_on);
    device->AddRow(x, values->Weights({7}), moved);
    device->ScaleRows(x, values->In({30}), scaled);
    device->Add(x, 0.5, moved, added);
    return std::vector<Tensor>{sum, handed_on, moved, scaled, added};
  });
}

class ElementwiseTest : public OnTestDevice,
                        public ::testing::WithParamInterface<Elementwise> {};

TEST_P(ElementwiseTest, Agrees) {
  ExpectAllAgree([&](Device* device, Values* values) {
    const Tensor x = values->In({37, 5}, -6, 6);
    const Tensor y = values->Out({37, 5});
    const Tensor dx = values->Out({37, 5});
    device->Apply(GetParam(), x, y);
    device->ApplyBackward(GetParam(), x, y, values->In({37, 5}), dx);
    return std::vector<Tensor>{y, dx};
  });
}

TEST_P(ElementwiseTest, NaNStaysNaN) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  Values values(1, device.get(), DType::kFloat32);
  const Tensor x = values.Out({40});
  device->Apply(GetParam(), x, x);
  for (const double value : values.Read(x)) EXPECT_TRUE(std::isnan(value));
}

INSTANTIATE_TEST_SUITE_P(All, ElementwiseTest,
                         ::testing::Values(Elementwise::kRelu,
                                           Elementwise::kGelu,
                                           Elementwise::kTanh,
                                           Elementwise::kSigmoid));

// Far more rows than are summed in one piece.
TEST_F(DeviceTest, LongColumnsAgree) {
  ExpectAllAgree([](Device* device, Values* values) {
    const Norm norm{.scale = values->Weights({3}),
                    .shift = values->Weights({3})};
    const Tensor x = values->In({9001, 3}, -1, 3);
    const Tensor sum = values->Sums({3});
    const Tensor mean = values->Sums({3});
    const Tensor variance = values->Sums({3});
    const Tensor y = values->Out({9001, 3});
    device->SumRows(x, sum);
    device->BatchNorm(norm, x, mean, variance, y);
    return std::vector<Tensor>{sum, mean, variance, y};
  });
}

TEST_F(DeviceTest, NobodyWantsTheGradientByTheInput) {
  ExpectAllAgree([](Device* device, Values* values) {
    const Norm norm{.scale = values->Weights({5}),
                    .shift = values->Weights({5})};
    const Tensor x = values->In({20, 5});
    const NormGradients batch{values->Sums({5}), values->Sums({5}), {}};
    const NormGradients layer{values->Sums({5}), values->Sums({5}), {}};
    const Tensor dy = values->In({20, 5});
    device->BatchNormBackward(norm, x, values->Weights({5}),
                              values->Weights({5}, 0.5f, 2), dy, batch);
    device->LayerNormBackward(norm, x, values->Weights({20}),
                              values->Weights({20}, 0.5f, 2), dy, layer);
    return std::vector<Tensor>{batch.scale, batch.shift, layer.scale,
                               layer.shift};
  });
}

TEST_F(DeviceTest, AGridThatIsWiderThanLongAgrees) {
  ExpectAllAgree([](Device* device, Values* values) {
    const Product product{.m = 3,
                          .n = 4,
                          .k = 2,
                          .transpose_a = true,
                          .scale = -2,
                          .outer = 2,
                          .inner = 5,
                          .a = {.outer = 30, .inner = 6},
                          .b = {.outer = 40, .inner = 8},
                          .c = {.outer = 60, .inner = 12}};
    const Tensor c = values->Out({2, 5, 3, 4});
    device->Multiply(product, values->In({60}), values->In({80}), c);
    return std::vector<Tensor>{c};
  });
}

TEST_F(DeviceTest, FactorsThatDropAreDrawnAlike) {
  for (const uint64_t width : {1, 6, 7}) {
    ExpectAllAgree([&](Device* device, Values* values) {
      Drops drops{.key = 0x123456789abcdef,
                  .rate = 0.4,
                  .width = width,
                  .first = uint64_t{1} << 33};
      const Tensor following = values->Out({9, width});
      device->Draw(drops, following);
      drops.offsets = values->Offsets({3, 1, 4, 1, 5, 9, 2, 6, 7});
      const Tensor apart = values->Out({9, width});
      device->Draw(drops, apart);
      return std::vector<Tensor>{following, apart};
    });
  }
}

TEST_F(DeviceTest, MemoryIsAlignedAndCopied) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  const auto memory = device->Allocate(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0u);
  const std::vector<float> from = {1, 2, 3};
  std::vector<float> to(3);
  device->Copy(from.data(), 12, memory.get());
  device->Copy(memory.get(), 12, to.data());
  device->Finish();
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace paramd
