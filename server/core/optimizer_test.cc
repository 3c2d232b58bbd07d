#include "server/core/optimizer.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/core/testing/optimizer_bench.h"

namespace paramd {
namespace {

using testing::Adadelta;
using testing::Adagrad;
using testing::Adam;
using testing::AllConfigs;
using testing::ApplyInPlace;
using testing::Flat;
using testing::Ftrl;
using testing::Lamb;
using testing::Momentum;
using testing::Named;
using testing::PlainConfigs;
using testing::Random;
using testing::Sgd;
using testing::Start;
using testing::State;

TEST(OptimizerTest, SgdSubtractsRateTimesGradient) {
  const Optimizer optimizer = *Optimizer::Create(Sgd(0.5), 0);
  EXPECT_TRUE(optimizer.slots().empty());
  State state{{1, 2, -3}, {}};
  ApplyInPlace(optimizer, Flat({2, -4, 0}), 0, &state);
  EXPECT_EQ(state.values, (std::vector<float>{0, 4, -3}));
}

// By hand, from algorithm 1 of the paper with rate 0.1, g = 1, 2, -1 and w = 1:
// t=1: m = 0.1,   v = 0.001,    corrected 1 and 1
// t=2: m = 0.29,  v = 0.004999, corrected 0.29/0.19 and 0.004999/0.001999
// t=3: m = 0.161, v = 0.005994001, corrected by 0.271 and 0.002997001
TEST(OptimizerTest, AdamFollowsThePaperForThreeSteps) {
  v1::OptimizerConfig config = Adam(0.1);
  config.mutable_adam()->set_epsilon(1e-8);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  State state{{1}, {0, 0}};
  const double m[] = {0.1, 0.29, 0.161};
  const double v[] = {0.001, 0.004999, 0.005994001};
  const double m_hat[] = {1, 0.29 / 0.19, 0.161 / 0.271};
  const double v_hat[] = {1, 0.004999 / 0.001999, 0.005994001 / 0.002997001};
  const float g[] = {1, 2, -1};
  double w = 1;
  for (int t = 0; t < 3; ++t) {
    ApplyInPlace(optimizer, Flat({g[t]}), t, &state);
    w -= 0.1 * m_hat[t] / (std::sqrt(v_hat[t]) + 1e-8);
    EXPECT_NEAR(state.slots[0], m[t], 1e-7);
    EXPECT_NEAR(state.slots[1], v[t], 1e-8);
    EXPECT_NEAR(state.values[0], w, 1e-6);
  }
}

// v = 0.5 v + g from 0: 2, then 0.5 * 2 - 4 = -3.
TEST(OptimizerTest, MomentumKeepsAShareOfTheLastStep) {
  const Optimizer optimizer = *Optimizer::Create(Momentum(0.25, false), 0);
  ASSERT_EQ(optimizer.slots().size(), 1u);
  EXPECT_EQ(optimizer.slots()[0].name, "momentum");
  State state{{1}, {0}};
  ApplyInPlace(optimizer, Flat({2}), 0, &state);
  EXPECT_EQ(state.values[0], 1 - 0.25f * 2);
  ApplyInPlace(optimizer, Flat({-4}), 1, &state);
  EXPECT_EQ(state.slots[0], -3);
  EXPECT_EQ(state.values[0], 0.5f + 0.25f * 3);
}

// The same v; the steps are g + 0.5 v: 3, then -4 - 1.5.
TEST(OptimizerTest, NesterovStepsFromWhereMomentumLeads) {
  const Optimizer optimizer = *Optimizer::Create(Momentum(0.25, true), 0);
  State state{{1}, {0}};
  ApplyInPlace(optimizer, Flat({2}), 0, &state);
  EXPECT_EQ(state.values[0], 1 - 0.25f * 3);
  ApplyInPlace(optimizer, Flat({-4}), 1, &state);
  EXPECT_EQ(state.slots[0], -3);
  EXPECT_EQ(state.values[0], 0.25f + 0.25f * 5.5f);
}

TEST(OptimizerTest, AdagradDividesByTheRootOfTheSumOfSquares) {
  v1::OptimizerConfig config = Adagrad(0.5);
  config.mutable_adagrad()->set_initial_accumulator(7);
  config.mutable_adagrad()->set_epsilon(1);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  ASSERT_EQ(optimizer.slots().size(), 1u);
  EXPECT_EQ(optimizer.slots()[0].name, "accumulator");
  State state{{1}, {optimizer.initial_slot()}};
  ApplyInPlace(optimizer, Flat({3}), 0, &state);  // 7 + 9 = 16
  EXPECT_EQ(state.slots[0], 16);
  EXPECT_EQ(state.values[0], 1 - 0.5f * 3 / (4 + 1));
}

// Applies gradients of rows to a block of 3 rows of 2.
State ApplyToRows(const Optimizer& optimizer, const std::vector<uint32_t>& rows,
                  const std::vector<float>& gradient, uint64_t applied,
                  State state,
                  const VariableOptions& variable = {.sparse = true}) {
  const BufferChain chain = Flat(gradient);
  ChainReader reader(chain);
  optimizer.ApplyRows(&reader, applied, {rows, 2},
                      {.elements = 6,
                       .values = state.values.data(),
                       .slots = state.slots.data(),
                       .new_values = state.values.data(),
                       .new_slots = state.slots.data()},
                      {.staleness = 0, .variable = variable});
  EXPECT_EQ(reader.remaining(), 0u);
  return state;
}

// s = 0.1 x 4, d = sqrt(1e-6) / sqrt(0.4 + 1e-6) x 2.
TEST(OptimizerTest, AdadeltaStepsAsFarAsItsStepsDid) {
  v1::OptimizerConfig config = Adadelta(1);
  config.mutable_adadelta()->set_rho(0.9);
  config.mutable_adadelta()->set_epsilon(1e-6);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  State state = Start(optimizer, 1);
  state.values = {1};
  ApplyInPlace(optimizer, Flat({2}), 0, &state);
  const double step = std::sqrt(1e-6 / (0.4 + 1e-6)) * 2;
  EXPECT_NEAR(state.values[0], 1 - step, 1e-7);
  EXPECT_NEAR(state.slots[0], 0.4, 1e-7);
  EXPECT_NEAR(state.slots[1], 0.1 * step * step, 1e-9);
}

// Of the first gradient Adam's step is its sign, so |u| is 2 of four numbers.
TEST(OptimizerTest, LambStepsAsFarAsTheBlockIsLong) {
  const Optimizer optimizer = *Optimizer::Create(Lamb(0.5, 0), 0);
  State state = Start(optimizer, 4);
  state.values = {0, 3, 0, -4};  // |w| is 5.
  ApplyInPlace(optimizer, Flat({1, -2, 8, 0.5}), 0, &state);
  const double wanted[] = {-1.25, 4.25, -1.25, -5.25};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(state.values[i], wanted[i], 1e-5);
  // From zeros there is no ratio; of a gradient of zeros no step.
  state = Start(optimizer, 2);
  state.values = {0, 0};
  ApplyInPlace(optimizer, Flat({1, -1}), 0, &state);
  EXPECT_NEAR(state.values[0], -0.5, 1e-5);
  EXPECT_NEAR(state.values[1], 0.5, 1e-5);
}

TEST(OptimizerTest, LambsDecayIsInTheStepAndNotOfWhatHasNone) {
  const Optimizer optimizer = *Optimizer::Create(Lamb(0.5, 1), 0);
  for (const bool decays : {true, false}) {
    State state = Start(optimizer, 1);
    state.values = {4};
    ApplyInPlace(optimizer, Flat({0}), 0, &state, {.decays = decays});
    // The step is the weight itself.
    EXPECT_NEAR(state.values[0], decays ? 2 : 4, 1e-6);
  }
}

TEST(OptimizerTest, RowWiseAdagradHasOneSumForARow) {
  v1::OptimizerConfig config = Adagrad(0.5);
  config.mutable_adagrad()->set_initial_accumulator(4);
  config.mutable_adagrad()->set_epsilon(1);
  config.mutable_adagrad()->set_row_wise(true);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  EXPECT_EQ(optimizer.slots()[0].name, "accumulator");  // Of dense ones.
  ASSERT_EQ(optimizer.slots({.sparse = true}).size(), 1u);
  EXPECT_EQ(optimizer.slots({.sparse = true})[0].name, "row_accumulator");
  EXPECT_EQ(optimizer.initial_slot(0, {.sparse = true}), 4);
  // 4 + (1 + 9) / 2 = 9, and a rate of 0.5 / (3 + 1).
  const State state =
      ApplyToRows(optimizer, {2}, {1, 3}, 0, {{1, 1, 1, 1, 1, 1}, {4, 4, 4}});
  EXPECT_EQ(state.slots, (std::vector<float>{4, 4, 9}));
  EXPECT_EQ(state.values,
            (std::vector<float>{1, 1, 1, 1, 1 - 0.125f, 1 - 0.375f}));
}

TEST(OptimizerTest, ARowIsCorrectedForItsOwnStepsOfAdam) {
  v1::OptimizerConfig config;
  config.mutable_adam();
  config.set_learning_rate(0.5);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  const State start = {std::vector<float>(6, 1), std::vector<float>(15)};
  const State first = ApplyToRows(optimizer, {0}, {1, 2}, 0, start);
  // What other rows have had does not matter.
  const State late = ApplyToRows(optimizer, {1}, {1, 2}, 100, first);
  EXPECT_EQ(late.values[2], first.values[0]);
  EXPECT_EQ(late.values[3], first.values[1]);
  EXPECT_EQ(std::vector<float>(late.slots.begin() + 12, late.slots.end()),
            (std::vector<float>{1, 1, 0}));
  // A row alone is a variable of its own.
  const State again = ApplyToRows(optimizer, {0}, {3, 4}, 200, late);
  State dense = {{1, 1}, std::vector<float>(4)};
  ApplyInPlace(optimizer, Flat({1, 2}), 0, &dense);
  ApplyInPlace(optimizer, Flat({3, 4}), 1, &dense);
  EXPECT_EQ(again.values[0], dense.values[0]);
  EXPECT_EQ(again.values[1], dense.values[1]);
}

TEST(OptimizerTest, ARowThatIsNotThereIsPassedOver) {
  const Optimizer sgd = *Optimizer::Create(Sgd(1), 0);
  const State state = ApplyToRows(sgd, {kNoRow, 1}, {5, 5, 1, 2}, 0,
                                  {std::vector<float>(6), {}});
  EXPECT_EQ(state.values, (std::vector<float>{0, 0, -1, -2, 0, 0}));
}

TEST(OptimizerTest, OnlyTheSumOfFtrlBeginsAboveZero) {
  for (const v1::OptimizerConfig& config : AllConfigs()) {
    const Optimizer optimizer = *Optimizer::Create(config, 0);
    EXPECT_EQ(optimizer.initial_slot(0), config.has_ftrl() ? 0.1f : 0);
    EXPECT_EQ(config.has_ftrl() ? optimizer.initial_slot(1) : 0, 0);
  }
}

// What RestsOnZeros says is what each rule's arithmetic gives.
TEST(OptimizerTest, WhatRestsOnZerosKeepsEachBit) {
  for (const v1::OptimizerConfig& config : AllConfigs()) {
    const Optimizer optimizer = *Optimizer::Create(config, 0);
    for (const bool slots_are_zeros : {true, false}) {
      if (!optimizer.RestsOnZeros(slots_are_zeros)) continue;
      State state = Start(optimizer, 40);
      if (!slots_are_zeros) {
        ApplyInPlace(optimizer, Flat(Random(5, 40)), 0, &state);
      }
      const State before = state;
      const std::vector<float> zeros(40, 0.0f);
      ApplyInPlace(optimizer, Flat(zeros), 1, &state);
      EXPECT_TRUE(state == before) << config.ShortDebugString();
    }
  }
  v1::OptimizerConfig decays = Sgd(1);
  decays.set_weight_decay(0.1);
  EXPECT_FALSE(Optimizer::Create(decays, 0)->RestsOnZeros(true));
  EXPECT_TRUE(
      Optimizer::Create(decays, 0)->RestsOnZeros(true, {.decays = false}));
}

TEST(OptimizerTest, PatternsSayWhatDecaysAndHowFast) {
  v1::OptimizerConfig config = Sgd(0.5);
  config.set_weight_decay(0.5);
  config.set_no_decay("*/bias,norm*");
  const auto add = [&](const std::string& variables, double factor) {
    auto* const some = config.add_rate_factors();
    some->set_variables(variables);
    some->set_factor(factor);
  };
  add("head/*", 4);
  add("*/bias", 0);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  const auto after = [&](const std::string& name) {
    State state{{8}, {}};
    const BufferChain gradient = Flat({2});
    ChainReader reader(gradient);
    optimizer.Apply(
        &reader, 0,
        {1, state.values.data(), nullptr, state.values.data(), nullptr},
        {.staleness = 0, .variable = optimizer.OptionsOf(Named(name))});
    return state.values[0];
  };
  EXPECT_EQ(after("dense/kernel"), 8 - 0.5f * 0.5f * 8 - 0.5f * 2);
  EXPECT_EQ(after("norm_1"), 8 - 0.5f * 2);
  EXPECT_EQ(after("dense/bias"), 8);
  EXPECT_EQ(after("head/kernel"), 8 - 2 * 0.5f * 8 - 2 * 2);
  EXPECT_EQ(after("head/bias"), 8 - 2 * 2) << "the first entry counts";
}

TEST(OptimizerTest, EachGroupHasItsOwnConstants) {
  v1::OptimizerConfig config;
  config.mutable_adam()->set_beta1(0.9);
  config.set_learning_rate(0.1);
  config.set_weight_decay(0.5);
  auto* const group = config.add_groups();
  group->set_variables("head");
  group->set_beta1(0.5);
  group->set_epsilon(1e-3);
  group->set_weight_decay(0);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  v1::OptimizerConfig alone = config;
  alone.clear_groups();
  const Optimizer of_body = *Optimizer::Create(alone, 0);
  alone.mutable_adam()->set_beta1(0.5);
  alone.mutable_adam()->set_epsilon(1e-3);
  alone.clear_weight_decay();
  const Optimizer of_head = *Optimizer::Create(alone, 0);
  for (const bool is_head : {true, false}) {
    const VariableOptions variable =
        optimizer.OptionsOf(Named(is_head ? "head" : "body"));
    State state = Start(optimizer, 40);
    State expected = state;
    for (uint64_t t = 0; t < 3; ++t) {
      const BufferChain gradient = Flat(Random(t + 2, 40));
      ApplyInPlace(optimizer, gradient, t, &state, variable);
      ApplyInPlace(is_head ? of_head : of_body, gradient, t, &expected);
    }
    EXPECT_TRUE(state == expected) << is_head;
  }
  config.mutable_groups(0)->set_rho(0.5);
  EXPECT_EQ(Optimizer::Create(config, 0).status().message(),
            "optimizer.groups[0].rho: adam has no rho");
  group->clear_rho();
  group->set_weight_decay(-2);
  EXPECT_FALSE(Optimizer::Create(config, 0).ok());
}

// Whatever the others are trained by, with whatever decay.
TEST(OptimizerTest, AGroupOfAnotherKindHasTheBitsOfAJobOfThatKind) {
  const auto of_all = [](const v1::OptimizerConfig& from) {
    v1::OptimizerConfig config = from;
    config.set_schedule(v1::OptimizerConfig::COSINE);
    config.set_warmup_steps(2);
    config.set_decay(v1::OptimizerConfig::DECAY_L2);
    return config;
  };
  std::vector<v1::OptimizerConfig> kinds = PlainConfigs();
  kinds.push_back(AllConfigs().back());
  const auto* const of_group = v1::OptimizerConfig::Group::descriptor();
  for (const v1::OptimizerConfig& others : kinds) {
    for (const v1::OptimizerConfig& kind : kinds) {
      v1::OptimizerConfig config = of_all(others);
      v1::OptimizerConfig::Group* const group = config.add_groups();
      group->set_variables("table");
      group->set_learning_rate(kind.learning_rate());
      const auto* const named = kind.GetReflection()->GetOneofFieldDescriptor(
          kind, kind.GetDescriptor()->FindOneofByName("kind"));
      group->GetReflection()
          ->MutableMessage(group, of_group->FindFieldByName(named->name()))
          ->CopyFrom(kind.GetReflection()->GetMessage(kind, named));
      const Optimizer optimizer = *Optimizer::Create(config, 10);
      const VariableOptions table = optimizer.OptionsOf(Named("table"));
      for (const bool is_table : {true, false}) {
        const Optimizer alone =
            *Optimizer::Create(of_all(is_table ? kind : others), 10);
        const VariableOptions variable =
            is_table ? table : optimizer.OptionsOf(Named("dense"));
        ASSERT_EQ(optimizer.slots(variable).size(), alone.slots().size());
        State state = Start(alone, 40);
        for (size_t s = 0; s < alone.slots().size(); ++s) {
          EXPECT_EQ(optimizer.initial_slot(s, variable), alone.initial_slot(s));
        }
        State expected = state;
        for (uint64_t t = 0; t < 4; ++t) {
          const BufferChain gradient = Flat(Random(t + 2, 40));
          ApplyInPlace(optimizer, gradient, t, &state, variable);
          ApplyInPlace(alone, gradient, t, &expected);
        }
        EXPECT_TRUE(state == expected)
            << config.ShortDebugString() << " table " << is_table;
      }
    }
  }
}

TEST(OptimizerTest, RowsOfAGroupHaveTheSlotsOfItsKind) {
  v1::OptimizerConfig config = Adam(0.5);
  config.add_groups()->set_variables("sums");
  config.mutable_groups(0)->mutable_adagrad()->set_row_wise(true);
  const Optimizer optimizer = *Optimizer::Create(config, 0);
  v1::OptimizerConfig adagrad = Adagrad(0.5);
  adagrad.mutable_adagrad()->set_row_wise(true);
  const Optimizer sums_alone = *Optimizer::Create(adagrad, 0);
  const Optimizer adam_alone = *Optimizer::Create(Adam(0.5), 0);
  for (const bool sums : {true, false}) {
    v1::Variable table = Named(sums ? "sums" : "adam");
    table.set_sparse(true);
    const VariableOptions variable = optimizer.OptionsOf(table);
    const Optimizer& alone = sums ? sums_alone : adam_alone;
    ASSERT_EQ(optimizer.slots(variable).size(),
              alone.slots({.sparse = true}).size());
    State state = {std::vector<float>(6, 1), std::vector<float>(sums ? 3 : 15)};
    State expected = state;
    for (uint64_t t = 0; t < 2; ++t) {
      const std::vector<float> gradient = {1, 3, -2, 0.5};
      state = ApplyToRows(optimizer, {2, 0}, gradient, t, state, variable);
      expected = ApplyToRows(alone, {2, 0}, gradient, t, expected);
    }
    EXPECT_TRUE(state == expected) << sums;
  }
}

TEST(OptimizerTest, APatternThatNamesNothingIsFound) {
  v1::OptimizerConfig config = Sgd(0.5);
  config.set_no_decay("*/bias,nrom*");
  const v1::Variable bias = Named("dense/bias"), norm = Named("norm_1");
  EXPECT_EQ(Optimizer::Create(config, 0)->CheckNames({&bias, &norm}).message(),
            "optimizer.no_decay names 'nrom*', which no variable is called; "
            "the closest is 'norm_1'");
  config.set_no_decay("*/bias,norm*");
  EXPECT_TRUE(Optimizer::Create(config, 0)->CheckNames({&bias, &norm}).ok());
  config.add_rate_factors()->set_variables("head/*");
  EXPECT_EQ(
      Optimizer::Create(config, 0)->CheckNames({&bias, &norm}).message(),
      "optimizer.rate_factors names 'head/*', which no variable is called; "
      "the closest is 'dense/bias'");
}

// A gradient of norm 5: 3, 4.
TEST(OptimizerTest, AGradientIsClippedByItsNumbersOrItsNorm) {
  v1::OptimizerConfig config = Sgd(1);
  const auto after = [&] {
    const Optimizer optimizer = *Optimizer::Create(config, 0);
    State state{{0, 0}, {}};
    ApplyInPlace(optimizer, Flat({-3, 4}), 0, &state);
    return state.values;
  };
  config.set_clip_value(3.5);
  EXPECT_EQ(after(), (std::vector<float>{3, -3.5}));
  config.clear_clip_value();
  config.set_clip_norm(2.5);
  EXPECT_EQ(after(), (std::vector<float>{1.5, -2}));
  config.set_clip_norm(5);
  EXPECT_EQ(after(), (std::vector<float>{3, -4}));
}

TEST(OptimizerTest, AtARateOfZeroNoWeightMoves) {
  for (v1::OptimizerConfig config : AllConfigs()) {
    config.set_schedule(v1::OptimizerConfig::POLYNOMIAL);
    const Optimizer optimizer = *Optimizer::Create(config, 10);
    State state = Start(optimizer, 40);
    const std::vector<float> before = state.values;
    ApplyInPlace(optimizer, Flat(Random(5, 40)), 10, &state);
    EXPECT_EQ(state.values, before) << config.ShortDebugString();
  }
}

TEST(OptimizerTest, AScaleIsTimesWhatTheScheduleSays) {
  v1::OptimizerConfig config;
  config.mutable_sgd();
  config.set_learning_rate(0.5);
  config.set_schedule(v1::OptimizerConfig::COSINE);
  Optimizer optimizer = *Optimizer::Create(config, 100);
  for (const uint64_t applied : {0, 50, 99}) {
    optimizer.SetRateScale(1);
    const double rate = optimizer.Rate(applied);
    optimizer.SetRateScale(0.25);
    EXPECT_EQ(optimizer.Rate(applied), rate * 0.25);
  }
}

TEST(OptimizerTest, OfAnUntrainedVariableAGradientIsSubtractedAsItIs) {
  for (v1::OptimizerConfig config : AllConfigs()) {
    config.set_staleness_treatment(v1::OptimizerConfig::SCALE_RATE);
    config.set_schedule(v1::OptimizerConfig::COSINE);
    const Optimizer optimizer = *Optimizer::Create(config, 3);
    v1::Variable variable;
    EXPECT_EQ(optimizer.slots(optimizer.OptionsOf(variable)).size(),
              optimizer.slots().size());
    variable.set_untrained(true);
    const VariableOptions options = optimizer.OptionsOf(variable);
    EXPECT_TRUE(optimizer.slots(options).empty());
    EXPECT_TRUE(optimizer.RestsOnZeros(/*slots_are_zeros=*/false, options));
    State state{{1, 2, -3}, {}};
    const BufferChain gradient = Flat({0.5, -4, 0});
    ChainReader reader(gradient);
    optimizer.Apply(&reader, /*applied=*/7,
                    {.elements = 3,
                     .values = state.values.data(),
                     .slots = nullptr,
                     .new_values = state.values.data(),
                     .new_slots = nullptr},
                    {.staleness = 5, .variable = options});
    EXPECT_EQ(state.values, (std::vector<float>{0.5, 6, -3}));
  }
}

TEST(OptimizerTest, ATreatmentThatTheOptimizerHasNotIsRefused) {
  v1::OptimizerConfig unknown = Sgd(1);
  unknown.set_staleness_treatment(
      static_cast<v1::OptimizerConfig::StalenessTreatment>(9));
  EXPECT_EQ(Optimizer::Create(unknown, 0).status().message(),
            "optimizer.staleness_treatment 9 is unknown here");
}

TEST(OptimizerTest, AConfigThatMakesNoSenseIsRefusedBySetting) {
  const auto message = [](const v1::OptimizerConfig& config) {
    return std::string(Optimizer::Create(config, 0).status().message());
  };
  v1::OptimizerConfig none;
  none.set_learning_rate(1);
  EXPECT_EQ(message(none),
            "optimizer names none of sgd, adam, adagrad, adamw, rmsprop, "
            "ftrl, adadelta and lamb");
  EXPECT_EQ(message(Sgd(0)),
            "optimizer.learning_rate is 0; it must be above 0");
  v1::OptimizerConfig beta = Adam(1);
  beta.mutable_adam()->set_beta2(1);
  EXPECT_EQ(message(beta),
            "optimizer.adam.beta2 is 1; it must be at least 0 and below 1");
  v1::OptimizerConfig decay = Momentum(1, false);
  decay.mutable_sgd()->set_momentum(1);
  EXPECT_EQ(message(decay),
            "optimizer.sgd.momentum is 1; it must be at least 0 and below 1");
  v1::OptimizerConfig negative = Adagrad(1);
  negative.mutable_adagrad()->set_initial_accumulator(-1);
  EXPECT_EQ(message(negative),
            "optimizer.adagrad.initial_accumulator is -1; it must be at least "
            "0");
  v1::OptimizerConfig epsilon = Adam(1);
  epsilon.mutable_adam()->set_epsilon(0);
  EXPECT_EQ(message(epsilon),
            "optimizer.adam.epsilon is 0; it must be above 0");
  v1::OptimizerConfig cosine = Sgd(1);
  cosine.set_schedule(v1::OptimizerConfig::COSINE);
  EXPECT_EQ(message(cosine), "optimizer.schedule is cosine over 0 decay_steps");
  cosine.set_warmup_steps(5);
  EXPECT_EQ(Optimizer::Create(cosine, 5).status().message(),
            "optimizer.warmup_steps is 5; it must be below the 5 decay_steps");
  v1::OptimizerConfig ftrl = Ftrl(1);
  ftrl.mutable_ftrl()->set_initial_accumulator(0);
  EXPECT_EQ(message(ftrl),
            "optimizer.ftrl.initial_accumulator is 0; it must be above 0");
  v1::OptimizerConfig adamw;
  adamw.set_learning_rate(1);
  adamw.mutable_adamw()->set_beta1(-1);
  EXPECT_EQ(message(adamw),
            "optimizer.adamw.beta1 is -1; it must be at least 0 and below 1");
  v1::OptimizerConfig unknown = Sgd(1);
  unknown.set_schedule(static_cast<v1::OptimizerConfig::Schedule>(9));
  EXPECT_EQ(message(unknown), "optimizer.schedule 9 is unknown here");
}

}  // namespace
}  // namespace paramd
