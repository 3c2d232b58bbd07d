#include "worker/core/quarantine_watch.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(QuarantineWatchTest, SoManyInARowAreTooMany) {
  QuarantineWatch watch(/*worker=*/3, /*limit=*/3);
  EXPECT_TRUE(watch.Refused("first").ok());
  EXPECT_TRUE(watch.Refused("second").ok());
  const absl::Status status = watch.Refused("gradient for 'w' is not finite");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(),
            "3 of worker-3's pushes in a row were refused for their numbers; "
            "the last: gradient for 'w' is not finite; lower "
            "optimizer.learning_rate or look at the input");
  EXPECT_EQ(watch.total(), 3u);
}

TEST(QuarantineWatchTest, AGoodPushInBetweenBeginsTheRowAnew) {
  QuarantineWatch watch(3, 2);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(watch.Refused("x").ok());
    watch.Applied();
  }
  EXPECT_EQ(watch.total(), 10u);
}

TEST(QuarantineWatchTest, TheFirstSecondFourthEighthAreWorthANote) {
  QuarantineWatch watch(3, 100);
  int notes = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(watch.Refused("x").ok());
    notes += watch.is_worth_a_note() ? 1 : 0;
  }
  EXPECT_EQ(notes, 4);
}

}  // namespace
}  // namespace paramd
