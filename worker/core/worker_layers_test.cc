// Gradients that leave layer by layer.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "proto/paramd/v1/compute.pb.h"
#include "proto/refusal.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

using ::paramd::testing::CoreDriver;
using ::paramd::testing::Floats;
using ::paramd::testing::JoinedWorker;
using ::paramd::testing::WorkerOptions;

Worker::Options LayerOptions(uint64_t from_bytes) {
  Worker::Options options = WorkerOptions();
  options.layers_from_bytes = from_bytes;
  return options;
}

// Variable "a" has 8 bytes.
class WorkerLayersTest : public ::testing::Test {
 protected:
  explicit WorkerLayersTest(uint64_t from_bytes = 8)
      : worker_(LayerOptions(from_bytes)) {
    worker_.Join();
    worker_.GivePortion(1, 0, 16);
    worker_.AnswerPull(*worker_.TakePull(), 1);
    compute_ = driver().TakeIo<v1::ComputeGradient>();
    take_ = driver().TakeIo<v1::TakeGradients>();
  }
  CoreDriver& driver() { return worker_.driver(); }
  void Ready() {
    v1::TakeGradientsResult taken;
    taken.add_variables(0);
    driver().Complete(take_->first, taken, {Floats({1, 2})});
  }

  JoinedWorker worker_;
  absl::optional<std::pair<IoId, v1::ComputeGradient>> compute_;
  absl::optional<std::pair<IoId, v1::TakeGradients>> take_;
};

TEST_F(WorkerLayersTest, WhatIsReadyLeavesWhileTheRestIsComputed) {
  ASSERT_TRUE(compute_.has_value() && take_.has_value());
  Ready();
  const auto push = worker_.TakePush();
  ASSERT_TRUE(push.has_value());
  EXPECT_EQ(JoinedWorker::PushOf(*push).header().sequence(), 1u);
  // More is asked for, and the whole does not leave again.
  EXPECT_TRUE(driver().TakeIo<v1::TakeGradients>().has_value());
  worker_.AnswerCompute(*compute_);
  EXPECT_FALSE(worker_.TakePush().has_value());
  worker_.AnswerPush(*push);
  EXPECT_TRUE(worker_.TakePull().has_value());
}

TEST_F(WorkerLayersTest, WeightsThatAreStillReadAreNotPulledInto) {
  Ready();
  worker_.AnswerPush(*worker_.TakePush());
  EXPECT_FALSE(worker_.TakePull().has_value());
  EXPECT_FALSE(driver().TakeIo<v1::ComputeGradient>().has_value());
  worker_.AnswerCompute(*compute_);
  EXPECT_TRUE(worker_.TakePull().has_value());
}

TEST_F(WorkerLayersTest, FiguresThatComeBehindTheAcknowledgementCount) {
  Ready();
  worker_.AnswerPush(*worker_.TakePush());
  worker_.AnswerCompute(*compute_);
  v1::StatusReply status;
  worker_.core().FillStatus(driver().now(), &status);
  const uint64_t computed = compute_->second.end() - compute_->second.begin();
  ASSERT_GT(computed, 0u);
  EXPECT_EQ(status.worker().examples(), computed);
  ASSERT_EQ(status.worker().epochs_size(), 1);
  EXPECT_EQ(status.worker().epochs(0).examples(), computed);
}

TEST_F(WorkerLayersTest, NothingReadyMeansThatTheWholeComes) {
  driver().Complete(take_->first, v1::TakeGradientsResult(), {});
  EXPECT_FALSE(worker_.TakePush().has_value());
  EXPECT_FALSE(driver().TakeIo<v1::TakeGradients>().has_value());
  worker_.AnswerCompute(*compute_);
  EXPECT_TRUE(worker_.TakePush().has_value());
}

TEST_F(WorkerLayersTest, WhatComesBehindTheWholeChangesNothing) {
  worker_.AnswerCompute(*compute_);
  const auto push = worker_.TakePush();
  ASSERT_TRUE(push.has_value());
  Ready();
  EXPECT_FALSE(worker_.TakePush().has_value());
  worker_.AnswerPush(*push);
  worker_.AnswerPull(*worker_.TakePull(), 2);
  EXPECT_TRUE(driver().TakeIo<v1::ComputeGradient>().has_value());
}

TEST_F(WorkerLayersTest, APushThatIsRefusedOnTheWayLeavesTheRestUnsent) {
  Ready();
  driver().Fail(*worker_.TakePush(),
                Refuse(v1::Refusal::QUARANTINED, "a", "'a' is not finite"));
  worker_.AnswerCompute(*compute_);
  EXPECT_FALSE(worker_.TakePush().has_value());
  EXPECT_FALSE(driver().exited);
  EXPECT_TRUE(worker_.TakePull().has_value());
}

TEST_F(WorkerLayersTest, Promise1_OneThatDrainsLeavesAPushThatCannotBeEnded) {
  Ready();
  ASSERT_TRUE(worker_.TakePush().has_value());
  driver().Drain();
  driver().End(compute_->first, absl::CancelledError("the program left"));
  EXPECT_FALSE(driver().exited);
  EXPECT_TRUE(driver().HasNote("the rest of the last push is not there"));
  const v1::HeartbeatRequest beat = worker_.TakeBeat();
  EXPECT_TRUE(beat.leaving());
  // Somebody else computes it again.
  ASSERT_EQ(beat.cut().remaining_size(), 1);
  EXPECT_EQ(beat.cut().remaining(0).begin(), 0u);
}

class WorkerSmallTest : public WorkerLayersTest {
 protected:
  WorkerSmallTest() : WorkerLayersTest(/*from_bytes=*/9) {}
};

TEST_F(WorkerSmallTest, ASmallGradientLeavesAsAWhole) {
  EXPECT_TRUE(compute_.has_value());
  EXPECT_FALSE(take_.has_value());
}

}  // namespace
}  // namespace paramd
