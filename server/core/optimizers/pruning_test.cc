#include "server/core/optimizers/pruning.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::OptimizerConfig::Pruning Config(double sparsity, uint64_t begin,
                                    uint64_t end, uint64_t every = 1) {
  v1::OptimizerConfig::Pruning config;
  config.set_variables("*");
  config.set_sparsity(sparsity);
  config.set_begin_step(begin);
  config.set_end_step(end);
  config.set_every_steps(every);
  return config;
}

Pruning Make(const v1::OptimizerConfig::Pruning& config) {
  return *Pruning::Create(config);
}

// A block with two slots, to which each step adds a gradient of its own.
struct Block {
  explicit Block(std::vector<float> begin)
      : values(std::move(begin)), slots(2 * values.size(), 1) {}

  // Adds `change` to every value.
  void Step(const Pruning& pruning, float change, const KernelPlace& place = {},
            float below = 0) {
    const std::vector<uint64_t> mask =
        pruning.Mask(values.data(), values.size(), applied, below);
    for (float& value : values) value += change;
    for (float& slot : slots) slot += change;
    pruning.Prune(mask, applied, 2,
                  {.elements = values.size(),
                   .values = values.data(),
                   .slots = slots.data(),
                   .new_values = values.data(),
                   .new_slots = slots.data()},
                  place);
    ++applied;
  }
  size_t zeros() const {
    return static_cast<size_t>(std::count(values.begin(), values.end(), 0.0f));
  }

  std::vector<float> values;
  std::vector<float> slots;
  uint64_t applied = 0;
};

