#include "server/core/optimizers/schedule.h"

#include <cmath>

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::OptimizerConfig AtRate(double rate) {
  v1::OptimizerConfig config;
  config.set_learning_rate(rate);
  return config;
}

TEST(ScheduleTest, CosineFallsFromTheRateToZeroAndStaysThere) {
  v1::OptimizerConfig config = AtRate(0.25);
  config.set_schedule(v1::OptimizerConfig::COSINE);
  const Schedule schedule = *Schedule::Create(config, 1000);
  EXPECT_EQ(schedule.Rate(0), 0.25);
  EXPECT_NEAR(schedule.Rate(500), 0.125, 1e-12);
  EXPECT_EQ(schedule.Rate(1000), 0.0);
  EXPECT_EQ(schedule.Rate(5000), 0.0);
}

TEST(ScheduleTest, CosinePiIsTheCosine) {
  for (int i = 0; i <= 10000; ++i) {
    const double x = i / 10000.0;
    ASSERT_NEAR(CosinePi(x), std::cos(M_PI * x), 1e-12) << x;
  }
}

TEST(ScheduleTest, RealPowerOfIsThePower) {
  for (const double base : {1e-12, 0.05, 0.1, 0.5, 0.7, 0.75, 0.99, 1.0}) {
    for (const double exponent : {0.0, 1e-3, 0.5, 1.0, 2.5, 17.3, 100.0}) {
      const double power = std::pow(base, exponent);
      EXPECT_NEAR(RealPowerOf(base, exponent), power, 1e-12 * power + 1e-300)
          << base << "^" << exponent;
    }
  }
  EXPECT_EQ(RealPowerOf(0, 2), 0);
  EXPECT_EQ(RealPowerOf(1e-300, 100), 0);
}

TEST(ScheduleTest, ASchedulePassesItsEnd) {
  v1::OptimizerConfig config = AtRate(0.5);
  config.set_final_factor(0.25);
  for (const auto kind :
       {v1::OptimizerConfig::COSINE, v1::OptimizerConfig::POLYNOMIAL}) {
    config.set_schedule(kind);
    EXPECT_EQ(Schedule::Create(config, 10)->Rate(1000), 0.125);
  }
  config.set_schedule(v1::OptimizerConfig::ONE_CYCLE);
  EXPECT_NEAR(Schedule::Create(config, 10)->Rate(1000), 0.5 / 250000, 1e-12);
  config.set_schedule(v1::OptimizerConfig::COSINE);
  Schedule schedule = *Schedule::Create(config, 10);
  schedule.SetDecaySteps(1000);
  EXPECT_EQ(schedule.Rate(0), 0.5);
  EXPECT_NEAR(schedule.Rate(500), 0.5 * 0.625, 1e-12);
}

TEST(ScheduleTest, PowerOfIsThePower) {
  EXPECT_EQ(PowerOf(0.9, 0), 1.0);
  EXPECT_EQ(PowerOf(0.5, 10), 1.0 / 1024);
  EXPECT_NEAR(PowerOf(0.999, 1234567 % 10000), std::pow(0.999, 4567), 1e-12);
  EXPECT_EQ(PowerOf(0.9, ~uint64_t{0}), 0.0);
}

}  // namespace
}  // namespace paramd
