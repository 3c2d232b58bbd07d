#include "cli/local/rejoin_watch.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace paramd {
namespace {

Time At(int64_t ms) { return Time() + absl::Milliseconds(ms); }

TEST(RejoinWatchTest, AFirstProcessComesBackFromNowhere) {
  RejoinWatch watch;
  EXPECT_FALSE(watch.Pushed("worker-1", At(0)).has_value());
  watch.Started("worker-1", At(0));
  EXPECT_FALSE(watch.Pushed("worker-1", At(500)).has_value());
}

TEST(RejoinWatchTest, ARestartedWorkerIsBackWithItsFirstPush) {
  RejoinWatch watch;
  watch.Started("worker-1", At(0));
  watch.Started("worker-1", At(10000));
  EXPECT_EQ(watch.Pushed("worker-1", At(10784)),
            "worker-1 is back: its first push was acknowledged 0.78 s after "
            "its restart");
}

TEST(RejoinWatchTest, WhatTheProcessBeforeSaidLastIsNotItsSuccessors) {
  RejoinWatch watch;
  watch.Started("worker-1", At(0));
  watch.Started("worker-1", At(10000));
  EXPECT_FALSE(watch.Pushed("worker-1", At(600)).has_value());
  EXPECT_TRUE(watch.Pushed("worker-1", At(10600)).has_value());
}

TEST(RejoinWatchTest, ItIsSaidOnceForEachProcess) {
  RejoinWatch watch;
  watch.Started("worker-1", At(0));
  watch.Started("worker-1", At(1000));
  EXPECT_TRUE(watch.Pushed("worker-1", At(2000)).has_value());
  EXPECT_FALSE(watch.Pushed("worker-1", At(2000)).has_value());
  watch.Started("worker-1", At(4000));
  EXPECT_TRUE(watch.Pushed("worker-1", At(5000)).has_value());
}

}  // namespace
}  // namespace paramd
