#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/testing/sample.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Pair;

// Checkpoints of one term, numbered from 1 on.
class RetentionTest : public ::testing::Test {
 protected:
  CheckpointSummary& Add(uint64_t step) {
    CheckpointSummary& added = all_.emplace_back();
    added.snapshot = Pair(1, all_.size());
    added.step = step;
    added.created = now_;
    now_ += absl::Hours(1);
    return added;
  }
  void Add(std::initializer_list<uint64_t> steps) {
    for (const uint64_t step : steps) Add(step);
  }
  // One after an evaluation at `metrics_step`.
  void Evaluated(uint64_t step, double accuracy, uint64_t metrics_step) {
    CheckpointSummary& added = Add(step);
    added.metrics["accuracy"] = accuracy;
    added.metrics_step = metrics_step;
  }
  // The numbers that go, and as they should: what stays, stays when they are
  // gone.
  std::vector<uint64_t> Gone() {
    std::vector<uint64_t> gone;
    for (const v1::SnapshotNumber& version : ToRetire(retention_, all_)) {
      gone.push_back(version.counter());
    }
    std::vector<CheckpointSummary> left;
    for (const CheckpointSummary& one : all_) {
      if (std::find(gone.begin(), gone.end(), one.snapshot.counter()) ==
          gone.end()) {
        left.push_back(one);
      }
    }
    EXPECT_THAT(ToRetire(retention_, left), IsEmpty());
    return gone;
  }

  v1::Retention retention_;
  std::vector<CheckpointSummary> all_;
  absl::Time now_ = absl::UnixEpoch();
};

// As a job's end makes them, when what comes after the last one fails.
TEST_F(RetentionTest, SeveralOfOneStepTakeTheOneBeforeNotAway) {
  Add({10, 20, 30, 30, 30});
  retention_.set_keep(3);
  EXPECT_THAT(Gone(), ElementsAre(3, 4));
}

TEST_F(RetentionTest, TheNewestStay) {
  Add({10, 20, 30, 40});
  retention_.set_keep(2);
  EXPECT_THAT(Gone(), ElementsAre(1, 2));
}

TEST_F(RetentionTest, WithoutANumberAllStay) {
  Add({10, 20, 30});
  EXPECT_THAT(Gone(), IsEmpty());
}

TEST_F(RetentionTest, TheNewestIsTheHighestNumberNotTheHighestStep) {
  Add({10, 500});
  all_[1].snapshot = Pair(1, 1);
  all_[0].snapshot = Pair(2, 1);
  retention_.set_keep(1);
  EXPECT_THAT(ToRetire(retention_, all_), ElementsAre(Pair(1, 1)));
}

TEST_F(RetentionTest, TheFirstOfEachSpanOfStepsStays) {
  Add({50, 100, 150, 200, 250, 300, 350});
  retention_.set_keep(1);
  retention_.set_every_steps(100);
  EXPECT_THAT(Gone(), ElementsAre(3, 5));
}

TEST_F(RetentionTest, ACourseThatTheJobHasLeftStaysForNoSpanAndIsNotBest) {
  Evaluated(100, 0.9, 90);
  Evaluated(210, 0.99, 200);  // Damaged: the job goes on from the one before.
  Evaluated(150, 0.8, 140);
  Evaluated(220, 0.8, 205);
  Evaluated(300, 0.8, 280);
  retention_.set_keep(1);
  retention_.set_every_steps(100);
  retention_.set_best(1);
  retention_.set_metric("accuracy");
  EXPECT_THAT(Gone(), ElementsAre(2, 3));
}

TEST_F(RetentionTest, OfTheSameStepOfTwoCoursesTheLaterOneStays) {
  Add({100, 100, 250});
  retention_.set_keep(1);
  retention_.set_every_steps(100);
  EXPECT_THAT(Gone(), ElementsAre(1));
}

