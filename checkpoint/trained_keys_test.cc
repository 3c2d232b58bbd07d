#include "checkpoint/trained_keys.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kWidth = 3;

// A table in memory, "t", of buckets of 8 rows.
class FakeTable : public TrainedTensors {
 public:
  // With room for so many keys.
  explicit FakeTable(uint64_t capacity)
      : rows_(RowsForKeys(capacity, kWidth)),
        keys_(rows_),
        used_(rows_),
        values_(rows_ * kWidth, 7) {}

  uint64_t rows() const { return rows_; }
  TrainedTable table() const { return {"t", rows_, kWidth}; }

  // Into the first free row of its bucket; false if there is none.
  bool Add(uint64_t key, uint64_t used) {
    const uint64_t begin = BucketBegin(MixKey(key), rows_, kWidth);
    const uint64_t end = begin + std::min(rows_, BucketRows(kWidth));
    for (uint64_t row = begin; row < end; ++row) {
      if (used_[row] != 0) continue;
      Set(row, key, used);
      return true;
    }
    return false;
  }

  void Set(uint64_t row, uint64_t key, uint64_t used) {
    keys_[row] = key;
    used_[row] = used;
    values_[row * kWidth] = static_cast<float>(key % 1000);
    values_[row * kWidth + 1] = static_cast<float>(used);
  }
  void SetValue(uint64_t element, float value) { values_[element] = value; }

  // By key: when it was used.
  std::map<uint64_t, uint64_t> content() const {
    std::map<uint64_t, uint64_t> content;
    for (uint64_t row = 0; row < rows_; ++row) {
      if (used_[row] != 0) content[keys_[row]] = used_[row];
    }
    return content;
  }
  uint64_t rows_read() const { return rows_read_; }

  std::vector<std::string> names() const override { return {"t"}; }
  absl::StatusOr<Tensor> Find(const std::string&) override {
    return Tensor{"F32", {rows_, kWidth}, "/file", /*keyed=*/true};
  }
  absl::Status Read(absl::Span<const Rows> wanted, BufferChain* out) override {
    for (const Rows& rows : wanted) {
      rows_read_ += rows.rows.end - rows.rows.begin;
      out->push_back(Buffer::Copy(AsBytes(absl::MakeConstSpan(values_).subspan(
          rows.rows.begin * kWidth,
          (rows.rows.end - rows.rows.begin) * kWidth))));
    }
    return absl::OkStatus();
  }
  absl::Status ReadKeys(const Rows& wanted, Keys* out) override {
    const auto [begin, end] = wanted.rows;
    out->keys.assign(keys_.begin() + begin, keys_.begin() + end);
    out->used.assign(used_.begin() + begin, used_.begin() + end);
    return absl::OkStatus();
  }

 private:
  const uint64_t rows_;
  std::vector<uint64_t> keys_;
  std::vector<uint64_t> used_;
  std::vector<float> values_;
  uint64_t rows_read_ = 0;
};

v1::Variable Keyed(uint64_t capacity) {
  v1::Variable variable;
  variable.set_name("job/t");
  variable.add_shape(RowsForKeys(capacity, kWidth));
  variable.add_shape(kWidth);
  variable.set_sparse(true);
  variable.set_keyed(true);
  return variable;
}

// What is handed to a server that owns these rows.
struct Taken {
  std::vector<float> values;
  std::vector<uint64_t> keys;
  std::vector<uint64_t> used;
};

absl::StatusOr<Taken> Take(FakeTable* from, uint64_t rows, RowRange wanted) {
  BufferChain chain;
  const absl::Status read =
      ReadRowsByKey(from->table(), rows, wanted, from, &chain);
  if (!read.ok()) return read;
  const uint64_t count = wanted.end - wanted.begin;
  Taken taken;
  taken.values.resize(count * kWidth);
  taken.keys.resize(count);
  taken.used.resize(count);
  ChainReader reader(chain);
  EXPECT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(taken.values))));
  EXPECT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(taken.keys))));
  EXPECT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(taken.used))));
  EXPECT_EQ(reader.remaining(), 0u);
  return taken;
}

class TrainedKeysTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { internal::cut.block_elements = 26; }
  static void TearDownTestSuite() { internal::cut = Cut(); }
};

// Each row that is taken, in its order: where the key lies and what it was.
void ExpectRowsOf(const FakeTable& from, const Taken& taken, uint64_t first,
                  uint64_t rows, std::map<uint64_t, uint64_t>* left) {
  const auto content = from.content();
  const uint64_t bucket = std::min(rows, BucketRows(kWidth));
  for (uint64_t i = 0; i < taken.keys.size(); ++i) {
    if (taken.used[i] == 0) {
      EXPECT_EQ(taken.keys[i], 0u);
      EXPECT_EQ(taken.values[i * kWidth], 0);
      continue;
    }
    const uint64_t key = taken.keys[i];
    EXPECT_EQ(taken.used[i], 1u);
    EXPECT_EQ(BucketBegin(MixKey(key), rows, kWidth),
              (first + i) / bucket * bucket);
    EXPECT_EQ(left->erase(key), 1u) << key;
    EXPECT_EQ(taken.values[i * kWidth], static_cast<float>(key % 1000));
    const auto last = static_cast<float>(content.at(key));
    EXPECT_EQ(taken.values[i * kWidth + 1], last);
    if (i % bucket == 0) continue;
    EXPECT_EQ(taken.used[i - 1], 1u) << "rows with a key come first";
    EXPECT_LE(taken.values[(i - 1) * kWidth + 1], last) << "the oldest first";
  }
}

