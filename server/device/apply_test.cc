// The optimizers' loops on a device, compared with the processor's, to the bit.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/check.h"
#include "base/random.h"
#include "server/core/optimizer.h"
#include "server/core/optimizer_kernels.h"
#include "server/device/testing/test_loops.h"

namespace paramd {
namespace {

constexpr uint64_t kBytes = uint64_t{64} << 20;
// Of a block, one more than a row of threads, and few.
constexpr size_t kSizes[] = {262144, 4103, 31, 1};

v1::OptimizerConfig WithRate(double rate) {
  v1::OptimizerConfig config;
  config.set_learning_rate(rate);
  return config;
}

std::vector<v1::OptimizerConfig> PlainConfigs() {
  std::vector<v1::OptimizerConfig> configs(12, WithRate(0.01));
  configs[0].mutable_sgd();
  configs[1].mutable_sgd()->set_momentum(0.5);
  configs[2].mutable_sgd()->set_momentum(0.5);
  configs[2].mutable_sgd()->set_nesterov(true);
  configs[3].mutable_adam();
  configs[4].mutable_adagrad();
  for (int i = 0; i < 4; ++i) {
    configs[5 + i].mutable_rmsprop()->set_centered(i >= 2);
    configs[5 + i].mutable_rmsprop()->set_momentum(i % 2 * 0.5);
  }
  configs[9].mutable_ftrl()->set_l1(0.25);
  configs[9].mutable_ftrl()->set_l2(0.5);
  configs[10].mutable_adadelta();
  configs[11].mutable_lamb()->set_weight_decay(0.1);
  return configs;
}

// Each also with decay and clipping of either kind.
std::vector<v1::OptimizerConfig> Configs() {
  std::vector<v1::OptimizerConfig> configs = PlainConfigs();
  for (v1::OptimizerConfig config : PlainConfigs()) {
    config.set_weight_decay(0.25);
    config.set_clip_norm(0.5);
    configs.push_back(config);
    config.set_decay(v1::OptimizerConfig::DECAY_L2);
    config.clear_clip_norm();
    config.set_clip_value(0.5);
    configs.push_back(config);
  }
  return configs;
}

// Numbers of all sizes, those without a full mantissa and zeros of both signs.
std::vector<float> Numbers(uint64_t seed, size_t count) {
  RandomStream random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    const float scales[] = {1.0f, 1e-3f, 1e-20f, 1e-41f, 1e18f, 0.0f, -0.0f};
    number = (random.Uniform() - 0.5f) * scales[random.Below(7)];
  }
  return numbers;
}

absl::Span<float> FloatsOf(Buffer* buffer) {
  const absl::Span<std::byte> bytes = buffer->mutable_bytes();
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

class ApplyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = MakeTestLoops(kBytes);
    if (!made.ok()) GTEST_SKIP() << made.status().message();
    loops_ = *std::move(made);
    kernels_ = PortableKernels();
    kernels_.device = loops_.get();
  }

  // There, with these numbers.
  Buffer There(absl::Span<const float> numbers) {
    Buffer made = loops_->Allocate(numbers.size() * sizeof(float));
    CHECK(!made.empty(), "there is room");
    std::copy(numbers.begin(), numbers.end(), FloatsOf(&made).begin());
    return made;
  }

