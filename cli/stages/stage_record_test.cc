#include "cli/stages/stage_record.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

std::string Directory() {
  const ::testing::TestInfo& test =
      *::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(::testing::TempDir(), "/", test.name());
}

StageRecord Sample() {
  StageRecord record;
  record.name = "student";
  record.kind = "trains";
  record.from = "teacher";
  record.settings = {"seed=1", "stage.name=\"student\""};
  record.result = "/runs/a/student/checkpoints/x";
  record.step = 938;
  record.metrics = {{"loss", 0.5}, {"accuracy", 0.875}};
  record.examples = 10000;
  record.bytes = 407080;
  record.compressed_bytes = 370000;
  record.zeros = 0.25;
  record.examples_per_second = 125000.5;
  return record;
}

TEST(StageRecordTest, WhatIsWrittenIsRead) {
  const StageRecord wrote = Sample();
  ASSERT_TRUE(WriteStageRecord(Directory(), wrote).ok());
  const auto read = ReadStageRecord(Directory());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(JsonOf(*read), JsonOf(wrote));
  EXPECT_EQ(read->metrics, wrote.metrics);
  EXPECT_EQ(read->Metric("accuracy"), 0.875);
  EXPECT_EQ(read->Metric("auc"), absl::nullopt);
}

TEST(StageRecordTest, WhatIsNotKnownStaysSo) {
  StageRecord wrote = Sample();
  wrote.from.clear();
  wrote.metrics = {{"loss", std::numeric_limits<double>::infinity()}};
  wrote.compressed_bytes.reset();
  wrote.zeros.reset();
  wrote.examples_per_second.reset();
  ASSERT_TRUE(WriteStageRecord(Directory(), wrote).ok());
  const auto read = ReadStageRecord(Directory());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->from, "");
  EXPECT_TRUE(std::isnan(*read->Metric("loss")));
  EXPECT_FALSE(read->compressed_bytes.has_value());
  EXPECT_FALSE(read->zeros.has_value());
  EXPECT_FALSE(read->examples_per_second.has_value());
}

TEST(StageRecordTest, ASecondOneTakesThePlaceOfTheFirst) {
  StageRecord record = Sample();
  ASSERT_TRUE(WriteStageRecord(Directory(), record).ok());
  record.step = 1876;
  ASSERT_TRUE(WriteStageRecord(Directory(), record).ok());
  EXPECT_EQ(ReadStageRecord(Directory())->step, 1876u);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Directory())) {
    ++files;
    EXPECT_EQ(entry.path().filename(), "stage.json");
  }
  EXPECT_EQ(files, 1);
}

TEST(StageRecordTest, AStageThatIsNotFinishedHasNone) {
  EXPECT_EQ(ReadStageRecord(Directory()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(StageRecordTest, ADamagedOneIsNamed) {
  std::filesystem::create_directories(Directory());
  for (const std::string text :
       {"", "[", "[]", "{}", R"({"name": 3})", R"({"name": "a"})"}) {
    std::ofstream(Directory() + "/stage.json") << text;
    const absl::Status status = ReadStageRecord(Directory()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(Directory() + "/stage.json"));
  }
}

}  // namespace
}  // namespace paramd