TEST_F(TrainedKeysTest, EachKeyTakesItsRowIntoAnyCapacityInAnySlices) {
  for (const uint64_t there : {5, 8, 16, 56, 400}) {
    for (const uint64_t here : {7, 8, 24, 56, 104, 1000}) {
      const CounterRandom random(there * 1000 + here);
      FakeTable from(there);
      // Few enough for every bucket here.
      const uint64_t keys = std::min<uint64_t>(5, there) + here / 30;
      for (uint64_t k = 0; k < keys; ++k) {
        from.Add(random.Bits(k), 1 + random.Bits(1000 + k) % 100);
      }
      const v1::Variable variable = Keyed(here);
      const uint64_t rows = variable.shape(0);
      const auto fits = CheckKeysFit(from.table(), variable, &from);
      ASSERT_TRUE(fits.ok()) << there << " " << here << " " << fits.status();
      EXPECT_EQ(*fits, from.content().size());
      auto left = from.content();
      const uint64_t slice = std::min<uint64_t>(rows, 24);
      for (uint64_t begin = 0; begin < rows; begin += slice) {
        const RowRange wanted = {begin, std::min(rows, begin + slice)};
        const auto taken = Take(&from, rows, wanted);
        ASSERT_TRUE(taken.ok()) << taken.status();
        ExpectRowsOf(from, *taken, begin, rows, &left);
      }
      EXPECT_TRUE(left.empty()) << there << " to " << here;
    }
  }
}

// A full table has room in one of the same capacity, whoever evicted.
TEST_F(TrainedKeysTest, AFullTableHasRoomInOneOfTheSameCapacity) {
  FakeTable from(64);
  for (uint64_t key = 0; key < 1000; ++key) from.Add(key, key + 1);
  ASSERT_EQ(from.content().size(), 64u);
  EXPECT_EQ(*CheckKeysFit(from.table(), Keyed(64), &from), 64u);
  auto left = from.content();
  ExpectRowsOf(from, *Take(&from, 64, {0, 64}), 0, 64, &left);
  EXPECT_TRUE(left.empty());
}

TEST_F(TrainedKeysTest, OnlyBucketsThatMayHaveTheKeysAreRead) {
  FakeTable from(8000);
  for (uint64_t key = 0; key < 5000; ++key) from.Add(key, 1);
  ASSERT_TRUE(Take(&from, 16000, {8000, 8080}).ok());
  // A twentieth of a tenth, and what lies beside it.
  EXPECT_LE(from.rows_read(), 20 * 8u);
}

std::string Refusal(FakeTable* from, const v1::Variable& variable) {
  const absl::Status status =
      CheckKeysFit(from->table(), variable, from).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST_F(TrainedKeysTest, ATableThatIsTooSmallIsNamedWithBothNumbers) {
  FakeTable from(64);
  for (uint64_t key = 0; key < 1000; ++key) from.Add(key, 1);
  EXPECT_EQ(Refusal(&from, Keyed(5)),
            "'t' has 64 rows with a key; variable 'job/t' has room for 5: give "
            "it a capacity of 512");
  // 64 of 72 would fit, but not where they belong.
  EXPECT_THAT(Refusal(&from, Keyed(72)),
              HasSubstr("'t' has 64 rows with a key, 11 of them in one bucket; "
                        "variable 'job/t' has room for 72, 8 in a bucket: give "
                        "it a capacity of "));
}

// Those that are to stay without a key, for rows that move, are no room.
TEST_F(TrainedKeysTest, SpareRowsOfATableOnDiskAreNoRoom) {
  FakeTable from(64);
  for (uint64_t key = 0; key < 1000; ++key) from.Add(key, 1);
  v1::Variable variable = Keyed(64);
  variable.set_memory_rows(32);
  EXPECT_THAT(Refusal(&from, variable), HasSubstr("has room for 56: "));
}

TEST_F(TrainedKeysTest, AKeyInAnotherBucketIsNoTableOfOurs) {
  FakeTable from(64);
  const uint64_t own = BucketBegin(MixKey(17), 64, kWidth);
  const uint64_t other = own == 0 ? 8 : 0;
  from.Set(other + 1, 17, 1);
  EXPECT_THAT(
      Refusal(&from, Keyed(64)),
      HasSubstr("'t' has the key 17 in row " + std::to_string(other + 1) +
                ", which belongs into rows [" + std::to_string(own)));
}

TEST_F(TrainedKeysTest, WhatNoRowCanBeginWithIsNamed) {
  FakeTable twice(8);
  twice.Set(1, 17, 1);
  twice.Set(3, 17, 2);
  EXPECT_EQ(Take(&twice, 8, {0, 8}).status().message(),
            "'t' has two rows of the key 17");
  FakeTable infinite(8);
  infinite.Set(2, 17, 1);
  infinite.SetValue(7, INFINITY);
  EXPECT_EQ(Take(&infinite, 8, {0, 8}).status().message(),
            "'t' in '/file' is infinite at row 2, element 1: nothing can be "
            "trained from it");
  FakeTable from(8);
  EXPECT_EQ(Take(&from, 64, {4, 12}).status().message(),
            "rows [4, 12) are not whole buckets of 8");
}

}  // namespace
}  // namespace paramd