  static bool Same(absl::Span<const float> a, absl::Span<const float> b) {
    return a.size() == b.size() &&
           std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  std::shared_ptr<LoopDevice> loops_;
  OptimizerKernels kernels_ = PortableKernels();
};

TEST_F(ApplyTest, EachLoopHasTheBitsOfTheProcessors) {
  int which = 0;
  for (const v1::OptimizerConfig& config : Configs()) {
    Optimizer here = *Optimizer::Create(config, 0);
    Optimizer there = here;
    here.UseKernels(PortableKernels());
    there.UseKernels(kernels_);
    for (const size_t n : kSizes) {
      if (n == kSizes[0] && which >= 10)
        continue;  // The plain ones are enough.
      const size_t slots = here.slots().size();
      std::vector<float> values = Numbers(1, n);
      std::vector<float> all_slots;
      for (size_t s = 0; s < slots; ++s) {
        all_slots.insert(all_slots.end(), n, here.initial_slot(s));
      }
      Buffer values_there = There(values);
      Buffer slots_there = slots == 0 ? Buffer() : There(all_slots);
      for (uint64_t t = 0; t < 4; ++t) {
        const std::vector<float> numbers = Numbers(100 + t, n);
        // The second one comes from elsewhere, at an address of no number.
        Buffer host = Buffer::Allocate(n * sizeof(float) + 1);
        std::memcpy(host.mutable_bytes().data() + 1, numbers.data(),
                    n * sizeof(float));
        const BufferChain gradient = {t == 1 ? host.Part(1, n * sizeof(float))
                                             : There(numbers)};
        const auto apply = [&](const Optimizer& optimizer, float* w, float* s) {
          ChainReader reader(gradient);
          optimizer.Apply(&reader, t,
                          {.elements = n,
                           .values = w,
                           .slots = s,
                           .new_values = w,
                           .new_slots = s});
        };
        apply(here, values.data(), all_slots.data());
        float* const s = slots == 0 ? nullptr : FloatsOf(&slots_there).data();
        apply(there, FloatsOf(&values_there).data(), s);
        ASSERT_TRUE(Same(values, FloatsOf(&values_there)))
            << which << ", " << n << ", " << t;
        ASSERT_TRUE(slots == 0 || Same(all_slots, FloatsOf(&slots_there)))
            << which << ", " << n << ", " << t;
      }
    }
    ++which;
  }
}

TEST_F(ApplyTest, WhatOthersReadIsLeftAsItIs) {
  Optimizer optimizer = *Optimizer::Create(PlainConfigs()[3], 0);
  optimizer.UseKernels(kernels_);
  const std::vector<float> begin = Numbers(1, 4103);
  const std::vector<float> zeros(2 * 4103);
  Buffer values = There(begin);
  Buffer slots = There(zeros);
  Buffer new_values = There(zeros);
  Buffer new_slots = There(zeros);
  const BufferChain gradient = {There(Numbers(2, 4103))};
  ChainReader reader(gradient);
  optimizer.Apply(&reader, 0,
                  {.elements = 4103,
                   .values = FloatsOf(&values).data(),
                   .slots = FloatsOf(&slots).data(),
                   .new_values = FloatsOf(&new_values).data(),
                   .new_slots = FloatsOf(&new_slots).data()});
  EXPECT_TRUE(Same(FloatsOf(&values), begin));
  EXPECT_TRUE(Same(FloatsOf(&slots), zeros));
  EXPECT_FALSE(Same(FloatsOf(&new_values).first(4103), begin));
  EXPECT_FALSE(Same(FloatsOf(&new_slots), zeros));
}

TEST_F(ApplyTest, OneNumberThatIsNotFiniteIsFound) {
  const Optimizer portable = *Optimizer::Create(PlainConfigs()[0], 0);
  Optimizer optimizer = portable;
  optimizer.UseKernels(kernels_);
  constexpr float kBad[] = {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (const size_t n : kSizes) {
    std::vector<float> numbers = Numbers(3, n);
    const auto is_finite = [&] {
      const BufferChain gradient = {There(numbers)};
      ChainReader reader(gradient);
      return optimizer.ReadFinite(&reader, n);
    };
    EXPECT_TRUE(is_finite());
    for (const size_t place : {size_t{0}, n / 2, n - 1}) {
      for (const float bad : kBad) {
        const float good = std::exchange(numbers[place], bad);
        EXPECT_FALSE(is_finite()) << place << " of " << n;
        numbers[place] = good;
      }
    }
  }
}

TEST_F(ApplyTest, SumsOfSquaresHaveTheBitsOfTheProcessors) {
  Optimizer here = *Optimizer::Create(PlainConfigs()[0], 0);
  Optimizer there = here;
  here.UseKernels(PortableKernels());
  there.UseKernels(kernels_);
  for (const size_t n : kSizes) {
    const BufferChain gradient = {There(Numbers(4, n))};
    ChainReader reader(gradient);
    ChainReader again = reader;
    const double expected = here.ReadMeanSquare(&reader, n);
    EXPECT_EQ(there.ReadMeanSquare(&again, n), expected) << n;
    // However a gradient is cut.
    double sums[OptimizerKernels::kSumLanes] = {};
    double device_sums[OptimizerKernels::kSumLanes] = {};
    const std::byte* const g = gradient[0].bytes().data();
    for (size_t begin = 0; begin < n; begin += 1003) {
      const size_t count = std::min<size_t>(1003, n - begin);
      PortableKernels().add_squares(g + 4 * begin, count, begin, sums);
      loops_->AddSquares(g + 4 * begin, count, begin, device_sums);
    }
    EXPECT_EQ(std::memcmp(sums, device_sums, sizeof(sums)), 0) << n;
  }
}

TEST_F(ApplyTest, ACopyIsWhatItIsOf) {
  const std::vector<float> numbers = Numbers(5, 300000);
  const Buffer from = There(numbers);
  Buffer to = There(std::vector<float>(300000));
  loops_->Copy(from.bytes().subspan(0, 4 * 299999), to.mutable_bytes().data());
  EXPECT_TRUE(Same(FloatsOf(&to).first(299999),
                   absl::MakeConstSpan(numbers).first(299999)));
  EXPECT_EQ(FloatsOf(&to)[299999], 0.0f);
}

}  // namespace
}  // namespace paramd
