#include "config/optimizer_slots.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OptimizerSlotsTest, EachOptimizerKeepsItsOwn) {
  v1::OptimizerConfig config;
  EXPECT_THAT(SlotsOf(config), IsEmpty());
  config.mutable_sgd()->set_momentum(0);
  EXPECT_THAT(SlotsOf(config), IsEmpty());
  config.mutable_sgd()->set_momentum(0.9);
  EXPECT_THAT(SlotsOf(config), ElementsAre("momentum"));
  config.mutable_adagrad();
  EXPECT_THAT(SlotsOf(config), ElementsAre("accumulator"));
  config.mutable_adam();
  EXPECT_THAT(SlotsOf(config), ElementsAre("momentum", "variance"));
  config.mutable_adamw();
  EXPECT_THAT(SlotsOf(config), ElementsAre("momentum", "variance"));
  config.mutable_ftrl();
  EXPECT_THAT(SlotsOf(config), ElementsAre("accumulator", "linear"));
  config.mutable_rmsprop();
  EXPECT_THAT(SlotsOf(config), ElementsAre("square"));
  config.mutable_rmsprop()->set_centered(true);
  EXPECT_THAT(SlotsOf(config), ElementsAre("square", "mean"));
  config.mutable_rmsprop()->set_momentum(0.9);
  EXPECT_THAT(SlotsOf(config), ElementsAre("square", "mean", "momentum"));
  config.mutable_rmsprop()->set_centered(false);
  EXPECT_THAT(SlotsOf(config), ElementsAre("square", "momentum"));
}

TEST(OptimizerSlotsTest, OfAnUntrainedVariableNothingIsKept) {
  v1::OptimizerConfig config;
  config.mutable_adam();
  v1::Variable variable;
  EXPECT_THAT(SlotsOf(config, variable), ElementsAre("momentum", "variance"));
  variable.set_untrained(true);
  EXPECT_THAT(SlotsOf(config, variable), IsEmpty());
}

}  // namespace
}  // namespace paramd
