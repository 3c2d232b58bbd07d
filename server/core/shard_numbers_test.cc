// What a server makes of the numbers of gradients: quarantine, and what their
// age does. The other tests of this class are shard_test.cc and
// shard_content_test.cc.
#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/gradient_rms.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::MakeSeal;
using testing::ShardDriver;
using testing::Zeros;

Shard::Options Options() {
  Shard::Options options;
  options.incarnation = 100;
  options.life_seed = 1000;
  return options;
}

v1::ServerStats StatsOf(const ShardDriver& driver) {
  v1::StatusReply status;
  const_cast<ShardDriver&>(driver).shard().FillStatus(&status);
  return status.server();
}

// ---- quarantine -------------------------------------------------------------

// Slices: 0 "w" and 1 "b" of 2 elements each. Both have taken gradients of root
// mean square 2 until they are warm; the next push is next_.
class QuarantineTest : public ::testing::Test {
 protected:
  explicit QuarantineTest(double spike_factor = 10) : driver_(Options()) {
    v1::Configuration configuration =
        MakeConfiguration({Zeros("w", {2}), Zeros("b", {2})});
    configuration.mutable_server_settings()->set_spike_factor(spike_factor);
    driver_.MakeReady(configuration);
    for (uint32_t i = 0; i < GradientRms::kWarmUp; ++i) {
      EXPECT_TRUE(Push({2, 2, 2, 2}).ok());
    }
  }

  absl::Status Push(const std::vector<float>& gradient) {
    return driver_
        .Push(driver_.MakePush(next_++, {{0, 0}, {1, 0}}, 2), gradient)
        .status();
  }

  ShardDriver driver_;
  uint64_t next_ = 1;
};

TEST_F(QuarantineTest, ASpikeIsRefusedByNameAndBothNumbers) {
  const absl::Status status = Push({2, 2, 30, 40});
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::QUARANTINED);
  EXPECT_EQ(RefusalOf(status).entity(), "b");
  EXPECT_EQ(status.message(),
            "gradient for 'b' has a root mean square of 35.3553, above 10 "
            "times the running one of 2, in block 0 of 'b'");
}

TEST_F(QuarantineTest, Promise9_ASpikeInOneBlockChangesNoneOfTheChunk) {
  const auto w = driver_.Pull(0);
  const auto b = driver_.Pull(1);
  EXPECT_FALSE(Push({2, 2, 30, 40}).ok());
  EXPECT_EQ(driver_.Pull(0), w);
  EXPECT_EQ(driver_.Pull(1), b);
  // Nor what is running: what was below the limit before still is.
  EXPECT_TRUE(Push({2, 2, 20, 20}).ok());
}

TEST_F(QuarantineTest, AtTheLimitIsNoSpike) {
  EXPECT_TRUE(Push({20, 20, -20, 20}).ok());
}

TEST_F(QuarantineTest, WhatIsInAlreadyIsAcknowledgedWhateverCameSince) {
  const v1::PushRequest last = driver_.MakePush(next_, {{0, 0}}, 2);
  ASSERT_TRUE(driver_.Push(last, {18, 18}).ok());
  const v1::PushRequest other = [&] {
    v1::PushRequest push = driver_.MakePush(1, {{0, 0}}, 2);
    push.mutable_header()->set_worker(2);
    *push.mutable_header()->mutable_generation() = testing::Pair(1, 12);
    return push;
  }();
  for (uint64_t n = 1; n <= 200; ++n) {
    v1::PushRequest push = other;
    push.mutable_header()->set_sequence(n);
    ASSERT_TRUE(driver_.Push(push, {0.5, 0.5}).ok());
  }
  const auto again = driver_.Push(last, {18, 18});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->blocks(0).result(), v1::PushedBlock::ALREADY_APPLIED);
}

TEST_F(QuarantineTest, WhatIsNotFiniteIsRefusedHereToo) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_EQ(Push({2, 2, 2, bad}).message(),
              "gradient for 'b' is not finite in block 0 of 'b'");
  }
}

TEST_F(QuarantineTest, RefusalsAreCountedAndSaidByWorker) {
  driver_.notes.clear();
  EXPECT_FALSE(Push({2, 2, 30, 40}).ok());
  EXPECT_FALSE(Push({2, 2, 2, std::nanf("")}).ok());
  EXPECT_EQ(StatsOf(driver_).blocks_quarantined(), 4u);
  EXPECT_EQ(StatsOf(driver_).blocks_refused(), 4u);
  EXPECT_THAT(
      driver_.notes,
      ElementsAre(HasSubstr("push 51 of worker-1 refused (1 of that worker so "
                            "far): gradient for 'b' has a root mean square"),
                  HasSubstr("push 52 of worker-1 refused (2 of that worker so "
                            "far): gradient for 'b' is not finite")));
}

