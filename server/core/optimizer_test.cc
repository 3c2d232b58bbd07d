#include "server/core/optimizer.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

v1::OptimizerConfig Adam(double rate) {
  v1::OptimizerConfig config;
  config.mutable_adam();
  config.set_learning_rate(rate);
  return config;
}

v1::OptimizerConfig Sgd(double rate) {
  v1::OptimizerConfig config;
  config.mutable_sgd();
  config.set_learning_rate(rate);
  return config;
}

std::vector<float> Random(uint64_t key, size_t n) {
  std::vector<float> numbers(n);
  const CounterRandom random(key);
  for (size_t i = 0; i < n; ++i) numbers[i] = random.Uniform(i) * 2 - 1;
  return numbers;
}

// One Buffer that begins `shift` bytes after an aligned address.
Buffer Shifted(absl::Span<const std::byte> bytes, size_t shift) {
  Buffer buffer = Buffer::Allocate(bytes.size() + shift);
  if (!bytes.empty()) {
    std::memcpy(buffer.mutable_bytes().data() + shift, bytes.data(),
                bytes.size());
  }
  return buffer.Part(shift, bytes.size());
}

BufferChain Flat(const std::vector<float>& numbers) {
  return {Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)))};
}

// The same bytes, cut at random places, each piece at a random alignment.
BufferChain Cut(const std::vector<float>& numbers, RandomStream* random) {
  auto bytes = AsBytes(absl::MakeConstSpan(numbers));
  BufferChain chain;
  while (!bytes.empty()) {
    const size_t most = random->Chance(0.3) ? 7 : bytes.size();
    const size_t length =
        std::min<size_t>(random->Below(most + 1), bytes.size());
    chain.push_back(Shifted(bytes.first(length), random->Below(4)));
    bytes.remove_prefix(length);
  }
  return chain;
}

struct State {
  std::vector<float> values;
  std::vector<float> slots;
  friend bool operator==(const State& a, const State& b) {
    return std::memcmp(a.values.data(), b.values.data(),
                       a.values.size() * sizeof(float)) == 0 &&
           (a.slots.empty() ||
            std::memcmp(a.slots.data(), b.slots.data(),
                        a.slots.size() * sizeof(float)) == 0);
  }
};

State Start(const Optimizer& optimizer, size_t n) {
  return {Random(1, n), std::vector<float>(n * optimizer.slots().size(),
                                           optimizer.initial_slot())};
}

void ApplyInPlace(const Optimizer& optimizer, const BufferChain& gradient,
                  uint64_t applied, State* state) {
  ChainReader reader(gradient);
  optimizer.Apply(&reader, applied,
                  {.elements = state->values.size(),
                   .values = state->values.data(),
                   .slots = state->slots.data(),
                   .new_values = state->values.data(),
                   .new_slots = state->slots.data()});
  EXPECT_EQ(reader.remaining(), 0u);
}

v1::OptimizerConfig Momentum(double rate, bool nesterov) {
  v1::OptimizerConfig config = Sgd(rate);
  config.mutable_sgd()->set_momentum(0.5);
  config.mutable_sgd()->set_nesterov(nesterov);
  return config;
}

v1::OptimizerConfig Adagrad(double rate) {
  v1::OptimizerConfig config;
  config.mutable_adagrad();
  config.set_learning_rate(rate);
  return config;
}

std::vector<v1::OptimizerConfig> AllConfigs() {
  return {Sgd(0.125), Momentum(0.125, false), Momentum(0.125, true),
          Adagrad(0.01), Adam(0.001)};
}

// The sets of kernels that this machine has besides the portable one.
std::vector<const OptimizerKernels*> FasterKernels() {
  std::vector<const OptimizerKernels*> sets;
  for (const OptimizerKernels* set : {Avx2Kernels(), Avx512Kernels()}) {
    if (set != nullptr) sets.push_back(set);
  }
  return sets;
}

