#include "compute/pipeline/stage_order.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

std::string SentenceOf(const std::string& name, uint32_t stages,
                       uint32_t stages_per_device, uint32_t micro_batches) {
  const auto made =
      ScheduleByName(name, stages, stages_per_device, micro_batches);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(made.status().message());
}

// Whether a thread that does the passes one after the other, each of the
// device that has its stage, has all that each needs when it comes to it: the
// list as a schedule of one device is sound.
void ExpectOneThreadCanFollow(const PipelineSchedule& schedule) {
  const std::vector<PipelineOp> order = InOneOrder(schedule);
  PipelineSchedule alone;
  alone.stages = schedule.stages;
  alone.micro_batches = schedule.micro_batches;
  alone.devices = {order};
  for (uint32_t s = 0; s < schedule.stages; ++s) {
    alone.devices[0].push_back(
        {PipelineOp::Kind::kUpdate, s, schedule.micro_batches - 1});
  }
  EXPECT_TRUE(CheckSchedule(alone).ok()) << CheckSchedule(alone).status();
  std::vector<std::vector<PipelineOp>> by_device(schedule.devices.size());
  for (const PipelineOp& op : order) {
    by_device[schedule.DeviceOf(op.stage)].push_back(op);
  }
  for (size_t d = 0; d < by_device.size(); ++d) {
    std::vector<PipelineOp> passes = schedule.devices[d];
    passes.erase(std::remove_if(passes.begin(), passes.end(),
                                [](const PipelineOp& op) {
                                  return op.kind == PipelineOp::Kind::kUpdate;
                                }),
                 passes.end());
    EXPECT_TRUE(by_device[d] == passes) << "device " << d;
  }
}

TEST(StageOrderTest, OneThreadCanFollowEveryScheduleInTheOrderOfEachDevice) {
  for (uint32_t stages = 1; stages <= 8; ++stages) {
    for (uint32_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      for (const char* const name : {"naive", "gpipe", "1f1b", "zero_bubble"}) {
        SCOPED_TRACE(absl::StrCat(name, " ", stages, " ", micro_batches));
        const auto made = ScheduleByName(name, stages, 1, micro_batches);
        ASSERT_TRUE(made.ok()) << made.status();
        ExpectOneThreadCanFollow(*made);
      }
      for (uint32_t of_each = 2; of_each <= stages; ++of_each) {
        if (stages % of_each != 0) continue;
        SCOPED_TRACE(absl::StrCat(of_each, " ", stages, " ", micro_batches));
        const auto made =
            ScheduleByName("interleaved", stages, of_each, micro_batches);
        ASSERT_TRUE(made.ok()) << made.status();
        ExpectOneThreadCanFollow(*made);
      }
    }
  }
}

TEST(StageOrderTest, WhatDevicesMayComputeAtTheSameTimeStandsTogether) {
  const std::vector<PipelineOp> order = InOneOrder(GpipeSchedule(2, 3));
  std::vector<std::string> texts;
  for (const PipelineOp& op : order) {
    texts.push_back(
        absl::StrCat(op.kind == PipelineOp::Kind::kForward ? "F" : "B",
                     op.stage, op.micro_batch));
  }
  EXPECT_THAT(texts,
              ::testing::ElementsAre("F00", "F01", "F10", "F02", "F11", "F12",
                                     "B10", "B00", "B11", "B01", "B12", "B02"));
}

TEST(StageOrderTest, WhatIsWrongIsSaidWithNamesAndNumbers) {
  EXPECT_THAT(SentenceOf("2bw", 2, 1, 4),
              HasSubstr("there is no schedule '2bw' with a flush; there are "
                        "1f1b, gpipe"));
  EXPECT_THAT(SentenceOf("1f1b", 0, 1, 4), HasSubstr("found 0 and 4"));
  EXPECT_THAT(SentenceOf("1f1b", 2, 1, 0), HasSubstr("found 2 and 0"));
  EXPECT_THAT(SentenceOf("gpipe", 65536, 1, 65536),
              HasSubstr("are 8589934592 passes; a schedule has at most "
                        "1048576"));
  EXPECT_THAT(SentenceOf("gpipe", 4, 2, 4),
              HasSubstr("stages_per_device is 2; only the schedule"));
  EXPECT_THAT(SentenceOf("interleaved", 4, 1, 4),
              HasSubstr("stages_per_device is 1; of the schedule"));
  EXPECT_THAT(SentenceOf("interleaved", 4, 3, 4),
              HasSubstr("at least 2 and divides the 4 stages"));
}

}  // namespace
}  // namespace paramd
