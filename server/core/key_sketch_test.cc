#include "server/core/key_sketch.h"

#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

constexpr size_t kWords = 128;

TEST(KeySketchTest, CountsKeysOneByOne) {
  std::vector<uint64_t> counters(kWords);
  KeySketch sketch;
  for (uint32_t times = 1; times <= 300; ++times) {
    EXPECT_EQ(sketch.Add(MixKey(7), absl::MakeSpan(counters)),
              std::min(times, 255u));
  }
  EXPECT_EQ(sketch.Add(MixKey(8), absl::MakeSpan(counters)), 1);
}

// Before the first halving: never too low, and seldom too high.
TEST(KeySketchTest, NeverSaysLessThanThereWere) {
  std::vector<uint64_t> counters(kWords);
  KeySketch sketch;
  RandomStream random(1);
  std::map<uint64_t, uint32_t> truth;
  int too_high = 0;
  while (truth.size() < kWords) {
    const uint64_t key = random.Below(2 * kWords);
    const uint32_t says = sketch.Add(MixKey(key), absl::MakeSpan(counters));
    ASSERT_GE(says, ++truth[key]);
    if (says > truth[key]) ++too_high;
  }
  EXPECT_LT(too_high, 10);
}

TEST(KeySketchTest, WhatCameOnceIsForgottenWhenHalfIsInUse) {
  std::vector<uint64_t> counters(kWords);
  KeySketch sketch;
  for (int i = 0; i < 5; ++i) sketch.Add(MixKey(0), absl::MakeSpan(counters));
  // A stream of keys that come once each, without end.
  int taken_for_old = 0;
  constexpr int kStream = 20000;
  for (uint64_t key = 1; key <= kStream; ++key) {
    if (sketch.Add(MixKey(key), absl::MakeSpan(counters)) > 1) ++taken_for_old;
    if (key % 100 == 0) {
      EXPECT_GE(sketch.Add(MixKey(0), absl::MakeSpan(counters)), 2);
    }
  }
  EXPECT_LT(taken_for_old, kStream / 6);
}

TEST(KeySketchTest, FollowsFromTheCountersAlone) {
  std::vector<uint64_t> counters(kWords);
  KeySketch sketch;
  RandomStream random(2);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t mixed = MixKey(random.Below(1000));
    std::vector<uint64_t> copy = counters;
    KeySketch fresh;  // As after a restore.
    const uint32_t says = sketch.Add(mixed, absl::MakeSpan(counters));
    ASSERT_EQ(fresh.Add(mixed, absl::MakeSpan(copy)), says);
    ASSERT_EQ(copy, counters);
  }
}

}  // namespace
}  // namespace paramd
