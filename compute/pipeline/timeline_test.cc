#include "compute/pipeline/timeline.h"

#include <vector>

#include "gtest/gtest.h"

#include "compute/pipeline/schedule.h"

namespace paramd {
namespace {

std::vector<StageTimes> EqualTimes(uint32_t stages, double transfer = 0) {
  return std::vector<StageTimes>(stages, {.forward = 1,
                                          .backward_input = 1,
                                          .backward_weights = 1,
                                          .transfer = transfer});
}

double BubbleOf(const PipelineSchedule& schedule) {
  return RunOnClock(WithTransfers(schedule), EqualTimes(schedule.stages))
      .bubble();
}

TEST(TimelineTest, BubblesAreThoseOfThePapers) {
  for (const uint32_t stages : {2u, 4u, 8u}) {
    for (const uint32_t micro_batches : {2 * stages, 4 * stages, 32u}) {
      const double share = (stages - 1.0) / (micro_batches + stages - 1.0);
      EXPECT_NEAR(share, BubbleOf(GpipeSchedule(stages, micro_batches)), 1e-9);
      EXPECT_NEAR(share, BubbleOf(OneForwardOneBackward(stages, micro_batches)),
                  1e-9);
      EXPECT_NEAR(share / 3,
                  BubbleOf(ZeroBubbleSchedule(stages, micro_batches)), 0.05);
      EXPECT_NEAR(1 - 1.0 / stages,
                  BubbleOf(NaiveSchedule(stages, micro_batches)), 1e-9);
    }
  }
}

TEST(TimelineTest, AnInterleavedBubbleIsShorterByTheChunks) {
  const PipelineSchedule whole = OneForwardOneBackward(4, 16);
  const PipelineSchedule chunked = InterleavedSchedule(4, 2, 16);
  // A stage of half of the layers takes half of the time.
  std::vector<StageTimes> halves(
      8, {.forward = 0.5, .backward_input = 0.5, .backward_weights = 0.5});
  const double all = RunOnClock(whole, EqualTimes(4)).makespan;
  const double with_chunks = RunOnClock(chunked, halves).makespan;
  EXPECT_NEAR(16 * 3 + 3 * 3, all, 1e-9);
  EXPECT_NEAR(16 * 3 + 3 * 3 / 2.0, with_chunks, 1e-9);
}

TEST(TimelineTest, ATransferDelaysWhoWaitsForIt) {
  const Timeline timeline =
      RunOnClock(WithTransfers(GpipeSchedule(2, 1)), EqualTimes(2, 10));
  // Forward, 10, forward, backward, 10, backward.
  EXPECT_NEAR(1 + 10 + 1 + 2 + 10 + 2, timeline.makespan, 1e-9);
  EXPECT_NEAR(6, timeline.busy, 1e-9);
}

TEST(TimelineTest, TheSlowestStageDecides) {
  std::vector<StageTimes> times = EqualTimes(4);
  times[2].forward = 5;
  const double makespan =
      RunOnClock(OneForwardOneBackward(4, 32), times).makespan;
  EXPECT_GT(makespan, 32 * 7);
  EXPECT_LT(makespan, 32 * 7 + 4 * 7);
}

TEST(TimelineTest, WhatWasMeasuredBeginsAtZero) {
  const PipelineOp forward = {PipelineOp::Kind::kForward, 0, 0};
  const PipelineOp backward = {PipelineOp::Kind::kBackward, 1, 0};
  const Timeline timeline =
      TimelineOf({{{forward, 5, 6}}, {{backward, 6, 7.5}}, {}});
  EXPECT_EQ(timeline.devices[0].front().begin, 0);
  EXPECT_EQ(timeline.devices[1].front().end, 2.5);
  EXPECT_EQ(timeline.makespan, 2.5);
  EXPECT_EQ(timeline.busy, 2.5);
}

}  // namespace
}  // namespace paramd