TEST_F(RetentionTest, OneInEachSpanOfHoursStays) {
  Add({1, 2, 3, 4, 5, 6, 7, 8});
  retention_.set_keep(1);
  retention_.set_every_hours(2.5);
  EXPECT_THAT(Gone(), ElementsAre(2, 3, 5, 6));
}

TEST_F(RetentionTest, AClockThatWasSetBackCostsOneCheckpointMoreAndGoesOn) {
  Add({1, 2, 3});
  now_ -= absl::Hours(100);
  Add({4, 5, 6, 7, 8});
  retention_.set_keep(1);
  retention_.set_every_hours(3);
  EXPECT_THAT(Gone(), ElementsAre(2, 3, 5, 6));
}

TEST_F(RetentionTest, TheBestStayOneForEachEvaluation) {
  Evaluated(10, 0.5, 9);
  Evaluated(20, 0.8, 19);
  Evaluated(30, 0.8, 19);  // No evaluation since.
  Evaluated(40, 0.7, 39);
  Evaluated(50, 0.6, 49);
  Add(60);
  retention_.set_keep(1);
  retention_.set_best(2);
  retention_.set_metric("accuracy");
  EXPECT_THAT(Gone(), ElementsAre(1, 3, 5));
}

TEST_F(RetentionTest, WhatIsBetterMayBeLower) {
  Evaluated(10, 0.5, 9);
  Evaluated(20, 0.2, 19);
  Evaluated(30, 0.3, 29);
  Evaluated(40, 0.4, 39);
  retention_.set_keep(1);
  retention_.set_best(1);
  retention_.set_metric("accuracy");
  retention_.set_lower_is_better(true);
  EXPECT_THAT(Gone(), ElementsAre(1, 3));
}

TEST_F(RetentionTest, AMetricThatIsNoNumberIsNotTheBest) {
  Evaluated(10, std::nan(""), 9);
  Evaluated(20, 0.1, 19);
  Add(30);
  retention_.set_keep(1);
  retention_.set_best(1);
  retention_.set_metric("accuracy");
  EXPECT_THAT(Gone(), ElementsAre(1));
}

TEST_F(RetentionTest, WhatAnotherIsBuiltOnStays) {
  Add({10, 20, 30, 40, 50});
  all_[4].bases = {Pair(1, 3)};
  all_[2].bases = {Pair(1, 1)};
  all_[3].bases = {Pair(1, 2)};
  retention_.set_keep(1);
  EXPECT_THAT(Gone(), ElementsAre(2, 4));
}

TEST_F(RetentionTest, AManifestIsSummarized) {
  v1::Manifest manifest;
  *manifest.mutable_snapshot() = Pair(3, 4);
  manifest.set_global_step(70);
  manifest.set_created("1970-01-01T02:00:00Z");
  (*manifest.mutable_metrics())["loss"] = 0.25;
  manifest.set_metrics_step(60);
  manifest.add_files();
  for (const uint64_t base : {2, 2, 3}) {
    *manifest.add_files()->mutable_base()->mutable_snapshot() = Pair(3, base);
  }
  const CheckpointSummary summary = Summarize(manifest);
  EXPECT_EQ(summary.snapshot, Pair(3, 4));
  EXPECT_EQ(summary.step, 70u);
  EXPECT_EQ(summary.created, absl::UnixEpoch() + absl::Hours(2));
  EXPECT_EQ(summary.metrics.at("loss"), 0.25);
  EXPECT_EQ(summary.metrics_step, 60u);
  EXPECT_THAT(summary.bases, ElementsAre(Pair(3, 2), Pair(3, 3)));
}

TEST_F(RetentionTest, OneWithoutATimeStaysForNoSpanOfHours) {
  v1::Manifest manifest;
  manifest.set_created("yesterday");
  EXPECT_FALSE(Summarize(manifest).created.has_value());
  Add({1, 2, 3});
  all_[0].created.reset();
  retention_.set_keep(1);
  retention_.set_every_hours(1);
  EXPECT_THAT(Gone(), ElementsAre(1));
}

}  // namespace
}  // namespace paramd
