#include "compute/quantized/int16_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/quantized/affine.h"
#include "compute/quantized/integer_kernels.h"

namespace paramd {
namespace {

using Int16Result = IntegerProduct::Result;
using Instructions = Int16Program::Instructions;

struct Int16Drawn {
  IntegerProduct product;
  uint64_t examples = 0;
  std::vector<int16_t> input;

  uint64_t outputs() const {
    uint64_t rows = examples;
    if (product.convolution.has_value()) {
      const Window& w = product.convolution->window;
      rows *= w.out_height * w.out_width;
    }
    return rows * product.outputs;
  }
};

Convolution DrawConvolution(RandomStream* random) {
  Convolution shape;
  shape.groups = 1 + random->Below(2);
  Window& w = shape.window;
  w.channels = shape.groups * (1 + random->Below(20));
  shape.outputs = shape.groups * (1 + random->Below(40));
  w.kernel_height = 1 + random->Below(3);
  w.kernel_width = 1 + random->Below(3);
  w.stride_height = w.stride_width = 1 + random->Below(2);
  w.height = w.kernel_height + random->Below(8);
  w.width = w.kernel_width + random->Below(8);
  w.top = random->Below(w.kernel_height);
  w.left = random->Below(w.kernel_width);
  w.out_height = (w.height + 2 * w.top - w.kernel_height) / w.stride_height + 1;
  w.out_width = (w.width + 2 * w.left - w.kernel_width) / w.stride_width + 1;
  return shape;
}

// Extreme ones are as large as they can be, all of one sign.
Int16Drawn DrawInt16(uint64_t seed, bool convolution, bool extreme) {
  RandomStream random(seed);
  Int16Drawn drawn;
  IntegerProduct& product = drawn.product;
  drawn.examples = 1 + random.Below(20);
  product.relu = random.Below(2) == 0;
  product.result =
      random.Below(2) == 0 ? Int16Result::kIntegers : Int16Result::kFloat;
  uint64_t of_one = 0;
  if (convolution) {
    product.convolution = DrawConvolution(&random);
    const Window& w = product.convolution->window;
    product.inputs =
        w.kernel_height * w.kernel_width * product.convolution->group_inputs();
    product.outputs = product.convolution->outputs;
    of_one = w.height * w.width * w.channels;
  } else {
    product.inputs = of_one = 1 + random.Below(extreme ? 3000 : 1200);
    product.outputs = 1 + random.Below(50);
  }
  const bool negative = random.Below(2) == 0;
  for (uint64_t i = 0; i < drawn.examples * of_one; ++i) {
    drawn.input.push_back(static_cast<int16_t>(
        extreme ? (negative ? -32767 : 32767)
                : static_cast<int>(random.Below(65535)) - 32767));
  }
  for (uint64_t i = 0; i < product.inputs * product.outputs; ++i) {
    product.weights.push_back(static_cast<int8_t>(
        extreme ? -128 : static_cast<int>(random.Below(255)) - 127));
  }
  for (uint64_t c = 0; c < product.outputs; ++c) {
    product.bias.push_back((static_cast<float>(random.Below(2001)) - 1000) *
                           1e4f);
    product.scale.push_back(static_cast<float>(1 + random.Below(1000)) *
                            (extreme ? 1e-8f : 1e-5f));
  }
  return drawn;
}

// The bits of what is computed, whatever its type.
template <class Multiply>
std::vector<uint8_t> Int16Bytes(const Int16Drawn& drawn, Multiply multiply) {
  const bool is_float = drawn.product.result == Int16Result::kFloat;
  std::vector<uint8_t> bytes(drawn.outputs() * (is_float ? 4 : 2));
  multiply(bytes.data());
  return bytes;
}

std::vector<uint8_t> Int16Plainly(const Int16Drawn& drawn) {
  return Int16Bytes(drawn, [&](void* out) {
    MultiplyPlainly(drawn.product, drawn.examples, drawn.input.data(), out);
  });
}

TEST(Int16ProgramTest, EveryKindOfInstructionsGivesTheBitsOfPlainLoops) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Int16Drawn drawn = DrawInt16(seed, /*convolution=*/seed % 2 == 0,
                                       /*extreme=*/seed % 5 == 0);
    const std::vector<uint8_t> expected = Int16Plainly(drawn);
    for (const Instructions instructions : Int16Program::Available()) {
      Int16Program program(drawn.product, instructions);
      // As it was packed, too.
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(Int16Bytes(drawn,
                             [&](void* out) {
                               program.Run(drawn.examples, drawn.input.data(),
                                           out);
                             }),
                  expected)
            << static_cast<int>(instructions);
      }
    }
  }
}

