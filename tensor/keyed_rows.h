#ifndef PARAMD_TENSOR_KEYED_ROWS_H_
#define PARAMD_TENSOR_KEYED_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "tensor/shape.h"

namespace paramd {

// Where rows of keyed variables lie. A key is mixed into a number that is
// evenly spread over 64 bits, and the other way round: no two keys share one.
// Mixed keys in ascending order are dealt out to the variable's buckets, so
// that those of a bucket follow one another. A bucket is a block of the
// variable; which of its rows a key has is the owner's business.

// In place of the row of a key that has none.
inline constexpr uint32_t kNoRow = ~uint32_t{0};

// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
constexpr uint64_t MixKey(uint64_t key) {
  key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9;
  key = (key ^ key >> 27) * 0x94d049bb133111eb;
  return key ^ key >> 31;
}

// MixKey(UnmixKey(m)) == m.
constexpr uint64_t UnmixKey(uint64_t mixed) {
  mixed = (mixed ^ mixed >> 31 ^ mixed >> 62) * 0x319642b2d24d8ec3;
  mixed = (mixed ^ mixed >> 27 ^ mixed >> 54) * 0x96de1b173f119089;
  return mixed ^ mixed >> 30 ^ mixed >> 60;
}

// Rows of a bucket, for rows of so many elements. REQUIRES: CheckSparseShape.
inline uint64_t BucketRows(uint64_t width) { return BlockRows(width); }

// Rows of a variable for so many keys: whole buckets, or one that is smaller.
inline uint64_t RowsForKeys(uint64_t capacity, uint64_t width) {
  const uint64_t bucket = BucketRows(width);
  if (capacity <= bucket) return capacity;
  return (capacity + bucket - 1) / bucket * bucket;
}

// kInvalidArgument unless a variable may have so many rows: those of
// RowsForKeys.
inline absl::Status CheckKeyedRows(uint64_t rows, uint64_t width) {
  if (rows == RowsForKeys(rows, width)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a keyed variable of ", rows, " rows of ", width,
      " has no whole number of buckets of ", BucketRows(width), " rows"));
}

// How many buckets a variable of so many rows has.
inline uint64_t BucketCount(uint64_t rows, uint64_t width) {
  return std::max<uint64_t>(1, rows / BucketRows(width));
}

// The bucket, of so many, that a mixed key belongs to. Ascends with the key.
inline uint64_t BucketOf(uint64_t mixed, uint64_t buckets) {
  const auto wide = static_cast<unsigned __int128>(mixed) * buckets;
  return static_cast<uint64_t>(wide >> 64);
}

// Its first row, of a variable of so many rows.
inline uint64_t BucketBegin(uint64_t mixed, uint64_t rows, uint64_t width) {
  return BucketOf(mixed, BucketCount(rows, width)) * BucketRows(width);
}

// Where keys of the bucket `bucket`, one of `buckets`, lie in a variable of
// `rows` rows: the rows of its buckets that may have one of them.
inline RowRange RowsWithKeysOf(uint64_t bucket, uint64_t buckets, uint64_t rows,
                               uint64_t width) {
  // Mixed keys of a bucket are those from here on.
  const auto first_of = [buckets](uint64_t b) {
    return ((static_cast<unsigned __int128>(b) << 64) + buckets - 1) / buckets;
  };
  const auto first = static_cast<uint64_t>(first_of(bucket));
  const auto last = static_cast<uint64_t>(first_of(bucket + 1) - 1);
  return {BucketBegin(first, rows, width),
          BucketBegin(last, rows, width) + std::min(rows, BucketRows(width))};
}

}  // namespace paramd

#endif  // PARAMD_TENSOR_KEYED_ROWS_H_
