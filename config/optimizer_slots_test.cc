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
}

}  // namespace
}  // namespace paramd
