// Weights that are pruned while they are trained.
#include <algorithm>
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
using testing::Ftrl;
using testing::Named;
using testing::Random;
using testing::Sgd;
using testing::Start;
using testing::State;

// With every rule: zeros stay zero with their slots, in place and beside it,
// however the gradient is cut.
TEST(OptimizerPruningTest, PrunedWeightsStayZeroUnderEveryRule) {
  RandomStream random(9);
  for (v1::OptimizerConfig config : AllConfigs()) {
    v1::OptimizerConfig::Pruning* const pruning = config.add_pruning();
    pruning->set_variables("a,b");
    pruning->set_sparsity(0.75);
    pruning->set_begin_step(2);
    pruning->set_end_step(6);
    pruning->set_every_steps(2);
    const Optimizer optimizer = *Optimizer::Create(config, 0);
    v1::Variable variable;
    variable.set_name("b");
    const VariableOptions options = optimizer.OptionsOf(variable);
    EXPECT_FALSE(optimizer.RestsOnZeros(true, options));
    const size_t n = 100;
    State in_place = Start(optimizer, n);
    State beside = in_place;
    std::vector<bool> was_zero(n);
    for (uint64_t t = 0; t < 10; ++t) {
      const auto gradient = Random(100 + t, n);
      const State before = beside;
      const BufferChain cut = Cut(gradient, &random);
      ChainReader reader(cut);
      optimizer.Apply(&reader, t,
                      {.elements = n,
                       .values = before.values.data(),
                       .slots = before.slots.data(),
                       .new_values = beside.values.data(),
                       .new_slots = beside.slots.data()},
                      {.variable = options});
      ApplyInPlace(optimizer, Flat(gradient), t, &in_place, options);
      ASSERT_TRUE(in_place == beside) << config.ShortDebugString() << t;
      for (size_t i = 0; i < n; ++i) {
        // Ftrl has zeros of its own, whose slots go with the next step.
        if (was_zero[i]) {
          ASSERT_EQ(beside.values[i], 0) << t;
          for (size_t k = i; k < beside.slots.size(); k += n) {
            ASSERT_EQ(beside.slots[k], 0) << t;
          }
        }
        was_zero[i] = t >= 1 && beside.values[i] == 0;
      }
    }
    EXPECT_GE(std::count(was_zero.begin(), was_zero.end(), true), 75);
  }
}

TEST(OptimizerPruningTest, RowsAreNotPruned) {
  v1::OptimizerConfig config = Sgd(0.5);
  config.add_pruning()->set_variables("dense/*");
  config.mutable_pruning(0)->set_sparsity(0.5);
  config.mutable_pruning(0)->set_end_step(1);
  v1::Variable kernel = Named("dense/kernel"), mean = Named("dense/mean");
  mean.set_untrained(true);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  EXPECT_TRUE(optimizer.CheckNames({&kernel, &mean}).ok());
  EXPECT_TRUE(optimizer.OptionsOf(kernel).pruning.has_value());
  EXPECT_FALSE(optimizer.OptionsOf(mean).pruning.has_value());
  EXPECT_FALSE(optimizer.OptionsOf(Named("other")).pruning.has_value());
  kernel.set_sparse(true);
  EXPECT_EQ(
      optimizer.CheckNames({&kernel, &mean}).message(),
      "optimizer.pruning names 'dense/kernel', whose rows are trained one "
      "by one; name dense variables alone");
}

TEST(OptimizerPruningTest, TwoOfFourAreOfTheInputsOfAKernel) {
  v1::OptimizerConfig config = Sgd(1);
  v1::OptimizerConfig::Pruning* const pruning = config.add_pruning();
  pruning->set_variables("conv/*");
  pruning->set_sparsity(0.5);
  pruning->set_end_step(1);
  pruning->set_structure(v1::OptimizerConfig::Pruning::TWO_OF_FOUR);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  v1::Variable kernel = Named("conv/kernel"), bias = Named("conv/bias");
  for (const uint64_t size : {1, 2, 4, 2}) kernel.add_shape(size);
  bias.add_shape(2);
  EXPECT_TRUE(optimizer.CheckNames({&kernel}).ok());
  EXPECT_EQ(optimizer.CheckNames({&kernel, &bias}).message(),
            "optimizer.pruning names 'conv/bias' with structure two_of_four, "
            "which is of the inputs of outputs; name kernels alone");
  // The block begins behind the first input: of the three others one stays.
  const VariableOptions options = optimizer.OptionsOf(kernel);
  State state{{1, 1, 2, 2, 3, 3, 4, 3, 2, 1, 3, 2, 1, 4}, {}};
  const BufferChain gradient = Flat(std::vector<float>(14));
  ChainReader reader(gradient);
  optimizer.Apply(&reader, 0,
                  {.elements = state.values.size(),
                   .values = state.values.data(),
                   .slots = nullptr,
                   .new_values = state.values.data(),
                   .new_slots = nullptr},
                  {.staleness = 0, .variable = options, .first_element = 2});
  EXPECT_EQ(state.values,
            (std::vector<float>{0, 0, 0, 0, 3, 3, 4, 3, 0, 0, 3, 0, 0, 4}));
}

TEST(OptimizerPruningTest, WhatIsBelowTheThresholdIsPruned) {
  v1::OptimizerConfig config = Sgd(1);
  config.add_pruning()->set_variables("a");
  config.mutable_pruning(0)->set_sparsity(0.5);
  config.mutable_pruning(0)->set_end_step(1);
  config.mutable_pruning(0)->set_scope(v1::OptimizerConfig::Pruning::GLOBAL);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  ASSERT_EQ(optimizer.pruning().size(), 1u);
  State state{{1, -2, 3}, {}};
  const BufferChain gradient = Flat({-1, -1, -1});
  ChainReader reader(gradient);
  optimizer.Apply(&reader, 1,
                  {.elements = 3,
                   .values = state.values.data(),
                   .slots = nullptr,
                   .new_values = state.values.data(),
                   .new_slots = nullptr},
                  {.staleness = 0,
                   .variable = optimizer.OptionsOf(Named("a")),
                   .prune_below = 2});
  EXPECT_EQ(state.values, (std::vector<float>{0, -1, 4}));
}

}  // namespace
}  // namespace paramd
