// Whichever kernels there are, and however a gradient is cut: the same bits.
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "server/core/optimizer.h"
#include "server/core/testing/optimizer_bench.h"

namespace paramd {
namespace {

using testing::AllConfigs;
using testing::ApplyInPlace;
using testing::Cut;
using testing::Flat;
using testing::Random;
using testing::Sgd;
using testing::Start;
using testing::State;

// The sets of kernels that this machine has besides the portable one.
std::vector<const OptimizerKernels*> FasterKernels() {
  std::vector<const OptimizerKernels*> sets;
  for (const OptimizerKernels* set : {Avx2Kernels(), Avx512Kernels()}) {
    if (set != nullptr) sets.push_back(set);
  }
  return sets;
}

TEST(OptimizerKernelsTest, ACutGradientGivesTheBitsOfAFlatOne) {
  RandomStream random(7);
  for (const v1::OptimizerConfig& config : AllConfigs()) {
    const Optimizer optimizer = *Optimizer::Create(config, 0);
    for (int round = 0; round < 200; ++round) {
      const size_t n = 1 + random.Below(300);
      State flat = Start(optimizer, n);
      State cut = flat;
      for (uint64_t t = 0; t < 3; ++t) {
        const auto gradient = Random(100 + t, n);
        ApplyInPlace(optimizer, Flat(gradient), t, &flat);
        ApplyInPlace(optimizer, Cut(gradient, &random), t, &cut);
      }
      ASSERT_TRUE(flat == cut) << "round " << round << ", " << n;
    }
  }
}

TEST(OptimizerKernelsTest, AllKernelsOfTheMachineAgreeBitForBit) {
  if (FasterKernels().empty()) GTEST_SKIP() << "this machine has no AVX2";
  for (const v1::OptimizerConfig& config : AllConfigs()) {
    for (const OptimizerKernels* const set : FasterKernels()) {
      Optimizer portable = *Optimizer::Create(config, 0);
      Optimizer faster = portable;
      portable.UseKernels(PortableKernels());
      faster.UseKernels(*set);
      for (const size_t n : {1, 3, 8, 31, 4096, 4103}) {
        State a = Start(portable, n);
        State b = a;
        for (uint64_t t = 0; t < 20; ++t) {
          const BufferChain gradient = Flat(Random(100 + t, n));
          ApplyInPlace(portable, gradient, t, &a);
          ApplyInPlace(faster, gradient, t, &b);
        }
        EXPECT_TRUE(a == b) << config.ShortDebugString() << ", " << n;
      }
    }
  }
}

TEST(OptimizerKernelsTest, AnotherOutputGivesTheSameBitsAndLeavesTheInput) {
  for (const v1::OptimizerConfig& config : AllConfigs()) {
    const Optimizer optimizer = *Optimizer::Create(config, 0);
    State in_place = Start(optimizer, 1000);
    const State before = in_place;
    State after = Start(optimizer, 1000);
    const BufferChain gradient = Flat(Random(100, 1000));
    ChainReader reader(gradient);
    optimizer.Apply(&reader, 5,
                    {.elements = 1000,
                     .values = before.values.data(),
                     .slots = before.slots.data(),
                     .new_values = after.values.data(),
                     .new_slots = after.slots.data()});
    EXPECT_TRUE(before == Start(optimizer, 1000));
    ApplyInPlace(optimizer, gradient, 5, &in_place);
    EXPECT_TRUE(in_place == after);
  }
}

TEST(OptimizerKernelsTest, WhatIsNotFiniteIsFoundWhereverTheChainIsCut) {
  RandomStream random(3);
  const Optimizer optimizer = *Optimizer::Create(Sgd(1), 0);
  const float bad[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for (int round = 0; round < 300; ++round) {
    const size_t n = 1 + random.Below(100);
    std::vector<float> numbers = Random(round, n);
    numbers[random.Below(n)] = std::numeric_limits<float>::max();
    const BufferChain good_chain = Cut(numbers, &random);
    ChainReader good(good_chain);
    EXPECT_TRUE(optimizer.ReadFinite(&good, n));
    numbers[random.Below(n)] = bad[round % 3];
    const BufferChain bad_chain = Cut(numbers, &random);
    ChainReader reader(bad_chain);
    EXPECT_FALSE(optimizer.ReadFinite(&reader, n));
    EXPECT_EQ(reader.remaining(), 0u);
  }
}

TEST(OptimizerKernelsTest, TheMeanSquareHasTheSameBitsHoweverTheChainIsCut) {
  if (FasterKernels().empty()) GTEST_SKIP() << "this machine has no AVX2";
  RandomStream random(5);
  Optimizer portable = *Optimizer::Create(Sgd(1), 0);
  portable.UseKernels(PortableKernels());
  for (int round = 0; round < 200; ++round) {
    const size_t n = 1 + random.Below(300);
    const std::vector<float> numbers = Random(round, n);
    double squares = 0;
    for (const float x : numbers) squares += double{x} * x;
    const BufferChain flat = Flat(numbers);
    ChainReader flat_reader(flat);
    const double mean = portable.ReadMeanSquare(&flat_reader, n);
    EXPECT_NEAR(mean, squares / n, 1e-12);
    for (const OptimizerKernels* const set : FasterKernels()) {
      Optimizer faster = portable;
      faster.UseKernels(*set);
      const BufferChain cut = Cut(numbers, &random);
      ChainReader cut_reader(cut);
      EXPECT_EQ(faster.ReadMeanSquare(&cut_reader, n), mean) << n;
      EXPECT_EQ(cut_reader.remaining(), 0u);
    }
  }
}

TEST(OptimizerKernelsTest, TheMeanSquareIsFiniteIfAndOnlyIfAllElementsAre) {
  const Optimizer optimizer = *Optimizer::Create(Sgd(1), 0);
  for (const float last : {std::numeric_limits<float>::max(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> numbers(1000, std::numeric_limits<float>::max());
    numbers[777] = last;
    const BufferChain chain = Flat(numbers);
    ChainReader reader(chain);
    EXPECT_EQ(std::isfinite(optimizer.ReadMeanSquare(&reader, 1000)),
              std::isfinite(last));
  }
}

}  // namespace
}  // namespace paramd
