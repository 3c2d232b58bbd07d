#include "input/thread_tuner.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace paramd {
namespace {

// Lets the tuner see `windows` of a machine whose rate is `rate(threads)`.
template <class Rate>
void Simulate(ThreadTuner* tuner, int windows, Rate rate) {
  for (int i = 0; i < windows; ++i) {
    tuner->Observe(rate(tuner->threads()), /*waited=*/true);
  }
}

TEST(ThreadTunerTest, ThreadsAreAddedWhileTheRateRises) {
  ThreadTuner tuner(64);
  Simulate(&tuner, 10,
           [](uint32_t threads) { return std::min(threads, 8u) * 1.0; });
  EXPECT_EQ(tuner.threads(), 8u);
}

TEST(ThreadTunerTest, ThreadsThatSlowTheMachineDownAreTakenAway) {
  ThreadTuner tuner(64);
  Simulate(&tuner, 10, [](uint32_t threads) { return 10.0 / threads; });
  EXPECT_EQ(tuner.threads(), 1u);
}

TEST(ThreadTunerTest, TheBoundIsKept) {
  ThreadTuner tuner(6);
  Simulate(&tuner, 100, [](uint32_t threads) { return 1.0 * threads; });
  EXPECT_EQ(tuner.threads(), 6u);
}

TEST(ThreadTunerTest, NothingChangesWhileNobodyWaits) {
  ThreadTuner tuner(64);
  for (int i = 0; i < 100; ++i) tuner.Observe(1, /*waited=*/false);
  EXPECT_EQ(tuner.threads(), 1u);
}

TEST(ThreadTunerTest, AfterAWhileMoreThreadsAreTriedAgain) {
  ThreadTuner tuner(64);
  Simulate(&tuner, 10, [](uint32_t) { return 1.0; });
  ASSERT_EQ(tuner.threads(), 1u);
  Simulate(&tuner, ThreadTuner::kKeep + 10,
           [](uint32_t threads) { return std::min(threads, 4u) * 1.0; });
  EXPECT_EQ(tuner.threads(), 4u);
}

}  // namespace
}  // namespace paramd
