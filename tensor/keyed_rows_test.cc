#include "tensor/keyed_rows.h"

#include <map>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(KeyedRows, AKeyIsMixedAndComesBack) {
  uint64_t key = 1;
  for (int i = 0; i < 10000; ++i) {
    EXPECT_EQ(UnmixKey(MixKey(key)), key);
    EXPECT_EQ(MixKey(UnmixKey(key)), key);
    key = key * 6364136223846793005u + 1442695040888963407u;
  }
  EXPECT_EQ(UnmixKey(MixKey(0)), 0u);
  EXPECT_EQ(UnmixKey(MixKey(~uint64_t{0})), ~uint64_t{0});
}

TEST(KeyedRows, RowsAreWholeBucketsOrOneThatIsSmaller) {
  EXPECT_EQ(BucketRows(16), 16384u);
  EXPECT_EQ(RowsForKeys(1000, 16), 1000u);
  EXPECT_EQ(RowsForKeys(16384, 16), 16384u);
  EXPECT_EQ(RowsForKeys(16385, 16), 32768u);
  EXPECT_EQ(BucketRows(10), 26214u);
  EXPECT_EQ(RowsForKeys(26214, 10), 26214u);
  EXPECT_EQ(RowsForKeys(26215, 10), 52428u);
  EXPECT_EQ(RowsForKeys(3, 262143), 3u);
}

TEST(KeyedRows, OfAnyWidthAKeyLiesInOneOfTheBuckets) {
  for (const uint64_t width : {3, 10, 300, 262143}) {
    const uint64_t rows = RowsForKeys(7 * BucketRows(width), width);
    ASSERT_EQ(rows, 7 * BucketRows(width));
    EXPECT_TRUE(CheckKeyedRows(rows, width).ok());
    EXPECT_EQ(BucketCount(rows, width), 7u);
    std::map<uint64_t, int> keys;
    for (uint64_t key = 0; key < 7000; ++key) {
      ++keys[BucketBegin(MixKey(key), rows, width)];
    }
    EXPECT_EQ(keys.size(), 7u) << width;
    EXPECT_EQ(keys.begin()->first, 0u);
    EXPECT_EQ(keys.rbegin()->first, rows - BucketRows(width));
    for (const auto& [begin, count] : keys) {
      EXPECT_EQ(begin % BucketRows(width), 0u);
      EXPECT_NEAR(count, 1000, 160);
    }
  }
  EXPECT_FALSE(CheckKeyedRows(26215, 10).ok());
}

TEST(KeyedRows, BucketsAreInTheOrderOfMixedKeysAndEquallyFull) {
  const uint64_t rows = RowsForKeys(100 * 16384, 16);
  EXPECT_EQ(BucketBegin(0, rows, 16), 0u);
  EXPECT_EQ(BucketBegin(~uint64_t{0}, rows, 16), rows - 16384);
  EXPECT_EQ(BucketBegin(~uint64_t{0}, 1000, 16), 0u);
  std::map<uint64_t, int> keys;
  for (uint64_t key = 0; key < 100000; ++key) {
    ++keys[BucketBegin(MixKey(key), rows, 16)];
  }
  ASSERT_EQ(keys.size(), 100u);
  for (const auto& [begin, count] : keys) {
    EXPECT_EQ(begin % 16384, 0u);
    EXPECT_NEAR(count, 1000, 160);
  }
}

// Whatever two variables have for rows.
TEST(KeyedRows, KeysOfABucketLieInFewBucketsOfAnotherVariable) {
  for (const uint64_t here : {1, 3, 7, 20}) {
    for (const uint64_t there : {1, 2, 7, 9, 60}) {
      const uint64_t rows = there * BucketRows(10);
      for (uint64_t key = 0; key < 2000; ++key) {
        const uint64_t mixed = MixKey(key);
        const RowRange range =
            RowsWithKeysOf(BucketOf(mixed, here), here, rows, 10);
        const uint64_t begin = BucketBegin(mixed, rows, 10);
        EXPECT_LE(range.begin, begin);
        EXPECT_LE(begin + BucketRows(10), range.end);
        EXPECT_LE(range.end - range.begin, (there / here + 2) * BucketRows(10));
      }
    }
  }
  // Of a variable that has no whole bucket, all.
  EXPECT_EQ(RowsWithKeysOf(2, 3, 1000, 10), (RowRange{0, 1000}));
}

}  // namespace
}  // namespace paramd