TEST(OptimizerTest, ACutGradientGivesTheBitsOfAFlatOne) {
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

TEST(OptimizerTest, AllKernelsOfTheMachineAgreeBitForBit) {
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

TEST(OptimizerTest, AnotherOutputGivesTheSameBitsAndLeavesTheInput) {
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
  EXPECT_EQ(optimizer.slots()[0], "momentum");
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
  EXPECT_EQ(optimizer.slots()[0], "accumulator");
  State state{{1}, {optimizer.initial_slot()}};
  ApplyInPlace(optimizer, Flat({3}), 0, &state);  // 7 + 9 = 16
  EXPECT_EQ(state.slots[0], 16);
  EXPECT_EQ(state.values[0], 1 - 0.5f * 3 / (4 + 1));
}

TEST(OptimizerTest, OnlyAdagradsSlotsBeginAboveZero) {
  for (const v1::OptimizerConfig& config : AllConfigs()) {
    EXPECT_EQ(Optimizer::Create(config, 0)->initial_slot(),
              config.has_adagrad() ? 0.1f : 0);
  }
}

TEST(OptimizerTest, CosineFallsFromTheRateToZeroAndStaysThere) {
  v1::OptimizerConfig config = Sgd(0.25);
  config.set_schedule(v1::OptimizerConfig::COSINE);
  const Optimizer optimizer = *Optimizer::Create(config, 1000);
  EXPECT_EQ(optimizer.Rate(0), 0.25);
  EXPECT_NEAR(optimizer.Rate(500), 0.125, 1e-12);
  EXPECT_EQ(optimizer.Rate(1000), 0.0);
  EXPECT_EQ(optimizer.Rate(5000), 0.0);
}

TEST(OptimizerTest, CosinePiIsTheCosine) {
  for (int i = 0; i <= 10000; ++i) {
    const double x = i / 10000.0;
    ASSERT_NEAR(CosinePi(x), std::cos(M_PI * x), 1e-12) << x;
  }
}

TEST(OptimizerTest, PowerOfIsThePower) {
  EXPECT_EQ(PowerOf(0.9, 0), 1.0);
  EXPECT_EQ(PowerOf(0.5, 10), 1.0 / 1024);
  EXPECT_NEAR(PowerOf(0.999, 1234567 % 10000), std::pow(0.999, 4567), 1e-12);
  EXPECT_EQ(PowerOf(0.9, ~uint64_t{0}), 0.0);
}

TEST(OptimizerTest, WhatIsNotFiniteIsFoundWhereverTheChainIsCut) {
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

TEST(OptimizerTest, TheMeanSquareHasTheSameBitsHoweverTheChainIsCut) {
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

TEST(OptimizerTest, TheMeanSquareIsFiniteIfAndOnlyIfAllElementsAre) {
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

v1::OptimizerConfig Compensating(double lambda) {
  v1::OptimizerConfig config = Sgd(0.5);
  config.set_staleness_treatment(v1::OptimizerConfig::COMPENSATE);
  config.set_delay_compensation(lambda);
  return config;
}

TEST(OptimizerTest, CompensationFollowsThePaper) {
  const Optimizer optimizer = *Optimizer::Create(Compensating(0.25), 0);
  State state{{3, -1}, {}};
  const std::vector<float> old = {1, -1};
  const BufferChain gradient = Flat({2, 2});
  ChainReader reader(gradient);
  optimizer.Apply(&reader, 0,
                  {.elements = 2,
                   .values = state.values.data(),
                   .slots = nullptr,
                   .new_values = state.values.data(),
                   .new_slots = nullptr},
                  {.pushes = 1, .values = old.data()});
  // 2 + 0.25 * 2 * 2 * (3 - 1) = 4, and 2 where nothing has moved.
  EXPECT_EQ(state.values, (std::vector<float>{1, -2}));
}

TEST(OptimizerTest, AllKernelsOfTheMachineCompensateBitForBit) {
  if (FasterKernels().empty()) GTEST_SKIP() << "this machine has no AVX2";
  Optimizer portable = *Optimizer::Create(Compensating(0.04), 0);
  portable.UseKernels(PortableKernels());
  RandomStream random(9);
  for (const size_t n : {1, 3, 8, 31, 4096, 4103}) {
    const std::vector<float> old = Random(50, n);
    const std::vector<float> gradient = Random(51, n);
    State flat = Start(portable, n);
    const State before = flat;
    const auto apply = [&](const Optimizer& optimizer, const BufferChain& chain,
                           State* state) {
      ChainReader reader(chain);
      optimizer.Apply(&reader, 0,
                      {.elements = n,
                       .values = state->values.data(),
                       .slots = nullptr,
                       .new_values = state->values.data(),
                       .new_slots = nullptr},
                      {.pushes = 3, .values = old.data()});
    };
    apply(portable, Flat(gradient), &flat);
    for (const OptimizerKernels* const set : FasterKernels()) {
      Optimizer faster = portable;
      faster.UseKernels(*set);
      State cut = before;
      apply(faster, Cut(gradient, &random), &cut);
      EXPECT_TRUE(flat == cut) << n;
    }
  }
}

TEST(OptimizerTest, ATreatmentThatTheOptimizerHasNotIsRefused) {
  v1::OptimizerConfig adam = Adam(1);
  adam.set_staleness_treatment(v1::OptimizerConfig::COMPENSATE);
  EXPECT_EQ(Optimizer::Create(adam, 0).status().message(),
            "optimizer.staleness_treatment compensate is for plain sgd alone");
  v1::OptimizerConfig momentum = Momentum(1, false);
  momentum.set_staleness_treatment(v1::OptimizerConfig::COMPENSATE);
  EXPECT_FALSE(Optimizer::Create(momentum, 0).ok());
  v1::OptimizerConfig unknown = Sgd(1);
  unknown.set_staleness_treatment(
      static_cast<v1::OptimizerConfig::StalenessTreatment>(9));
  EXPECT_EQ(Optimizer::Create(unknown, 0).status().message(),
            "optimizer.staleness_treatment 9 is unknown here");
  EXPECT_EQ(Optimizer::Create(Compensating(-1), 0).status().message(),
            "optimizer.delay_compensation is -1; it must be at least 0");
}

TEST(OptimizerTest, AConfigThatMakesNoSenseIsRefusedBySetting) {
  const auto message = [](const v1::OptimizerConfig& config) {
    return std::string(Optimizer::Create(config, 0).status().message());
  };
  v1::OptimizerConfig none;
  none.set_learning_rate(1);
  EXPECT_EQ(message(none), "optimizer names none of sgd, adagrad and adam");
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
  v1::OptimizerConfig unknown = Sgd(1);
  unknown.set_schedule(static_cast<v1::OptimizerConfig::Schedule>(9));
  EXPECT_EQ(message(unknown), "optimizer.schedule 9 is unknown here");
}

}  // namespace
}  // namespace paramd
