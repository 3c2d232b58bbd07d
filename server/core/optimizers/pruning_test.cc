#include "server/core/optimizers/pruning.h"

#include <algorithm>
#include <cmath>
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
  void Step(const Pruning& pruning, float change) {
    const std::vector<uint64_t> mask =
        pruning.Mask(values.data(), values.size(), applied);
    for (float& value : values) value += change;
    for (float& slot : slots) slot += change;
    pruning.Prune(mask, applied, 2,
                  {.elements = values.size(),
                   .values = values.data(),
                   .slots = slots.data(),
                   .new_values = values.data(),
                   .new_slots = slots.data()});
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
}

}  // namespace
}  // namespace paramd