std::vector<float> Ascending(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

TEST(PruningTest, TheShareRisesAlongACubicFromBeginToEnd) {
  v1::OptimizerConfig::Pruning config = Config(0.9, 100, 200);
  config.set_initial_sparsity(0.1);
  const Pruning pruning = Make(config);
  EXPECT_EQ(pruning.Sparsity(99), 0);
  EXPECT_NEAR(pruning.Sparsity(100), 0.1, 1e-12);
  // s_f + (s_i - s_f) (1 - t)^3 at a half: 0.9 - 0.8 / 8.
  EXPECT_NEAR(pruning.Sparsity(150), 0.8, 1e-12);
  EXPECT_EQ(pruning.Sparsity(200), 0.9);
  EXPECT_EQ(pruning.Sparsity(100000), 0.9);
  config.set_power(1);
  EXPECT_NEAR(Make(config).Sparsity(150), 0.5, 1e-12);
}

TEST(PruningTest, TheSmallestMagnitudesBecomeZeroWithTheirSlots) {
  Block block({-4, 3, -1, 2});
  block.Step(Make(Config(0.5, 1, 1)), 0);
  EXPECT_EQ(block.values, (std::vector<float>{-4, 3, 0, 0}));
  EXPECT_EQ(block.slots, (std::vector<float>{1, 1, 0, 0, 1, 1, 0, 0}));
}

TEST(PruningTest, OfEqualsTheFirstGo) {
  Block block({2, -2, 2, -2, 2, 1});
  block.Step(Make(Config(0.5, 1, 1)), 0);
  EXPECT_EQ(block.values, (std::vector<float>{0, 0, 2, -2, 2, 0}));
}

TEST(PruningTest, WhatIsZeroStaysZero) {
  Block block(Ascending(8));
  const Pruning pruning = Make(Config(0.5, 1, 1));
  block.Step(pruning, 0);
  for (int step = 0; step < 5; ++step) block.Step(pruning, 0.25f);
  EXPECT_EQ(block.values,
            (std::vector<float>{0, 0, 0, 0, 6.25, 7.25, 8.25, 9.25}));
  for (const size_t i : {0, 3, 8, 11}) EXPECT_EQ(block.slots[i], 0) << i;
}

TEST(PruningTest, BeforeItBeginsZeroIsAWeightLikeAnyOther) {
  Block block({0, 5, 6, 7});
  const Pruning pruning = Make(Config(0.25, 3, 3));
  block.Step(pruning, 1);
  EXPECT_EQ(block.values[0], 1);
  block.Step(pruning, 1);
  block.Step(pruning, 1);  // Number 3: the smallest goes.
  EXPECT_EQ(block.values, (std::vector<float>{0, 8, 9, 10}));
}

TEST(PruningTest, FromTheBeginningAPrunedModelStaysAsItIs) {
  Block block({0, 5, 0, 7});
  const Pruning pruning = Make(Config(0.5, 0, 1));
  for (int step = 0; step < 3; ++step) block.Step(pruning, 1);
  EXPECT_EQ(block.values, (std::vector<float>{0, 8, 0, 10}));
}

// At every size and share: as many zeros as the share says, never all.
TEST(PruningTest, AsManyAreZeroAsTheShareSays) {
  for (const size_t elements : {1, 2, 3, 63, 64, 65, 1000}) {
    for (const double sparsity : {0.001, 0.5, 0.75, 0.9, 0.9999}) {
      const Pruning pruning = Make(Config(sparsity, 4, 20, 5));
      Block block(Ascending(elements));
      for (uint64_t t = 1; t <= 25; ++t) {
        block.Step(pruning, 0.5f);
        const bool is_time = t == 4 || t == 9 || t == 14 || t == 19 || t == 20;
        if (!is_time) continue;
        const double share = pruning.Sparsity(t);
        const double kept = std::max(
            1.0, std::floor(static_cast<double>(elements) * (1 - share) + 0.5));
        EXPECT_EQ(static_cast<double>(elements - block.zeros()), kept)
            << elements << " " << sparsity << " " << t;
      }
      EXPECT_LT(block.zeros(), elements);
    }
  }
}

v1::OptimizerConfig::Pruning TwoOfFour(uint64_t begin, uint64_t end) {
  v1::OptimizerConfig::Pruning config = Config(0.5, begin, end);
  config.set_structure(v1::OptimizerConfig::Pruning::TWO_OF_FOUR);
  return config;
}

// What two of four leave of a kernel whose last two dimensions these are.
std::vector<float> LeftOf(std::vector<float> kernel, uint64_t inputs,
                          uint64_t outputs) {
  Block block(std::move(kernel));
  block.Step(Make(TwoOfFour(1, 1)), 0,
             {.first = 0, .inputs = inputs, .outputs = outputs});
  return block.values;
}

TEST(PruningTest, OfFourInputsOfAnOutputTheTwoLargestAreLeft) {
  EXPECT_EQ(LeftOf({1, 8, -2, 7, 3, -6, -4, 5}, 4, 2),
            (std::vector<float>{0, 8, 0, 7, 3, 0, -4, 0}));
  // Of equals the first go.
  EXPECT_EQ(LeftOf({2, 2, -2, 2, 1, 9, 1, 8}, 8, 1),
            (std::vector<float>{0, 0, -2, 2, 0, 9, 0, 8}));
}

TEST(PruningTest, FewerThanFourAtTheEndOfTheInputsKeepTwo) {
  EXPECT_EQ(LeftOf(Ascending(5), 5, 1), (std::vector<float>{0, 0, 3, 4, 5}));
  EXPECT_EQ(LeftOf(Ascending(6), 6, 1), (std::vector<float>{0, 0, 3, 4, 5, 6}));
  EXPECT_EQ(LeftOf(Ascending(7), 7, 1),
            (std::vector<float>{0, 0, 3, 4, 0, 6, 7}));
  // Two places of a window, of three inputs each: no four lie in both.
  EXPECT_EQ(LeftOf({1, 2, 3, 6, 5, 4}, 3, 1),
            (std::vector<float>{0, 2, 3, 6, 5, 0}));
}

// Of 8 inputs and 3 outputs, in two blocks cut anywhere.
TEST(PruningTest, WhereABorderCutsFourTwoOfThemAreLeft) {
  constexpr size_t kInputs = 8, kOutputs = 3;
  std::vector<float> kernel;
  for (size_t i = 0; i < kInputs * kOutputs; ++i) {
    kernel.push_back(static_cast<float>(i * 7 % 25) + 1);
  }
  const Pruning pruning = Make(TwoOfFour(1, 1));
  for (size_t cut = 0; cut <= kernel.size(); ++cut) {
    const auto border = kernel.begin() + static_cast<ptrdiff_t>(cut);
    Block first(std::vector<float>(kernel.begin(), border));
    Block second(std::vector<float>(border, kernel.end()));
    first.Step(pruning, 0,
               {.first = 0, .inputs = kInputs, .outputs = kOutputs});
    second.Step(pruning, 0,
                {.first = cut, .inputs = kInputs, .outputs = kOutputs});
    std::vector<float> left = first.values;
    left.insert(left.end(), second.values.begin(), second.values.end());
    for (size_t output = 0; output < kOutputs; ++output) {
      for (size_t begin = 0; begin < kInputs; begin += 4) {
        int nonzero = 0;
        for (size_t input = begin; input < begin + 4; ++input) {
          nonzero += left[input * kOutputs + output] != 0 ? 1 : 0;
        }
        EXPECT_EQ(nonzero, 2) << cut << " " << output << " " << begin;
      }
    }
  }
}

// As of a kernel with more outputs than a block has numbers.
TEST(PruningTest, BlocksSmallerThanFourInputsKeepTwoOfThemTogether) {
  constexpr size_t kOutputs = 5;
  const Pruning pruning = Make(TwoOfFour(1, 1));
  for (const size_t inputs : {4, 3, 2, 1}) {
    const std::vector<float> kernel = Ascending(inputs * kOutputs);
    for (size_t size = 1; size <= kernel.size(); ++size) {
      std::vector<size_t> nonzero(kOutputs);
      for (size_t begin = 0; begin < kernel.size(); begin += size) {
        const size_t end = std::min(begin + size, kernel.size());
        Block block(
            std::vector<float>(kernel.begin() + static_cast<ptrdiff_t>(begin),
                               kernel.begin() + static_cast<ptrdiff_t>(end)));
        block.Step(pruning, 0,
                   {.first = begin, .inputs = inputs, .outputs = kOutputs});
        for (size_t i = begin; i < end; ++i) {
          if (block.values[i - begin] != 0) ++nonzero[i % kOutputs];
        }
      }
      EXPECT_EQ(nonzero,
                std::vector<size_t>(kOutputs, std::min<size_t>(inputs, 2)))
          << inputs << " " << size;
    }
  }
}

TEST(PruningTest, TwoOfFourAreReachedAlongTheSameCurve) {
  v1::OptimizerConfig::Pruning config = TwoOfFour(1, 3);
  config.set_power(1);
  const Pruning pruning = Make(config);
  const KernelPlace place = {.first = 0, .inputs = 16, .outputs = 1};
  Block block(Ascending(16));
  block.Step(pruning, 0, place);
  EXPECT_EQ(block.zeros(), 0u);
  // A quarter: the smallest of those that are to go.
  block.Step(pruning, 0, place);
  EXPECT_EQ(block.values, (std::vector<float>{0, 0, 3, 4, 0, 0, 7, 8, 9, 10, 11,
                                              12, 13, 14, 15, 16}));
  block.Step(pruning, 0, place);
  block.Step(pruning, 1, place);
  EXPECT_EQ(block.values, (std::vector<float>{0, 0, 4, 5, 0, 0, 8, 9, 0, 0, 12,
                                              13, 0, 0, 16, 17}));
  EXPECT_EQ(block.slots[0], 0);
  EXPECT_EQ(block.slots[2], 2);
}

TEST(PruningTest, ByOneThresholdForAllWhatIsBelowGoesAndNothingElse) {
  v1::OptimizerConfig::Pruning config = Config(0.5, 2, 4, 2);
  config.set_scope(v1::OptimizerConfig::Pruning::GLOBAL);
  const Pruning pruning = Make(config);
  EXPECT_TRUE(pruning.is_global());
  EXPECT_FALSE(Make(Config(0.5, 2, 4)).is_global());
  for (const auto& [applied, is_time] :
       {std::pair{1, false}, {2, true}, {3, false}, {4, true}, {6, false}}) {
    EXPECT_EQ(pruning.IsTime(static_cast<uint64_t>(applied)), is_time)
        << applied;
  }
  Block block({1, -2, 3, -4});
  block.Step(pruning, 0);
  block.Step(pruning, 0);
  EXPECT_EQ(block.zeros(), 0u);
  // By what it was before the step, which is the instant of all the others.
  block.Step(pruning, 2, {}, 2.5f);
  EXPECT_EQ(block.values, (std::vector<float>{0, 0, 5, -2}));
  EXPECT_EQ(block.slots, (std::vector<float>{0, 0, 3, 3, 0, 0, 3, 3}));
  // Without a threshold only what is zero stays so.
  block.Step(pruning, 1);
  block.Step(pruning, 1);
  EXPECT_EQ(block.values, (std::vector<float>{0, 0, 7, 0}));
  // Nor with one when it is not time.
  block.Step(pruning, 1, {}, 100);
  EXPECT_EQ(block.values, (std::vector<float>{0, 0, 8, 0}));
}

TEST(PruningTest, NonsenseIsRefusedByName) {
  v1::OptimizerConfig::Pruning config = Config(0.5, 10, 5);
  EXPECT_EQ(Pruning::Create(config).status().message(),
            "optimizer.pruning.end_step is before begin_step (10); found 5");
  config = Config(0.5, 1, 5);
  config.set_initial_sparsity(0.6);
  EXPECT_EQ(Pruning::Create(config).status().message(),
            "optimizer.pruning.initial_sparsity is above sparsity (0.5); found "
            "0.6");
  EXPECT_FALSE(Pruning::Create(Config(1, 1, 5)).ok());
  EXPECT_FALSE(Pruning::Create(Config(-0.1, 1, 5)).ok());
  config = TwoOfFour(1, 5);
  config.set_sparsity(0.75);
  EXPECT_EQ(Pruning::Create(config).status().message(),
            "optimizer.pruning.sparsity is 0.5 with structure two_of_four; "
            "found 0.75");
  config = TwoOfFour(1, 5);
  config.set_scope(v1::OptimizerConfig::Pruning::GLOBAL);
  EXPECT_EQ(Pruning::Create(config).status().message(),
            "optimizer.pruning.scope global is not for structure two_of_four");
  config = Config(0.5, 1, 5);
  config.set_structure(static_cast<v1::OptimizerConfig::Pruning::Structure>(7));
  EXPECT_EQ(Pruning::Create(config).status().message(),
            "optimizer.pruning.structure 7 is unknown here");
  config = Config(0.5, 1, 5);
  config.set_scope(static_cast<v1::OptimizerConfig::Pruning::Scope>(7));
  EXPECT_EQ(Pruning::Create(config).status().message(),
            "optimizer.pruning.scope 7 is unknown here");
}

TEST(PruningTest, ChannelsThatGoAreThoseOfTheWholeVariable) {
  v1::OptimizerConfig::Pruning config = Config(0.5, 2, 2);
  config.set_structure(v1::OptimizerConfig::Pruning::CHANNELS);
  const Pruning pruning = Make(config);
  EXPECT_TRUE(pruning.is_of_channels());
  // The block begins with the third element of rows of three.
  const std::vector<float> values = {1, 2, 3, 4, 0};
  const std::vector<uint8_t> gone = {0, 1, 0};
  std::vector<uint64_t> mask = pruning.Mask(values.data(), 5, 2);
  pruning.AddChannels(gone, 2, 5, 2, &mask);
  EXPECT_EQ(mask, std::vector<uint64_t>{0b10100});
  // Not where it is not time.
  mask = pruning.Mask(values.data(), 5, 3);
  pruning.AddChannels(gone, 2, 5, 3, &mask);
  EXPECT_EQ(mask, std::vector<uint64_t>{0b10000});
  // By itself a block prunes nothing more than its zeros.
  Block block(Ascending(6));
  for (int step = 0; step < 4; ++step) block.Step(pruning, 1);
  EXPECT_EQ(block.zeros(), 0u);
}

TEST(PruningTest, ChannelsHaveNoScope) {
  v1::OptimizerConfig::Pruning config = Config(0.75, 1, 2);
  config.set_structure(v1::OptimizerConfig::Pruning::CHANNELS);
  EXPECT_TRUE(Pruning::Create(config).ok());
  config.set_scope(v1::OptimizerConfig::Pruning::GLOBAL);
  EXPECT_EQ(Pruning::Create(config).status().message(),
            "optimizer.pruning.scope global is not for structure channels");
}

}  // namespace
}  // namespace paramd
