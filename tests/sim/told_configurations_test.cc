#include "tests/sim/told_configurations.h"

#include "gtest/gtest.h"

#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

v1::ConfigurationVersion VersionOf(uint64_t counter) {
  return MakeNumber<v1::ConfigurationVersion>(1, counter);
}

v1::ConfigureRequest ToldWhole(uint64_t counter) {
  v1::ConfigureRequest request;
  v1::Configuration* const told = request.mutable_configuration();
  *told->mutable_version() = VersionOf(counter);
  told->set_run_id("run");
  told->set_seed(7);
  told->add_servers()->set_incarnation(100);
  told->add_workers()->set_index(3);
  return request;
}

v1::ConfigureRequest ToldThatItLeft(uint64_t since) {
  v1::ConfigureRequest request;
  v1::Configuration* const told = request.mutable_configuration();
  *told->mutable_version() = VersionOf(2);
  *told->mutable_changes_since() = VersionOf(since);
  told->set_run_id("run");
  told->add_workers_left(3);
  return request;
}

TEST(ToldConfigurationsTest, WhatIsToldAsChangesIsSeenWhole) {
  ToldConfigurations told;
  ASSERT_TRUE(told.Whole(ToldWhole(1)).ok());
  const auto seen = told.Whole(ToldThatItLeft(1));
  ASSERT_TRUE(seen.ok()) << seen.status();
  v1::Configuration expected = ToldWhole(2).configuration();
  expected.clear_workers();
  EXPECT_EQ(static_cast<const v1::ConfigureRequest*>(*seen)
                ->configuration()
                .SerializeAsString(),
            expected.SerializeAsString());
}

TEST(ToldConfigurationsTest, ALossIsThatSomebodyIsToldSomethingElse) {
  ToldConfigurations told;
  ASSERT_TRUE(told.Whole(ToldWhole(1)).ok());
  ASSERT_TRUE(told.Whole(ToldThatItLeft(1)).ok());
  EXPECT_EQ(told.Whole(ToldWhole(2)).status().message(),
            "configuration 1.2, told as a whole, is another one than was told "
            "before");
  EXPECT_EQ(told.Whole(ToldThatItLeft(9)).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ToldConfigurationsTest, OtherRequestsAreSeenAsTheyAre) {
  const v1::PushRequest push;
  EXPECT_EQ(ToldConfigurations().Whole(push).value(), &push);
}

}  // namespace
}  // namespace paramd
