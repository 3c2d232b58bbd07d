#include "compute/pipeline/schedule.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = PipelineOp::Kind;

struct NamedSchedule {
  std::string name;
  PipelineSchedule schedule;
};

// Of so many stages, in every way that there is.
std::vector<NamedSchedule> AllSchedules(uint32_t stages,
                                        uint32_t micro_batches) {
  std::vector<NamedSchedule> all = {
      {"naive", NaiveSchedule(stages, micro_batches)},
      {"gpipe", GpipeSchedule(stages, micro_batches)},
      {"1f1b", OneForwardOneBackward(stages, micro_batches)},
      {"zero_bubble", ZeroBubbleSchedule(stages, micro_batches)},
      {"pipedream", PipeDreamSchedule(stages, micro_batches)},
      {"vertical", PipeDreamSchedule(stages, micro_batches, true)},
      {"2bw", TwoBufferedWeights(stages, micro_batches, stages)},
      {"2bw+1", TwoBufferedWeights(stages, micro_batches, stages + 1)},
  };
  for (uint32_t chunks = 1; chunks <= stages; ++chunks) {
    if (stages % chunks != 0) continue;
    all.push_back(
        {absl::StrCat("interleaved", chunks),
         InterleavedSchedule(stages / chunks, chunks, micro_batches)});
  }
  return all;
}

// "F0 F1 B0", of one device without what it sends.
std::string ShortText(const std::vector<PipelineOp>& ops) {
  std::string text;
  for (const PipelineOp& op : ops) {
    const char* const letter = op.kind == Kind::kForward           ? "F"
                               : op.kind == Kind::kBackward        ? "B"
                               : op.kind == Kind::kBackwardInput   ? "I"
                               : op.kind == Kind::kBackwardWeights ? "W"
                               : op.kind == Kind::kUpdate          ? "U"
                                                                   : "";
    if (*letter == '\0') continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", letter, op.micro_batch);
  }
  return text;
}

TEST(ScheduleTest, EverySchedule_IsSound_WithAndWithoutTransfersAndSkips) {
  for (uint32_t stages = 1; stages <= 8; ++stages) {
    for (uint32_t micro_batches = 1; micro_batches <= 17; ++micro_batches) {
      for (NamedSchedule& one : AllSchedules(stages, micro_batches)) {
        SCOPED_TRACE(absl::StrCat(one.name, " ", stages, " ", micro_batches));
        EXPECT_TRUE(CheckSchedule(one.schedule).ok())
            << CheckSchedule(one.schedule).status();
        if (stages > 2) one.schedule.skips = {{0, stages - 1}, {1, 2}};
        const PipelineSchedule sent = WithTransfers(one.schedule);
        // An interleaved one sends ahead of who receives.
        EXPECT_TRUE(CheckSchedule(sent, micro_batches).ok())
            << CheckSchedule(sent, micro_batches).status();
      }
    }
  }
}

TEST(ScheduleTest, OneForwardOneBackward_IsThePapersOrder) {
  const PipelineSchedule schedule = OneForwardOneBackward(3, 4);
  EXPECT_EQ("F0 F1 F2 B0 F3 B1 B2 B3 U3", ShortText(schedule.devices[0]));
  EXPECT_EQ("F0 F1 B0 F2 B1 F3 B2 B3 U3", ShortText(schedule.devices[1]));
  EXPECT_EQ("F0 B0 F1 B1 F2 B2 F3 B3 U3", ShortText(schedule.devices[2]));
}

TEST(ScheduleTest, ZeroBubble_PutsOffGradientsOfVariablesByStage) {
  const PipelineSchedule schedule = ZeroBubbleSchedule(2, 3);
  EXPECT_EQ("F0 F1 B0 F2 B1 B2 U2", ShortText(schedule.devices[0]));
  EXPECT_EQ("F0 I0 F1 I1 W0 F2 I2 W1 W2 U2", ShortText(schedule.devices[1]));
}

