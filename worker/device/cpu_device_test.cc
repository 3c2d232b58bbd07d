#include "worker/device/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "worker/device/reference_device.h"

namespace paramd {
namespace {

// Tensors of random values, and of bytes and indices; what a primitive writes
// begins as NaN.
class Values {
 public:
  explicit Values(uint64_t seed) : random_(seed) {}

  Tensor In(Dims dims, float low = -1, float high = 1) {
    Tensor tensor = Out(std::move(dims));
    for (float& value : tensor.values<float>()) {
      value = low + (high - low) * random_.Uniform();
    }
    return tensor;
  }

  Tensor Out(Dims dims) {
    floats_.emplace_back(SizeOf(dims), std::numeric_limits<float>::quiet_NaN());
    return {floats_.back().data(), DType::kFloat32, std::move(dims)};
  }

  Tensor Bytes(Dims dims) {
    bytes_.emplace_back(SizeOf(dims), uint8_t{77});
    return {bytes_.back().data(), DType::kUInt8, std::move(dims)};
  }

  Tensor Indices(uint64_t count, uint64_t bound) {
    indices_.emplace_back();
    for (uint64_t i = 0; i < count; ++i) {
      indices_.back().push_back(static_cast<int32_t>(random_.Below(bound)));
    }
    return {indices_.back().data(), DType::kInt32, {count}};
  }

 private:
  RandomStream random_;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<uint8_t>> bytes_;
  std::vector<std::vector<int32_t>> indices_;
};

// Runs a primitive and returns what it wrote.
using Primitive = std::function<std::vector<Tensor>(Device*, Values*)>;

void ExpectAgree(const Primitive& primitive, float tolerance = 1e-5f) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Values for_reference(seed);
    Values for_cpu(seed);
    Values again(seed);
    ReferenceDevice reference;
    CpuDevice cpu;
    const auto expected = primitive(&reference, &for_reference);
    const auto found = primitive(&cpu, &for_cpu);
    const auto repeated = primitive(&cpu, &again);
    for (size_t t = 0; t < expected.size(); ++t) {
      const auto want = expected[t].values<float>();
      const auto got = found[t].values<float>();
      float largest = 1;
      for (const float value : want) {
        largest = std::max(largest, std::abs(value));
      }
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], tolerance * largest)
            << "result " << t << ", element " << i;
        ASSERT_EQ(got[i], repeated[t].values<float>()[i]);
      }
    }
  }
}

Window SomeWindow() {
  return {.batch = 3, .height = 7, .width = 6, .channels = 8, .out_height = 4,
          .out_width = 3, .kernel_height = 3, .kernel_width = 3,
          .stride_height = 2, .stride_width = 2, .top = 1, .left = 0};
}

Window Small() {
  return {.batch = 2, .height = 5, .width = 5, .channels = 1, .out_height = 4,
          .out_width = 4, .kernel_height = 2, .kernel_width = 2};
}

Convolution Of(const Window& window, uint64_t outputs, uint64_t groups) {
  return {.window = window, .outputs = outputs, .groups = groups};
}

class ConvolutionTest : public testing::TestWithParam<Convolution> {
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
    ExpectAgree([&](Device* device, Values* values) {
      const Tensor bias = values->In({GetParam().outputs});
      const Tensor output = values->Out(Output());
      device->Convolve(GetParam(), values->In(Input()), values->In(Kernel()),
                       biased ? bias : Tensor(), output);
      return std::vector<Tensor>{output};
    });
  }
}

