#include "cli/rejoin_watch.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace paramd {
namespace {

constexpr char kLine[] =
    "2026-11-21T20:46:41.576 info worker-1 first push of generation 1.5 "
    "acknowledged core=worker-1";

Time At(int64_t ms) { return Time() + absl::Milliseconds(ms); }

TEST(RejoinWatchTest, AFirstProcessComesBackFromNowhere) {
  RejoinWatch watch;
  EXPECT_FALSE(watch.Printed("worker-1", kLine, At(0)).has_value());
  watch.Started("worker-1", At(0));
  EXPECT_FALSE(watch.Printed("worker-1", kLine, At(500)).has_value());
}

TEST(RejoinWatchTest, ARestartedWorkerIsBackWithItsFirstPush) {
  RejoinWatch watch;
  watch.Started("worker-1", At(0));
  watch.Started("worker-1", At(10000));
  EXPECT_FALSE(watch.Printed("worker-1", "info ready", At(10300)).has_value());
  EXPECT_EQ(watch.Printed("worker-1", kLine, At(10784)),
            "worker-1 is back: its first push was acknowledged 0.78 s after "
            "its restart");
}

TEST(RejoinWatchTest, ItIsSaidOnceForEachProcess) {
  RejoinWatch watch;
  watch.Started("worker-1", At(0));
  watch.Started("worker-1", At(1000));
  EXPECT_TRUE(watch.Printed("worker-1", kLine, At(2000)).has_value());
  EXPECT_FALSE(watch.Printed("worker-1", kLine, At(3000)).has_value());
  watch.Started("worker-1", At(4000));
  EXPECT_TRUE(watch.Printed("worker-1", kLine, At(5000)).has_value());
}

TEST(RejoinWatchTest, TheLineIsFoundInJsonToo) {
  RejoinWatch watch;
  watch.Started("worker-1", At(0));
  watch.Started("worker-1", At(0));
  EXPECT_TRUE(watch
                  .Printed("worker-1",
                           "{\"task\":\"worker-1\",\"message\":\"first push of "
                           "generation 1.5 acknowledged\"}",
                           At(1))
                  .has_value());
}

}  // namespace
}  // namespace paramd
