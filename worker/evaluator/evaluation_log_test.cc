#include "worker/evaluator/evaluation_log.h"

#include <unistd.h>

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "checkpoint/file.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

v1::SnapshotNumber Number(uint64_t term, uint64_t counter) {
  return MakeNumber<v1::SnapshotNumber>(term, counter);
}

std::string Path(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", name, "-", getpid());
}

EvaluationLog::Line Line(const v1::SnapshotNumber& number, uint64_t step) {
  EvaluationLog::Line line;
  line.number = number;
  line.step = step;
  line.evaluation.set_examples(8);
  line.evaluation.set_labels(8);
  line.evaluation.set_correct(7);
  line.evaluation.set_loss(0.5);
  (*line.evaluation.mutable_metrics())["accuracy"] = 0.875;
  line.seconds = 0.25;
  return line;
}

TEST(EvaluationLogTest, ALineSaysWhatACheckpointCameTo) {
  const std::string path = Path("line");
  auto log = EvaluationLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->last_step(), 0u);
  ASSERT_TRUE(log->Append(Line(Number(1, 5), 90)).ok());
  EXPECT_EQ(*ReadWholeFile(path, 1000),
            "{\"accuracy\":0.875,\"correct\":7,\"examples\":8,\"labels\":8,"
            "\"loss\":0.5,\"number\":\"1.5\",\"seconds\":0.25,\"step\":90}\n");
}

TEST(EvaluationLogTest, AModelWithoutAccuracyHasItsOwnMetrics) {
  const std::string path = Path("metrics");
  auto log = EvaluationLog::Open(path);
  EvaluationLog::Line line;
  line.number = Number(1, 5);
  line.evaluation.set_examples(8);
  (*line.evaluation.mutable_metrics())["mse"] = 0.25;
  ASSERT_TRUE(log->Append(line).ok());
  EXPECT_EQ(*ReadWholeFile(path, 1000),
            "{\"examples\":8,\"loss\":0.0,\"mse\":0.25,\"number\":\"1.5\","
            "\"seconds\":0.0,\"step\":0}\n");
}

TEST(EvaluationLogTest, ALineHasTheSlicesOfAModelThatHasSome) {
  const std::string path = Path("slices");
  auto log = EvaluationLog::Open(path);
  EvaluationLog::Line line;
  line.number = Number(1, 5);
  line.evaluation.set_examples(8);
  v1::EvaluatedSlice* const slice = line.evaluation.add_slices();
  slice->set_feature("device");
  slice->set_value(2);
  slice->set_examples(3);
  slice->set_loss(0.5);
  (*slice->mutable_metrics())["auc"] = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(log->Append(line).ok());
  EXPECT_EQ(*ReadWholeFile(path, 1000),
            "{\"examples\":8,\"loss\":0.0,\"number\":\"1.5\",\"seconds\":0.0,"
            "\"slices\":[{\"auc\":null,\"examples\":3,\"feature\":\"device\","
            "\"loss\":0.5,\"value\":2}],\"step\":0}\n");
}

TEST(EvaluationLogTest, ALineHasTheBucketsOfACalibration) {
  const std::string path = Path("buckets");
  auto log = EvaluationLog::Open(path);
  EvaluationLog::Line line;
  line.number = Number(1, 5);
  auto* const bucket = line.evaluation.add_calibration_buckets()->add_buckets();
  bucket->set_to(0.1);
  bucket->set_count(3);
  bucket->set_predicted(0.0625);
  ASSERT_TRUE(log->Append(line).ok());
  EXPECT_EQ(*ReadWholeFile(path, 1000),
            "{\"calibration_buckets\":[{\"buckets\":[{\"count\":3,"
            "\"from\":0,\"observed\":0,\"predicted\":0.0625,"
            "\"to\":0.1}],\"output\":\"\"}],\"examples\":0,\"loss\":0.0,"
            "\"number\":\"1.5\",\"seconds\":0.0,\"step\":0}\n");
}

TEST(EvaluationLogTest, WhoStartsAgainKnowsWhatIsThere) {
  const std::string path = Path("again");
  {
    auto log = EvaluationLog::Open(path);
    ASSERT_TRUE(log->Append(Line(Number(1, 5), 90)).ok());
    ASSERT_TRUE(log->Append(Line(Number(2, 1), 80)).ok());
  }
  const auto log = EvaluationLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_TRUE(log->Has(Number(1, 5)));
  EXPECT_TRUE(log->Has(Number(2, 1)));
  EXPECT_FALSE(log->Has(Number(1, 6)));
  EXPECT_EQ(log->last_step(), 80u);
}

TEST(EvaluationLogTest, LinesThatItCannotReadAreKept) {
  const std::string path = Path("kept");
  auto file = *NewFile::Create(path);
  ASSERT_TRUE(file->Append(absl::string_view("note\n{\"number\": 5}")).ok());
  ASSERT_TRUE(file->Finish().ok());
  auto log = EvaluationLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE(log->Append(Line(Number(1, 5), 90)).ok());
  EXPECT_EQ(ReadWholeFile(path, 1000)->substr(0, 20),
            "note\n{\"number\": 5}\n{");
}

TEST(EvaluationLogTest, WhatCannotBeWrittenIsNotThere) {
  auto log = EvaluationLog::Open("/proc/none/evaluation.jsonl");
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_FALSE(log->Append(Line(Number(1, 5), 90)).ok());
  EXPECT_FALSE(log->Has(Number(1, 5)));
}

}  // namespace
}  // namespace paramd