TEST_F(QuarantineTest, Promise3_TheRunningValueIsSavedByBlock) {
  ASSERT_TRUE(
      driver_.Ask<v1::SealReply>(PeerId::Coordinator(), MakeSeal(1)).ok());
  const auto& work = static_cast<const v1::WriteShard&>(*driver_.ios[0].head);
  EXPECT_THAT(work.file().slices(0).gradient_rms(), ElementsAre(2));
  EXPECT_THAT(work.file().slices(1).gradient_rms(), ElementsAre(2));
}

class NoSpikesTest : public QuarantineTest {
 protected:
  NoSpikesTest() : QuarantineTest(/*spike_factor=*/0) {}
};

TEST_F(NoSpikesTest, WithoutAFactorNothingIsASpikeAndNothingIsKept) {
  EXPECT_TRUE(Push({1e18f, 1e18f, 1e18f, 1e18f}).ok());
  ASSERT_TRUE(
      driver_.Ask<v1::SealReply>(PeerId::Coordinator(), MakeSeal(1)).ok());
  const auto& work = static_cast<const v1::WriteShard&>(*driver_.ios[0].head);
  EXPECT_TRUE(work.file().slices(0).gradient_rms().empty());
}

// ---- staleness --------------------------------------------------------------

// One variable of one element, rate 1; workers 1 and 2.
class StalenessTest : public ::testing::Test {
 protected:
  void Use(v1::OptimizerConfig::StalenessTreatment treatment,
           bool adam = false) {
    driver_.emplace(Options());
    v1::Configuration configuration =
        adam ? MakeAdamConfiguration({Zeros("w", {1})})
             : MakeConfiguration({Zeros("w", {1})});
    configuration.mutable_optimizer()->set_staleness_treatment(treatment);
    driver_->MakeReady(configuration);
  }

  // What worker 1 computes on from now on.
  v1::BlockVersion Read() {
    v1::PullRequest request;
    request.mutable_header()->set_worker(1);
    request.set_encoding(v1::FP32);
    request.set_clock(1);
    request.add_blocks();
    const auto reply = driver_->Ask<v1::PullReply>(PeerId::Worker(1), request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply->blocks(0).version();
  }

  void Push(uint32_t worker, float gradient,
            const v1::BlockVersion& computed_on = {}) {
    v1::PushRequest push = driver_->MakePush(++pushes_[worker], {{0, 0}}, 1);
    push.mutable_header()->set_worker(worker);
    *push.mutable_header()->mutable_generation() =
        testing::Pair(1, 10 + worker);
    *push.mutable_blocks(0)->mutable_computed_on() = computed_on;
    const auto reply = driver_->Push(push, {gradient});
    EXPECT_TRUE(reply.ok()) << reply.status();
  }
  void PushOfOthers(int count) {
    for (int i = 0; i < count; ++i) Push(2, 1);
  }
  float Value() { return driver_->Pull(0)[0]; }

  absl::optional<ShardDriver> driver_;
  std::map<uint32_t, uint64_t> pushes_;
};

TEST_F(StalenessTest, WithoutTreatmentAgeMakesNoDifference) {
  Use(v1::OptimizerConfig::NONE);
  const auto read = Read();
  PushOfOthers(4);
  Push(1, 8, read);
  EXPECT_EQ(Value(), -12);
}

TEST_F(StalenessTest, ScaleRateDividesByThePushesInBetween) {
  Use(v1::OptimizerConfig::SCALE_RATE);
  const auto read = Read();
  PushOfOthers(4);
  Push(1, 8, read);
  EXPECT_EQ(Value(), -6);
}

TEST_F(StalenessTest, ScaleRateLeavesFreshAndUnknownAgesAsTheyAre) {
  Use(v1::OptimizerConfig::SCALE_RATE);
  Push(1, 1, Read());
  EXPECT_EQ(Value(), -1);
  auto read = Read();
  PushOfOthers(1);
  Push(1, 1, read);
  EXPECT_EQ(Value(), -3);
  PushOfOthers(3);
  Push(1, 1);
  EXPECT_EQ(Value(), -7);
  read.set_life(read.life() + 1);  // Of what was here before a restore.
  Push(1, 1, read);
  EXPECT_EQ(Value(), -8);
}

TEST_F(StalenessTest, ScaleRateLeavesAdamsMomentsAsTheyAre) {
  const auto moments = [this] {
    EXPECT_TRUE(
        driver_->Ask<v1::SealReply>(PeerId::Coordinator(), MakeSeal(1)).ok());
    const auto all = testing::Numbers(driver_->ios[0].payload);
    return std::vector<float>(all.begin() + 1, all.end());
  };
  std::vector<std::vector<float>> seen;
  std::vector<float> steps;
  for (const auto treatment :
       {v1::OptimizerConfig::NONE, v1::OptimizerConfig::SCALE_RATE}) {
    Use(treatment, /*adam=*/true);
    pushes_.clear();
    const auto read = Read();
    PushOfOthers(4);
    const float before = Value();
    Push(1, 1, read);
    steps.push_back(Value() - before);
    seen.push_back(moments());
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_NEAR(steps[0], 4 * steps[1], 1e-5 * std::abs(steps[0]));
}

}  // namespace
}  // namespace paramd
