#include "cli/local/restart_policy.h"

#include <gtest/gtest.h>

namespace paramd {
namespace {

using Verdict = RestartPolicy::Verdict;

TEST(RestartPolicyTest, WhatMayDoBetterIsStartedAgain) {
  for (const int code : {138, 137, 134, 139}) {
    RestartPolicy policy({});
    EXPECT_EQ(policy.OnExit(code), Verdict::kRestart) << code;
  }
}

TEST(RestartPolicyTest, WhatFailsForGoodStopsTheCluster) {
  for (const int code : {1, 2, 127, 130, 143}) {
    RestartPolicy policy({});
    EXPECT_EQ(policy.OnExit(code), Verdict::kStopCluster) << code;
    EXPECT_EQ(policy.restarts(), 0);
  }
}

TEST(RestartPolicyTest, ZeroIsTheEndOfTheTask) {
  RestartPolicy policy({});
  EXPECT_EQ(policy.OnExit(0), Verdict::kFinished);
}

TEST(RestartPolicyTest, EachWaitIsTwiceTheOneBeforeUpToABound) {
  RestartPolicy policy({.most_restarts = 7});
  for (const double seconds : {0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0}) {
    EXPECT_EQ(policy.OnExit(138), Verdict::kRestart);
    EXPECT_EQ(policy.wait(), absl::Seconds(seconds));
  }
  EXPECT_EQ(policy.OnExit(138), Verdict::kStopCluster);
  EXPECT_EQ(policy.restarts(), 7);
}

TEST(RestartPolicyTest, NoRestartsMeansNone) {
  RestartPolicy policy({.most_restarts = 0});
  EXPECT_EQ(policy.OnExit(138), Verdict::kStopCluster);
}

}  // namespace
}  // namespace paramd
