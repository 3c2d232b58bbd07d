#include "worker/core/evaluator.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/core_driver.h"

namespace paramd {
namespace {

using testing::CoreDriver;

class EvaluatorTest : public ::testing::Test {
 protected:
  EvaluatorTest() : driver_(&evaluator_) { driver_.Start(); }

  bool IsLooking() const { return !driver_.ios.empty(); }

  // Ends the look that is under way.
  void Looked(bool final) {
    v1::EvaluateNewestResult result;
    result.set_final(final);
    const auto io = driver_.TakeIo<v1::EvaluateNewest>();
    ASSERT_TRUE(io.has_value());
    driver_.Complete(io->first, result);
  }

  // Ends it without a checkpoint.
  void FoundNothing(const absl::Status& why) {
    driver_.End(driver_.TakeIo<v1::EvaluateNewest>()->first, why);
  }

  Evaluator evaluator_{absl::Seconds(30)};
  CoreDriver driver_;
};

TEST_F(EvaluatorTest, LooksAtOnceAndThenEverySecond) {
  EXPECT_TRUE(IsLooking());
  Looked(/*final=*/false);
  driver_.Advance(absl::Milliseconds(900));
  EXPECT_FALSE(IsLooking());
  driver_.Advance(absl::Milliseconds(100));
  EXPECT_TRUE(IsLooking());
}

TEST_F(EvaluatorTest, OneLookIsUnderWayAtATime) {
  driver_.Advance(absl::Minutes(10));
  EXPECT_EQ(driver_.ios.size(), 1u);
}

TEST_F(EvaluatorTest, EndsBehindTheLastCheckpoint) {
  Looked(/*final=*/true);
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok());
}

TEST_F(EvaluatorTest, ALookThatFailsEndsIt) {
  driver_.End(driver_.TakeIo<v1::EvaluateNewest>()->first,
              absl::InvalidArgumentError("another job's"));
  EXPECT_TRUE(driver_.exited);
  EXPECT_EQ(driver_.exit_status.message(), "another job's");
}

TEST_F(EvaluatorTest, Promise4_ItSaysWhatItWaitsForUntilItIsThere) {
  EXPECT_EQ(evaluator_.overdue(Time()), "");
  FoundNothing(absl::NotFoundError("directory /x"));
  EXPECT_EQ(evaluator_.overdue(Time()), "directory /x");
  driver_.Advance(absl::Seconds(1));
  FoundNothing(absl::UnavailableError("the first checkpoint"));
  EXPECT_EQ(evaluator_.overdue(Time()), "the first checkpoint");
  driver_.Advance(absl::Seconds(1));
  Looked(/*final=*/false);
  EXPECT_EQ(evaluator_.overdue(Time()), "");
}

TEST_F(EvaluatorTest, Promise4_ForARunThatIsNotThereItWaitsTheStartTimeout) {
  for (int second = 0; second < 30; ++second) {
    FoundNothing(absl::NotFoundError("directory /x"));
    ASSERT_FALSE(driver_.exited);
    driver_.Advance(absl::Seconds(1));
  }
  FoundNothing(absl::NotFoundError("directory /x"));
  EXPECT_EQ(
      driver_.exit_status,
      absl::UnavailableError("waited 30s (start_timeout_ms) for directory /x"));
}

TEST_F(EvaluatorTest, ARunWithoutACheckpointIsWaitedForAsLongAsItTakes) {
  for (int second = 0; second < 100; ++second) {
    FoundNothing(absl::UnavailableError("the first checkpoint"));
    driver_.Advance(absl::Seconds(1));
  }
  EXPECT_FALSE(driver_.exited);
}

TEST_F(EvaluatorTest, ToldToLeaveItWaitsForNothing) {
  driver_.Drain();
  FoundNothing(absl::NotFoundError("directory /x"));
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok());
}

TEST_F(EvaluatorTest, ToldToLeaveItEndsWhatIsUnderWay) {
  driver_.Drain();
  EXPECT_FALSE(driver_.exited);
  Looked(/*final=*/false);
  EXPECT_TRUE(driver_.exited);
}

TEST_F(EvaluatorTest, ToldToLeaveBetweenLooksItLeavesAtOnce) {
  Looked(/*final=*/false);
  driver_.Drain();
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok());
}

}  // namespace
}  // namespace paramd
