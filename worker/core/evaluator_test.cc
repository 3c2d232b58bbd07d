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

  Evaluator evaluator_;
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
