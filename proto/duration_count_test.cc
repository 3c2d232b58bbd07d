#include "proto/duration_count.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::Durations Of(const DurationCount& count) {
  v1::Durations durations;
  count.Fill(&durations);
  return durations;
}

// Each duration is in the bucket that ends after it and begins at it or before.
TEST(DurationCountTest, BucketsDouble) {
  for (int bucket = 0; bucket + 1 < DurationCount::kBuckets; ++bucket) {
    const absl::Duration end = DurationCount::EndOf(bucket);
    for (const auto& [took, expected] :
         {std::pair(end - absl::Nanoseconds(1), bucket),
          std::pair(end, bucket + 1)}) {
      DurationCount count;
      count.Add(took);
      const v1::Durations durations = Of(count);
      ASSERT_EQ(durations.histogram_size(), DurationCount::kBuckets);
      EXPECT_EQ(durations.histogram(expected), 1) << took;
      EXPECT_EQ(durations.count(), 1);
    }
  }
  EXPECT_EQ(DurationCount::EndOf(0), absl::Microseconds(100));
  EXPECT_EQ(DurationCount::EndOf(19), absl::Microseconds(52428800));
}

TEST(DurationCountTest, WhatIsLongerIsInTheLastBucket) {
  DurationCount count;
  count.Add(absl::Hours(30));
  count.Add(absl::Minutes(1));
  EXPECT_EQ(Of(count).histogram(DurationCount::kBuckets - 1), 2);
}

TEST(DurationCountTest, TotalsAreOfAll) {
  DurationCount count;
  EXPECT_EQ(Of(count).count(), 0);
  for (int i = 1; i <= 4; ++i) count.Add(absl::Milliseconds(i));
  count.Add(-absl::Milliseconds(1));  // By a clock that is set back.
  EXPECT_EQ(count.count(), 5);
  EXPECT_EQ(Of(count).total_us(), 10000);
  EXPECT_EQ(Of(count).histogram(0), 1);
}

}  // namespace
}  // namespace paramd
