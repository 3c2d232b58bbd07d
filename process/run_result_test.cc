#include "process/run_result.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

class RunResultTest : public ::testing::Test {
 protected:
  RunResultTest()
      : directory_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(directory_);
  }

  void Write(const std::string& text) {
    std::ofstream(directory_ + "/result.json") << text;
  }

  const std::string directory_;
};

TEST_F(RunResultTest, TheChiefsFiguresComeBack) {
  Write(R"({"evaluation": {"examples": "1000",
                           "metrics": {"accuracy": 0.887, "top_5": 0.99}},
            "epochs": 5,
            "seconds": 53.9, "globalStep": "9370",
            "checkpointPath": "/elsewhere/x", "later": true,
            "pushesLost": "3", "pushesDoubled": "2"})");
  const auto result = ReadRunResult(directory_);
  ASSERT_TRUE(result.ok()) << result.status();
  EndView end;
  FillEnd(*result, &end);
  EXPECT_EQ(end.test, "accuracy: 0.887, top_5: 0.990");
  EXPECT_EQ(end.epochs, 5);
  EXPECT_EQ(end.seconds, 53.9);
  EXPECT_EQ(end.checkpoint_path, "/elsewhere/x");
  EXPECT_EQ(end.pushes_lost, 3u);
  EXPECT_EQ(end.pushes_doubled, 2u);
}

TEST_F(RunResultTest, AMissingResultAndADamagedOneAreToldApart) {
  EXPECT_EQ(ReadRunResult(directory_).status().code(),
            absl::StatusCode::kNotFound);
  Write("{\"epochs\": ");
  EXPECT_EQ(ReadRunResult(directory_).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(RunResultTest, AViewThatIsASecondOldIsFinished) {
  v1::WriteResult result;
  result.set_global_step(100);
  result.set_checkpoint_path("/x");
  ClusterView view;
  view.epochs = 2;
  view.epochs_done = 1.8;
  view.pushes = 90;
  view.waiting_for = "worker-1";
  view.checkpoint_step = 50;
  view.checkpoint_bytes = 7;
  FinishView(result, &view);
  EXPECT_EQ(view.epochs_done, 2);
  EXPECT_EQ(view.pushes, 100);
  EXPECT_EQ(view.waiting_for, "");
  EXPECT_EQ(view.checkpoint_step, 100);
  EXPECT_FALSE(view.checkpoint_bytes.has_value());
}

TEST_F(RunResultTest, FiguresOfTheLastCheckpointStay) {
  v1::WriteResult result;
  result.set_global_step(100);
  result.set_checkpoint_path("/x");
  ClusterView view;
  view.checkpoint_step = 100;
  view.checkpoint_bytes = 7;
  FinishView(result, &view);
  EXPECT_EQ(view.checkpoint_bytes, 7);
}

TEST_F(RunResultTest, AResultOfAnEarlierVersionHasTheAccuracyOfItsCounts) {
  Write(R"({"evaluation": {"examples": "1000", "correct": "887"}})");
  const auto result = ReadRunResult(directory_);
  ASSERT_TRUE(result.ok()) << result.status();
  EndView end;
  FillEnd(*result, &end);
  EXPECT_EQ(end.test, "accuracy: 0.887");
}

TEST_F(RunResultTest, AModelWithoutMetricsHasItsLoss) {
  Write(R"({"evaluation": {"examples": "1000", "loss": 0.0121345}})");
  const auto result = ReadRunResult(directory_);
  ASSERT_TRUE(result.ok()) << result.status();
  EndView end;
  FillEnd(*result, &end);
  EXPECT_EQ(end.test, "loss: 0.01213");
}

TEST_F(RunResultTest, WithoutAnEvaluationNothingIsSaidOfTheTestSet) {
  EndView end;
  FillEnd(v1::WriteResult(), &end);
  EXPECT_EQ(end.test, "");
  EXPECT_EQ(end.checkpoint_path, "");
}

}  // namespace
}  // namespace paramd