TEST_P(ConvolutionTest, AgreesBackward) {
  ExpectAgree([&](Device* device, Values* values) {
    const Tensor dy = values->In(Output());
    const Tensor dx = values->Out(Input());
    const Tensor dw = values->Out(Kernel());
    device->ConvolveBackwardInput(GetParam(), values->In(Kernel()), dy, dx);
    device->ConvolveBackwardKernel(GetParam(), values->In(Input()), dy, dw);
    return std::vector<Tensor>{dx, dw};
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvolutionTest,
                         testing::Values(Of(SomeWindow(), 16, 1),
                                         Of(SomeWindow(), 4, 2),
                                         Of(SomeWindow(), 8, 8),
                                         Of(Small(), 5, 1)));

TEST(CpuDeviceTest, PoolingAgrees) {
  for (const auto kind : {Pooling::Kind::kMax, Pooling::Kind::kAverage}) {
    for (const Window& w : {SomeWindow(), Small()}) {
      ExpectAgree([&](Device* device, Values* values) {
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

TEST(CpuDeviceTest, PoolingOverAllPlacesAgrees) {
  for (const auto kind : {Pooling::Kind::kMax, Pooling::Kind::kAverage}) {
    ExpectAgree([&](Device* device, Values* values) {
      const Tensor x = values->In({3, 20, 5});
      const Tensor y = values->Out({3, 5});
      const Tensor dx = values->Out({3, 20, 5});
      device->PoolAll(kind, x, y);
      device->PoolAllBackward(kind, x, y, values->In({3, 5}), dx);
      return std::vector<Tensor>{y, dx};
    });
  }
}

TEST(CpuDeviceTest, ProductsAgree) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      ExpectAgree([&](Device* device, Values* values) {
        const Product product{.m = 13, .n = 9, .k = 21,
                              .transpose_a = transpose_a,
                              .transpose_b = transpose_b, .scale = 0.25};
        const Tensor c = values->Out({13, 9});
        device->Multiply(product, values->In({13, 21}), values->In({21, 9}),
                         c);
        return std::vector<Tensor>{c};
      });
    }
  }
}

TEST(CpuDeviceTest, AGridOfProductsAgrees) {
  // Scores of attention: queries and keys of 2 x 3 heads, interleaved.
  ExpectAgree([&](Device* device, Values* values) {
    const Product product{
        .m = 5, .n = 5, .k = 4, .transpose_b = true, .outer = 2, .inner = 3,
        .a = {.row = 24, .outer = 5 * 24, .inner = 4},
        .b = {.row = 24, .outer = 5 * 24, .inner = 4},
        .c = {.outer = 75, .inner = 25}};
    const Tensor qk = values->In({2, 5, 24});
    const Tensor c = values->Out({2, 3, 5, 5});
    device->Multiply(product, qk, qk, c);
    return std::vector<Tensor>{c};
  });
}

TEST(CpuDeviceTest, AProductWithoutDepthIsZero) {
  ExpectAgree([&](Device* device, Values* values) {
    const Tensor c = values->Out({2, 2});
    device->Multiply({.m = 2, .n = 2}, Tensor(), Tensor(), c);
    return std::vector<Tensor>{c};
  });
}

TEST(CpuDeviceTest, BatchNormAgrees) {
  for (const uint64_t columns : {3, 16, 40}) {
    ExpectAgree([&](Device* device, Values* values) {
      const Norm norm{.scale = values->In({columns}),
                      .shift = values->In({columns})};
      const Tensor x = values->In({50, columns}, -1, 3);
      const Tensor mean = values->Out({columns});
      const Tensor variance = values->Out({columns});
      const Tensor y = values->Out({50, columns});
      const Tensor used = values->Out({50, columns});
      const NormGradients gradients{values->Out({columns}),
                                    values->Out({columns}),
                                    values->Out({50, columns})};
      device->BatchNorm(norm, x, mean, variance, y);
      device->BatchNormBackward(norm, x, mean, variance,
                                values->In({50, columns}), gradients);
      device->BatchNormWith(norm, x, values->In({columns}),
                            values->In({columns}, 0.5f, 2), used);
      return std::vector<Tensor>{y,    mean,           variance,
                                 used, gradients.scale, gradients.shift,
                                 gradients.input};
    });
  }
}

TEST(CpuDeviceTest, LayerNormAgrees) {
  for (const uint64_t columns : {3, 16, 40}) {
    ExpectAgree([&](Device* device, Values* values) {
      const Norm norm{.scale = values->In({columns}),
                      .shift = values->In({columns})};
      const Tensor x = values->In({50, columns}, -1, 3);
      const Tensor mean = values->Out({50});
      const Tensor variance = values->Out({50});
      const Tensor y = values->Out({50, columns});
      const NormGradients gradients{values->Out({columns}),
                                    values->Out({columns}),
                                    values->Out({50, columns})};
      device->LayerNorm(norm, x, mean, variance, y);
      device->LayerNormBackward(norm, x, mean, variance,
                                values->In({50, columns}), gradients);
      return std::vector<Tensor>{y, gradients.scale, gradients.shift,
                                 gradients.input};
    });
  }
}

TEST(CpuDeviceTest, SoftmaxAgrees) {
  for (const bool causal : {false, true}) {
    ExpectAgree([&](Device* device, Values* values) {
      const Tensor y = values->In({2, 3, 7, 7}, -5, 5);
      const Tensor dx = values->Out({2, 3, 7, 7});
      device->Softmax(causal, y, y);
      device->SoftmaxBackward(y, values->In({2, 3, 7, 7}), dx);
      return std::vector<Tensor>{y, dx};
    });
  }
}

TEST(CpuDeviceTest, GatherAndScatterAgree) {
  ExpectAgree([&](Device* device, Values* values) {
    const Tensor indices = values->Indices(30, 6);
    const Tensor rows = values->Out({30, 4});
    const Tensor table = values->Out({6, 4});
    device->Gather(values->In({6, 4}), indices, rows);
    device->ScatterAdd(indices, values->In({30, 4}), table);
    return std::vector<Tensor>{rows, table};
  });
}

TEST(CpuDeviceTest, DotsOfPairsAgree) {
  for (const uint64_t fields : {2, 3, 26}) {
    ExpectAgree([&](Device* device, Values* values) {
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

TEST(CpuDeviceTest, CopiedColumnsAgree) {
  ExpectAgree([&](Device* device, Values* values) {
    const Tensor to = values->In({4, 9});
    device->CopyColumns(values->In({4, 2, 3}), 1, 4, to, 3);
    return std::vector<Tensor>{to};
  });
}

TEST(CpuDeviceTest, RowsAgree) {
  ExpectAgree([&](Device* device, Values* values) {
    const Tensor x = values->In({30, 7});
    const Tensor sum = values->Out({7});
    const Tensor moved = values->Out({30, 7});
    const Tensor scaled = values->Out({30, 7});
    const Tensor added = values->Out({30, 7});
    device->SumRows(x, sum);
    device->AddRow(x, values->In({7}), moved);
    device->ScaleRows(x, values->In({30}), scaled);
    device->Add(x, 0.5, moved, added);
    return std::vector<Tensor>{sum, moved, scaled, added};
  });
}

class ElementwiseTest : public testing::TestWithParam<Elementwise> {};

TEST_P(ElementwiseTest, Agrees) {
  ExpectAgree([&](Device* device, Values* values) {
    const Tensor x = values->In({37, 5}, -6, 6);
    const Tensor y = values->Out({37, 5});
    const Tensor dx = values->Out({37, 5});
    device->Apply(GetParam(), x, y);
    device->ApplyBackward(GetParam(), x, y, values->In({37, 5}), dx);
    return std::vector<Tensor>{y, dx};
  });
}

TEST_P(ElementwiseTest, NaNStaysNaN) {
  CpuDevice cpu;
  std::vector<float> x(40, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> y(40);
  cpu.Apply(GetParam(), ConstTensor(x.data(), DType::kFloat32, {40}),
            Tensor{y.data(), DType::kFloat32, {40}});
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
}

INSTANTIATE_TEST_SUITE_P(All, ElementwiseTest,
                         testing::Values(Elementwise::kRelu, Elementwise::kGelu,
                                         Elementwise::kTanh,
                                         Elementwise::kSigmoid));

TEST(CpuDeviceTest, MemoryIsAlignedAndCopied) {
  CpuDevice cpu;
  const auto memory = cpu.Allocate(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0u);
  const std::vector<float> from = {1, 2, 3};
  cpu.Copy(from.data(), 12, memory.get());
  EXPECT_EQ(static_cast<float*>(memory.get())[2], 3);
}

}  // namespace
}  // namespace paramd
