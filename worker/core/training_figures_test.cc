#include "worker/core/training_figures.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Time AtSeconds(double seconds) {
  return Time::FromNanoseconds(1) + absl::Seconds(seconds);
}

v1::WorkerStats Of(const TrainingFigures& figures) {
  v1::WorkerStats stats;
  figures.Fill(&stats);
  return stats;
}

// Ticks when it wants to, up to `now`.
void PassUntil(Time now, TrainingFigures* figures) {
  while (figures->next_tick() <= now) figures->Tick(figures->next_tick());
}

TEST(TrainingFiguresTest, RateAndLossAreOfTheLastSecond) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  for (int i = 1; i <= 8; ++i) figures.Computed(10, 20, AtSeconds(0.25 * i));
  EXPECT_EQ(Of(figures).examples_per_second(), 40);
  EXPECT_EQ(Of(figures).loss(), 2);
}

TEST(TrainingFiguresTest, AStalledWorkerTrainsNoExamplesASecond) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  for (int i = 1; i <= 8; ++i) figures.Computed(10, 20, AtSeconds(0.25 * i));
  PassUntil(AtSeconds(3.9), &figures);
  EXPECT_EQ(Of(figures).examples_per_second(), 40);
  PassUntil(AtSeconds(4.1), &figures);
  EXPECT_EQ(Of(figures).examples_per_second(), 0);
  EXPECT_EQ(Of(figures).loss(), 2) << "which it still has";
  EXPECT_EQ(figures.next_tick(), Time::Never());
}

TEST(TrainingFiguresTest, AStepIsFromOneGradientToTheNextButOverAStall) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  figures.Computed(10, 20, AtSeconds(0.5));
  figures.Computed(10, 20, AtSeconds(0.75));
  PassUntil(AtSeconds(100), &figures);
  figures.Computed(10, 20, AtSeconds(100));
  figures.Computed(10, 20, AtSeconds(100.5));
  v1::Durations steps;
  figures.FillSteps(&steps);
  EXPECT_EQ(steps.count(), 3);
  EXPECT_EQ(steps.total_us(), 1250000);
}

TEST(TrainingFiguresTest, BehindAStallTheRateIsThatOfWhatComesThen) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  figures.Computed(10, 20, AtSeconds(1));
  PassUntil(AtSeconds(100), &figures);
  figures.Computed(10, 20, AtSeconds(100));
  EXPECT_EQ(Of(figures).examples_per_second(), 0);
  figures.Computed(10, 20, AtSeconds(100.5));
  figures.Computed(10, 20, AtSeconds(101));
  EXPECT_EQ(Of(figures).examples_per_second(), 20);
}

TEST(TrainingFiguresTest, GradientsThatTakeLongAreNoStall) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  for (int i = 1; i <= 3; ++i) {
    PassUntil(AtSeconds(10 * i), &figures);
    figures.Computed(10, 20, AtSeconds(10 * i));
  }
  PassUntil(AtSeconds(59), &figures);
  EXPECT_EQ(Of(figures).examples_per_second(), 1);
  PassUntil(AtSeconds(61), &figures);
  EXPECT_EQ(Of(figures).examples_per_second(), 0);
}

TEST(TrainingFiguresTest, AJobOfOneStepHasALoss) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  figures.Computed(10, 25, AtSeconds(0.01));
  EXPECT_EQ(Of(figures).loss(), 2.5);
}

TEST(TrainingFiguresTest, SumsAreOfThePushesThatAreInAndOfTheSession) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  figures.Computed(10, 25, AtSeconds(0.1));
  EXPECT_EQ(Of(figures).examples(), 0u);
  MetricSums metrics;
  metrics.Add()->set_name("accuracy");
  metrics[0].set_sum(3);
  metrics[0].set_count(8);
  figures.Acknowledged(/*step=*/7, /*epoch=*/1, 10, 25, metrics);
  figures.Acknowledged(/*step=*/8, /*epoch=*/1, 6, 5, metrics);
  EXPECT_EQ(Of(figures).examples(), 16u);
  EXPECT_EQ(Of(figures).loss_sum(), 30);
  EXPECT_EQ(Of(figures).step(), 8u);
  ASSERT_EQ(Of(figures).metrics_size(), 1);
  EXPECT_EQ(Of(figures).metrics(0).sum(), 6);
  EXPECT_EQ(Of(figures).metrics(0).count(), 16);
  figures.BeginSession(AtSeconds(1));
  EXPECT_EQ(Of(figures).examples(), 0u);
  EXPECT_EQ(Of(figures).step(), 0u);
  EXPECT_EQ(Of(figures).metrics_size(), 0);
}

// "epoch: loss sum / examples" of those that are told.
std::vector<std::string> EpochsOf(const TrainingFigures& figures) {
  std::vector<std::string> texts;
  const v1::WorkerStats stats = Of(figures);
  for (const v1::EpochSums& sums : stats.epochs()) {
    texts.push_back(absl::StrCat(sums.epoch(), ": ", sums.loss_sum(), "/",
                                 sums.examples()));
  }
  return texts;
}

TEST(TrainingFiguresTest, OfEpochsThoseAreToldThatAreNotKnown) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  figures.Acknowledged(0, 1, 10, 20, {});
  figures.Acknowledged(0, 1, 10, 30, {});
  figures.Acknowledged(0, 2, 0, 0, {});  // Of no examples.
  figures.Acknowledged(0, 2, 5, 5, {});
  EXPECT_THAT(EpochsOf(figures), ElementsAre("1: 50/20", "2: 5/5"));
  const v1::WorkerStats sent = Of(figures);
  figures.Acknowledged(0, 2, 5, 1, {});
  figures.Told(sent);
  EXPECT_THAT(EpochsOf(figures), ElementsAre("2: 6/10"));
  figures.Told(Of(figures));
  EXPECT_THAT(EpochsOf(figures), IsEmpty());
  figures.TellAnew();
  EXPECT_THAT(EpochsOf(figures), ElementsAre("1: 50/20", "2: 6/10"));
  figures.BeginSession(AtSeconds(1));
  EXPECT_THAT(EpochsOf(figures), IsEmpty());
}

TEST(TrainingFiguresTest, Promise8_OldEpochsAreForgotten) {
  TrainingFigures figures;
  figures.BeginSession(AtSeconds(0));
  for (uint32_t epoch = 1; epoch <= TrainingFigures::kMostEpochs + 1; ++epoch) {
    figures.Acknowledged(0, epoch, 1, 1, {});
  }
  EXPECT_EQ(EpochsOf(figures).size(), TrainingFigures::kMostEpochs);
  EXPECT_EQ(EpochsOf(figures).front(), "2: 1/1");
}

}  // namespace
}  // namespace paramd