TEST(ScheduleTest, WhatIsKept_IsWhatThePapersSay) {
  EXPECT_THAT(CheckSchedule(GpipeSchedule(4, 8))->live,
              ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(CheckSchedule(OneForwardOneBackward(4, 8))->live,
              ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(CheckSchedule(ZeroBubbleSchedule(4, 8))->live,
              ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(CheckSchedule(NaiveSchedule(4, 8))->live,
              ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(CheckSchedule(ZeroBubbleSchedule(4, 8))->deferred,
              ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(CheckSchedule(OneForwardOneBackward(4, 8))->deferred,
              ElementsAre(0, 0, 0, 0));
}

TEST(ScheduleTest, Versions_AreOneWithAFlushAndAsManyAsThePapersSayWithout) {
  for (const PipelineSchedule& flushing :
       {GpipeSchedule(4, 8), OneForwardOneBackward(4, 8),
        ZeroBubbleSchedule(4, 8), InterleavedSchedule(2, 2, 8)}) {
    EXPECT_THAT(CheckSchedule(flushing)->versions, ElementsAre(1, 1, 1, 1));
  }
  EXPECT_THAT(CheckSchedule(PipeDreamSchedule(4, 20))->versions,
              ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(CheckSchedule(PipeDreamSchedule(4, 20, true))->versions,
              ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(CheckSchedule(TwoBufferedWeights(4, 20, 4))->versions,
              ElementsAre(2, 2, 2, 2));
}

// A schedule that has lost, doubled or swapped anything is refused.
TEST(ScheduleTest, NoChangeOfASoundSchedule_GoesUnnoticed) {
  uint32_t tried = 0;
  for (const NamedSchedule& one : AllSchedules(4, 6)) {
    const PipelineSchedule sound = WithTransfers(one.schedule);
    for (size_t d = 0; d < sound.devices.size(); ++d) {
      for (size_t i = 0; i < sound.devices[d].size(); ++i) {
        SCOPED_TRACE(absl::StrCat(one.name, ": ", TextOf(sound.devices[d][i])));
        PipelineSchedule lost = sound;
        lost.devices[d].erase(lost.devices[d].begin() + i);
        EXPECT_FALSE(CheckSchedule(lost, 6).ok());
        PipelineSchedule doubled = sound;
        doubled.devices[d].insert(doubled.devices[d].begin() + i,
                                  sound.devices[d][i]);
        EXPECT_FALSE(CheckSchedule(doubled, 6).ok());
        if (sound.devices.size() > 1) {
          PipelineSchedule moved = sound;
          moved.devices[(d + 1) % moved.devices.size()].push_back(
              sound.devices[d][i]);
          moved.devices[d].erase(moved.devices[d].begin() + i);
          EXPECT_FALSE(CheckSchedule(moved, 6).ok());
        }
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 500u);
}

TEST(ScheduleTest, WhatIsWrong_IsNamed) {
  PipelineSchedule schedule = GpipeSchedule(2, 2);
  std::swap(schedule.devices[0][0], schedule.devices[0][1]);
  EXPECT_EQ("forward of micro-batch 1 on stage 0 is out of order",
            CheckSchedule(schedule).status().message());

  // Stage 0 wants the gradient of micro-batch 0 before it gives stage 1 the
  // second one, which that waits for first.
  schedule = GpipeSchedule(2, 2);
  std::swap(schedule.devices[0][1], schedule.devices[0][2]);
  EXPECT_EQ("backward of micro-batch 0 on stage 0 waits for ever",
            CheckSchedule(schedule).status().message());

  schedule = TwoBufferedWeights(2, 8, 2);
  schedule.devices[0][3].version = 7;
  EXPECT_THAT(CheckSchedule(schedule).status().message(),
              HasSubstr("reads version 7 of the weights"));

  schedule = PipeDreamSchedule(2, 3);
  schedule.devices[1].pop_back();
  EXPECT_EQ("update of micro-batch 2 on stage 1 is missing",
            CheckSchedule(schedule).status().message());
}

TEST(ScheduleTest, ASkip_IsSentStraightAndNeverThroughAStageBetween) {
  PipelineSchedule schedule = OneForwardOneBackward(3, 2);
  schedule.skips = {{0, 2}};
  const PipelineSchedule sent = WithTransfers(schedule);
  for (const PipelineOp& op : sent.devices[1]) {
    EXPECT_TRUE(op.stage == 1);
    if (op.kind == Kind::kSendActivation) {
      EXPECT_EQ(2u, op.peer);
    }
  }
  const auto& last = sent.devices[2];
  EXPECT_EQ((PipelineOp{Kind::kReceiveActivation, 2, 0, 1}), last[0]);
  EXPECT_EQ((PipelineOp{Kind::kReceiveActivation, 2, 0, 0}), last[1]);
  EXPECT_EQ((PipelineOp{Kind::kForward, 2, 0}), last[2]);
}

}  // namespace
}  // namespace paramd
