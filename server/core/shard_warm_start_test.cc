// A server whose first content comes out of something trained before.
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Payload;
using testing::ReasonOf;
using testing::ShardDriver;
using testing::Zeros;

class ShardWarmStartTest : public ::testing::Test {
 protected:
  ShardWarmStartTest()
      : configuration_(
            MakeConfiguration({Zeros("w", {2}), Zeros("other", {1})})) {
    configuration_.mutable_warm_start()->set_path("/trained");
    EXPECT_EQ(ReasonOf(driver_.Configure(configuration_).status()),
              v1::Refusal::NOT_READY);
  }

  IoResult Read(const std::vector<bool>& found,
                const std::vector<float>& numbers) {
    auto read = std::make_unique<v1::ReadWarmStartResult>();
    for (const bool is_found : found) read->add_found(is_found);
    IoResult result;
    result.io = driver_.ios[0].io;
    result.head = std::move(read);
    result.payload = Payload(numbers);
    return result;
  }

  ShardDriver driver_;
  v1::Configuration configuration_;
};

TEST_F(ShardWarmStartTest, WhatIsFoundIsTakenAndTheRestIsDrawn) {
  const auto& wanted =
      static_cast<const v1::ReadWarmStart&>(*driver_.ios[0].head);
  EXPECT_EQ(wanted.warm_start().path(), "/trained");
  ASSERT_EQ(wanted.slices_size(), 2);
  EXPECT_EQ(wanted.slices(0).variable(), "w");
  driver_.Complete(Read({true, false}, {3, 4}));
  driver_.MakeReady(configuration_);
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{3, 4}));
  EXPECT_EQ(driver_.Pull(1), (std::vector<float>{0}));
  EXPECT_EQ(driver_.Push(driver_.MakePush(1, {{0, 0}}, 2), {1, 1})
                ->blocks(0)
                .result(),
            v1::PushedBlock::APPLIED);
  EXPECT_EQ(driver_.notes.back(),
            "generation 1.1 holds 2 slices, 12 bytes, from /trained");
}

// FTRL computes a weight from its slots alone, which a warm start does not
// take.
TEST_F(ShardWarmStartTest, FtrlBeginsFromTheValuesThatWereTrained) {
  v1::OptimizerConfig* const optimizer = configuration_.mutable_optimizer();
  optimizer->set_learning_rate(0.05);
  optimizer->mutable_ftrl()->set_l1(0.5);
  optimizer->mutable_ftrl()->set_l2(0.1);
  ShardDriver driver;
  EXPECT_FALSE(driver.Configure(configuration_).ok());
  IoResult read = Read({true, false}, {3, -4});
  read.io = driver.ios[0].io;
  driver.Complete(std::move(read));
  driver.MakeReady(configuration_);
  EXPECT_TRUE(driver.Push(driver.MakePush(1, {{0, 0}}, 2), {0, 0}).ok());
  EXPECT_NEAR(driver.Pull(0)[0], 3, 1e-5);
  EXPECT_NEAR(driver.Pull(0)[1], -4, 1e-5);
  EXPECT_TRUE(driver.Push(driver.MakePush(2, {{0, 0}}, 2), {1, -1}).ok());
  EXPECT_LT(driver.Pull(0)[0], 3);
  EXPECT_GT(driver.Pull(0)[0], 2);
  EXPECT_GT(driver.Pull(0)[1], -4);
}

TEST_F(ShardWarmStartTest, AnAnswerOfAnotherSizeIsRefused) {
  driver_.Complete(Read({true, false}, {3, 4, 5}));
  EXPECT_EQ(driver_.Configure(configuration_).status().message(),
            "ps-0 could not restore '/trained': a warm start gave 12 bytes; "
            "the slices that it found have 8");
}

TEST_F(ShardWarmStartTest, ACheckpointOfTheRunBeatsIt) {
  configuration_.mutable_servers(0)->set_restore_directory("/from");
  ShardDriver driver;
  EXPECT_EQ(ReasonOf(driver.Configure(configuration_).status()),
            v1::Refusal::NOT_READY);
  driver.Settle();
  EXPECT_EQ(static_cast<const v1::ReadSlices&>(*driver.ios[0].head).path(),
            "/from");
}

}  // namespace
}  // namespace paramd