TEST(Int16ProgramTest, ADeviceComputesAsPlainLoopsDo) {
  IntegerKernels right;
  IntegerKernels plain(IntegerKernels::Use::kPlainLoops);
  std::vector<Int16Drawn> all;  // None moves: both keep their addresses.
  for (uint64_t seed = 300; seed < 320; ++seed) {
    all.push_back(DrawInt16(seed, seed % 2 == 0, false));
  }
  for (const Int16Drawn& drawn : all) {
    for (IntegerKernels* const kernels : {&right, &plain}) {
      EXPECT_EQ(Int16Bytes(drawn,
                           [&](void* out) {
                             kernels->Multiply(drawn.product, drawn.examples,
                                               drawn.input.data(), out);
                           }),
                Int16Plainly(drawn));
    }
  }
}

// 32 bits hold 516 products of the largest, and no more.
TEST(Int16ProgramTest, SumsBeyond32BitsAreExact) {
  for (const uint64_t inputs : {511u, 512u, 513u, 516u, 517u, 66000u}) {
    Int16Drawn drawn;
    drawn.examples = 9;
    IntegerProduct& product = drawn.product;
    product.inputs = inputs;
    product.outputs = 3;
    product.weights.assign(3 * inputs, -127);
    product.bias.assign(3, 0);
    product.scale.assign(3, 1);
    drawn.input.assign(9 * inputs, -32767);
    const int64_t sum = int64_t{127} * 32767 * static_cast<int64_t>(inputs);
    EXPECT_EQ(sum > std::numeric_limits<int32_t>::max(), inputs > 516);
    std::vector<float> plain(27);
    MultiplyPlainly(product, 9, drawn.input.data(), plain.data());
    EXPECT_EQ(plain, std::vector<float>(27, static_cast<float>(sum)));
    for (const Instructions instructions : Int16Program::Available()) {
      std::vector<float> found(27);
      Int16Program(product, instructions)
          .Run(9, drawn.input.data(), found.data());
      EXPECT_EQ(found, plain) << static_cast<int>(instructions);
    }
  }
}

TEST(Int16ProgramTest, TheSumsThemselvesAreOf64Bits) {
  IntegerProduct product;
  product.inputs = 3;
  product.outputs = 2;
  product.weights = {1, -2, 3, -4, 5, -6};
  product.result = Int16Result::kSums;
  const std::vector<int16_t> input = {32767, -32767, 100};
  std::vector<int64_t> sums(2);
  IntegerKernels().Multiply(product, 1, input.data(), sums.data());
  EXPECT_EQ(sums, (std::vector<int64_t>{32767 - 3 * 32767 + 500,
                                        -2 * 32767 + 4 * 32767 - 600}));
}

TEST(Int16ProgramTest, AResultIsCutAtItsEnds) {
  IntegerProduct product;
  product.inputs = 1;
  product.outputs = 4;
  product.weights = {127, -127, 1, -1};
  product.bias.assign(4, 0);
  product.scale.assign(4, 1);
  product.result = Int16Result::kIntegers;
  const std::vector<int16_t> input = {1000};
  for (const bool relu : {false, true}) {
    product.relu = relu;
    std::vector<int16_t> found(4);
    IntegerKernels().Multiply(product, 1, input.data(), found.data());
    EXPECT_EQ(found, relu ? (std::vector<int16_t>{32767, 0, 1000, 0})
                          : (std::vector<int16_t>{32767, -32767, 1000, -1000}));
  }
}

// A bias of which nothing is known: 0 behind a relu, else as an input is.
TEST(Int16ProgramTest, NotANumberIsTheSameByEveryWay) {
  IntegerProduct product;
  product.inputs = 2;
  product.outputs = 3;
  product.weights.assign(6, 1);
  product.bias.assign(3, std::nanf(""));
  product.scale.assign(3, 1);
  product.result = Int16Result::kIntegers;
  const std::vector<int16_t> input = {5, 6};
  for (const bool relu : {false, true}) {
    product.relu = relu;
    const auto expected = static_cast<int16_t>(relu ? 0 : -kMostInt16);
    for (const auto use : {IntegerKernels::Use::kWhatIsRight,
                           IntegerKernels::Use::kPlainLoops}) {
      std::vector<int16_t> found(3);
      IntegerKernels(use).Multiply(product, 1, input.data(), found.data());
      EXPECT_EQ(found, std::vector<int16_t>(3, expected));
    }
  }
}

TEST(MaxPoolInt16Test, IsTheLargestAlsoBelowZero) {
  const Window w = {.batch = 1,
                    .height = 2,
                    .width = 2,
                    .channels = 11,
                    .out_height = 1,
                    .out_width = 1,
                    .kernel_height = 2,
                    .kernel_width = 2,
                    .stride_height = 2,
                    .stride_width = 2,
                    .top = 0,
                    .left = 0};
  RandomStream random(4);
  std::vector<int16_t> input(4 * 11);
  for (int16_t& value : input) {
    value = static_cast<int16_t>(-1 - static_cast<int>(random.Below(30000)));
  }
  std::vector<int16_t> found(11);
  MaxPoolIntegers(w, input.data(), found.data());
  for (size_t c = 0; c < 11; ++c) {
    EXPECT_EQ(found[c], std::max({input[c], input[11 + c], input[22 + c],
                                  input[33 + c]}));
  }
}

}  // namespace
}  // namespace paramd
