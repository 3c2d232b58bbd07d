#include "compute/pipeline/timeline_svg.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::string DrawingOf(const PipelineSchedule& schedule) {
  const std::vector<StageTimes> times(
      schedule.stages,
      {.forward = 0.001, .backward_input = 0.001, .backward_weights = 0.001});
  return TimelineSvg(RunOnClock(WithTransfers(schedule), times));
}

TEST(TimelineSvgTest, EachPassOfEachMicroBatch_IsABar) {
  const std::string drawing = DrawingOf(OneForwardOneBackward(3, 4));
  EXPECT_EQ(CountOf(drawing, "<title>forward of"), 3u * 4);
  EXPECT_EQ(CountOf(drawing, "<title>backward of"), 3u * 4);
  EXPECT_THAT(drawing,
              HasSubstr("forward of micro-batch 0 on stage 1, 1.000 to 2.000"));
  EXPECT_THAT(drawing, Not(HasSubstr("gradients of variables")))
      << "the legend has what there is";
  EXPECT_EQ(CountOf(drawing, ">device "), 3u);
  EXPECT_THAT(drawing, HasSubstr("</svg>"));
}

TEST(TimelineSvgTest, HalvesOfABackwardPass_HaveColoursOfTheirOwn) {
  const std::string drawing = DrawingOf(ZeroBubbleSchedule(3, 4));
  EXPECT_EQ(CountOf(drawing, "<title>backward of"), 4u) << "the first stage";
  EXPECT_EQ(CountOf(drawing, "<title>gradient of the input"), 2u * 4);
  EXPECT_EQ(CountOf(drawing, "<title>gradient of the variables"), 2u * 4);
  EXPECT_THAT(drawing, HasSubstr(">gradients of variables</text>"));
}

TEST(TimelineSvgTest, TheWaitOfADevice_IsInItsName) {
  // Of 3 stages and 1 micro-batch each computes a third of the time.
  EXPECT_EQ(CountOf(DrawingOf(GpipeSchedule(3, 1)), "waits 67 %"), 3u);
}

TEST(TimelineSvgTest, TheTitleSaysHowMuchOfTheTimeEachStageComputes) {
  EXPECT_THAT(
      DrawingOf(GpipeSchedule(3, 1)),
      HasSubstr("<title>stage 0 computes 33 % of the time, stage 1 33 %, "
                "stage 2 33 %</title>"));
}

TEST(TimelineSvgTest, BarsTooNarrowForANumber_HaveNone) {
  EXPECT_GT(CountOf(DrawingOf(GpipeSchedule(2, 4)), "class=\"n\""), 0u);
  EXPECT_EQ(CountOf(DrawingOf(GpipeSchedule(2, 400)), "class=\"n\""), 0u);
}

}  // namespace
}  // namespace paramd
