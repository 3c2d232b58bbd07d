#include "server/core/key_table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A block's columns, and a table over them.
class TableRows {
 public:
  explicit TableRows(size_t count)
      : keys_(count), used_(count), sketch_(count), content_(count) {}

  KeyTable::Columns columns() {
    return {absl::MakeSpan(keys_), absl::MakeSpan(used_),
            absl::MakeSpan(sketch_)};
  }

  // The rows of these keys, in their order, after a push that names them.
  std::vector<uint32_t> Push(const std::vector<uint64_t>& keys,
                             const KeyPolicy& policy = {}) {
    std::vector<uint32_t> rows(keys.size());
    fresh_.clear();
    std::vector<KeyTable::Move> moves;
    table_.FindOrCreate(Mixed(keys), ++now_, policy, columns(),
                        absl::MakeSpan(rows), &fresh_, &moves, &counts_);
    for (const auto& [from, to] : moves) content_[to] = content_[from];
    for (const size_t i : fresh_) content_[rows[i]] = keys[i];
    for (size_t i = 0; i < keys.size(); ++i) {
      if (rows[i] == kNoRow) continue;
      EXPECT_EQ(content_[rows[i]], keys[i]);
    }
    moves_ += moves.size();
    return rows;
  }
  std::vector<uint32_t> Find(const std::vector<uint64_t>& keys) {
    std::vector<uint32_t> rows(keys.size());
    table_.Find(Mixed(keys), columns(), absl::MakeSpan(rows));
    return rows;
  }
  // As after a restore.
  void Forget() { table_ = KeyTable(); }

  size_t size() { return table_.size(columns()); }
  const std::vector<size_t>& fresh() const { return fresh_; }
  const TableCounts& counts() const { return counts_; }
  const std::vector<uint64_t>& keys() const { return keys_; }
  const std::vector<uint64_t>& used() const { return used_; }
  uint64_t now() const { return now_; }
  size_t moves() const { return moves_; }

 private:
  static std::vector<uint64_t> Mixed(const std::vector<uint64_t>& keys) {
    std::vector<uint64_t> mixed;
    for (const uint64_t key : keys) mixed.push_back(MixKey(key));
    return mixed;
  }

  std::vector<uint64_t> keys_;
  std::vector<uint64_t> used_;
  std::vector<uint64_t> sketch_;
  std::vector<uint64_t> content_;  // Each key's is its own.
  size_t moves_ = 0;
  KeyTable table_;
  uint64_t now_ = 0;
  std::vector<size_t> fresh_;
  TableCounts counts_;
};

TEST(KeyTableTest, AKeyGetsTheFirstFreeRowAndKeepsIt) {
  TableRows rows(4);
  EXPECT_THAT(rows.Find({7}), ElementsAre(kNoRow));
  EXPECT_THAT(rows.Push({7, 0}), ElementsAre(0, 1));
  EXPECT_THAT(rows.fresh(), ElementsAre(0, 1));
  EXPECT_THAT(rows.Push({0, ~uint64_t{0}, 7}), ElementsAre(1, 2, 0));
  EXPECT_THAT(rows.fresh(), ElementsAre(1));
  EXPECT_THAT(rows.Find({7, 1, 0}), ElementsAre(0, kNoRow, 1));
  EXPECT_EQ(rows.size(), 3);
  EXPECT_THAT(rows.used(), ElementsAre(2, 2, 2, 0));
}

TEST(KeyTableTest, TheRowUnusedForLongestIsTaken) {
  TableRows rows(3);
  rows.Push({1, 2, 3});
  rows.Push({1});
  EXPECT_THAT(rows.Push({4}), ElementsAre(1));
  EXPECT_THAT(rows.Find({2, 3, 1, 4}), ElementsAre(kNoRow, 2, 0, 1));
  // One of the same push is never taken.
  EXPECT_THAT(rows.Push({5, 3, 6, 7}), ElementsAre(0, 2, 1, kNoRow));
  EXPECT_EQ(rows.counts().created, 6);
  EXPECT_EQ(rows.counts().evicted, 3);
  EXPECT_EQ(rows.counts().ignored, 1);
}

TEST(KeyTableTest, WithoutEvictionANewKeyGetsNothing) {
  TableRows rows(2);
  EXPECT_THAT(rows.Push({1, 2}, {.evicts = false}), ElementsAre(0, 1));
  EXPECT_THAT(rows.Push({3, 2}, {.evicts = false}), ElementsAre(kNoRow, 1));
  EXPECT_THAT(rows.fresh(), IsEmpty());
  EXPECT_EQ(rows.counts().ignored, 1);
  EXPECT_THAT(rows.Find({1, 3}), ElementsAre(0, kNoRow));
}

TEST(KeyTableTest, AKeyGetsARowWithTheGradientThatAdmitsIt) {
  TableRows rows(4);
  const KeyPolicy third = {.admit_after = 3};
  EXPECT_THAT(rows.Push({1, 2}, third), ElementsAre(kNoRow, kNoRow));
  EXPECT_THAT(rows.Push({1}, third), ElementsAre(kNoRow));
  rows.Forget();
  EXPECT_THAT(rows.Push({1, 2}, third), ElementsAre(0, kNoRow));
  EXPECT_THAT(rows.fresh(), ElementsAre(0));
  EXPECT_THAT(rows.Push({2}, third), ElementsAre(1));
  EXPECT_EQ(rows.counts().not_admitted, 4);
  EXPECT_EQ(rows.counts().created, 2);
  EXPECT_EQ(rows.counts().ignored, 0);
}

TEST(KeyTableTest, ARowThatNothingNamesAnyMoreIsGivenUp) {
  TableRows rows(3);
  const KeyPolicy policy = {.evicts = false, .expire_after = 2};
  EXPECT_THAT(rows.Push({1, 2, 3}, policy), ElementsAre(0, 1, 2));
  EXPECT_THAT(rows.Push({2}, policy), ElementsAre(1));
  EXPECT_THAT(rows.Push({2, 4}, policy), ElementsAre(1, kNoRow));
  // The third without 1 and 3. Both are looked at: there are few rows.
  EXPECT_THAT(rows.Push({2}, policy), ElementsAre(1));
  rows.Push({2}, policy);
  rows.Push({2}, policy);
  EXPECT_EQ(rows.counts().expired, 2);
  EXPECT_EQ(rows.size(), 1);
  EXPECT_THAT(rows.Find({1, 2, 3}), ElementsAre(kNoRow, 1, kNoRow));
  EXPECT_THAT(rows.Push({3, 5, 6}, policy), ElementsAre(0, 2, kNoRow));
}

TEST(KeyTableTest, EachExpiredRowIsFoundWithinOneSweep) {
  for (const size_t count : {1, 63, 64, 65, 1000}) {
    TableRows rows(count);
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < count; ++key) keys.push_back(key);
    const KeyPolicy policy = {.expire_after = 10};
    rows.Push(keys, policy);
    for (size_t i = 0; i < 10 + KeyTable::kSweep; ++i) rows.Push({0}, policy);
    EXPECT_EQ(rows.size(), 1) << count;
    EXPECT_EQ(rows.counts().expired, count - 1);
  }
}

// What the header promises, written down plainly.
class Model {
 public:
  explicit Model(size_t count, size_t fast = 0)
      : fast_(fast > 0 && fast < count ? fast : count),
        spare_(fast_ < count ? SpareRowsFor(fast_) : 0),
        keys_(count),
        used_(count) {}

  std::vector<uint32_t> Push(const std::vector<uint64_t>& keys, uint64_t now) {
    now_ = now;
    std::vector<uint32_t> rows;
    for (const uint64_t key : keys) {
      const auto found = rows_.find(key);
      rows.push_back(found == rows_.end() ? kNoRow : found->second);
      if (found != rows_.end()) used_[found->second] = now;
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      if (rows[i] == kNoRow) {
        rows[i] = Create(keys[i]);
      } else if (rows[i] >= fast_) {
        const uint32_t to = TakeFast();
        if (to == kNoRow) continue;
        Move(rows[i], to);
        rows[i] = to;
      }
    }
    return rows;
  }
  const std::vector<uint64_t>& used() const { return used_; }

 private:
  // Of rows [begin, end), of those that `may`.
  template <typename May>
  uint32_t Earliest(size_t begin, size_t end, const May& may) const {
    uint32_t first = kNoRow;
    for (size_t row = begin; row < end; ++row) {
      if (!may(used_[row])) continue;
      if (first == kNoRow || used_[row] < used_[first]) {
        first = static_cast<uint32_t>(row);
      }
    }
    return first;
  }
  uint32_t Free(size_t begin, size_t end) const {
    return Earliest(begin, end, [](uint64_t used) { return used == 0; });
  }
  uint32_t Oldest(size_t end) const {
    return Earliest(0, end,
                    [&](uint64_t used) { return used > 0 && used < now_; });
  }

  uint32_t Create(uint64_t key) {
    if (keys_.size() - rows_.size() <= spare_) {
      const uint32_t oldest = Oldest(keys_.size());
      if (oldest == kNoRow) return kNoRow;
      rows_.erase(keys_[oldest]);
      used_[oldest] = 0;
    }
    uint32_t row = TakeFast();
    if (row == kNoRow) row = Free(fast_, keys_.size());
    rows_[key] = row;
    keys_[row] = key;
    used_[row] = now_;
    return row;
  }
  uint32_t TakeFast() {
    if (Free(0, fast_) == kNoRow) {
      for (size_t i = 0; i < spare_; ++i) {
        const uint32_t oldest = Oldest(fast_);
        if (oldest != kNoRow) Move(oldest, Free(fast_, keys_.size()));
      }
    }
    return Free(0, fast_);
  }
  void Move(uint32_t from, uint32_t to) {
    rows_[keys_[from]] = to;
    keys_[to] = keys_[from];
    used_[to] = std::exchange(used_[from], 0);
  }

  const size_t fast_;
  const size_t spare_;
  uint64_t now_ = 0;
  std::map<uint64_t, uint32_t> rows_;
  std::vector<uint64_t> keys_;
  std::vector<uint64_t> used_;
};

TEST(KeyTableTest, KeysOfAGradientGetFastRows) {
  TableRows rows(8);
  const KeyPolicy policy = {.fast_rows = 4};  // One is spare.
  EXPECT_THAT(rows.Push({1, 2, 3, 4}, policy), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(rows.Push({5, 2}, policy), ElementsAre(0, 1));
  EXPECT_THAT(rows.Find({1, 2, 3, 4, 5}), ElementsAre(4, 1, 2, 3, 0));
  EXPECT_THAT(rows.Push({1}, policy), ElementsAre(2));
  EXPECT_THAT(rows.Find({1, 2, 3, 4, 5}), ElementsAre(2, 1, 5, 3, 0))
      << "the third was unused for longest";
  // More than there are fast rows.
  EXPECT_THAT(rows.Push({1, 2, 3, 4, 5, 6, 7}, policy),
              ElementsAre(2, 1, 5, 3, 0, 4, 6));
  EXPECT_EQ(rows.counts().created, 7);
  EXPECT_EQ(rows.counts().evicted, 0);
  EXPECT_THAT(rows.Push({8}, policy), ElementsAre(0));
  EXPECT_EQ(rows.counts().evicted, 1) << "a spare one stays";
}

// As of a checkpoint that was written when all rows were fast.
TEST(KeyTableTest, ATableWithoutSpareRowsGetsThem) {
  TableRows rows(16);
  std::vector<uint64_t> keys(16);
  std::iota(keys.begin(), keys.end(), 0);
  rows.Push(keys);
  EXPECT_EQ(rows.size(), 16);
  rows.Forget();
  const KeyPolicy policy = {.fast_rows = 8};  // Two are spare.
  EXPECT_THAT(rows.Push({12}, policy), ElementsAre(12)) << "none can move";
  EXPECT_THAT(rows.Push({20}, policy), ElementsAre(0));
  EXPECT_EQ(rows.counts().evicted, 2);
  EXPECT_THAT(rows.Push({12, 21}, policy), ElementsAre(1, 2));
  EXPECT_EQ(rows.counts().evicted, 4);
  EXPECT_EQ(rows.size(), 14);
  EXPECT_THAT(rows.Push({22}, policy), ElementsAre(3));
  EXPECT_EQ(rows.size(), 14) << "two stay spare";
}

TEST(KeyTableTest, EqualsThePlainDescription) {
  size_t moves = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    RandomStream random(seed);
    const size_t count = 1 + random.Below(200);
    const uint64_t universe = 1 + count / 2 + random.Below(3 * count);
    const KeyPolicy policy = {.fast_rows =
                                  seed % 2 == 0 ? 0 : random.Below(count)};
    TableRows rows(count);
    Model model(count, policy.fast_rows);
    for (int push = 0; push < 100; ++push) {
      std::vector<uint64_t> keys;
      const size_t wanted = random.Below(std::min<uint64_t>(universe, 40) + 1);
      while (keys.size() < wanted) {
        const uint64_t key = random.Below(universe) * 0x9e3779b97f4a7c15;
        if (std::count(keys.begin(), keys.end(), key) == 0) keys.push_back(key);
      }
      const std::vector<uint32_t> got = rows.Push(keys, policy);
      ASSERT_EQ(got, model.Push(keys, rows.now())) << "seed " << seed;
      ASSERT_EQ(rows.used(), model.used()) << "seed " << seed;
      ASSERT_EQ(rows.Find(keys), got) << "seed " << seed;
      if (random.Chance(0.1)) rows.Forget();
    }
    const auto in_use = std::count_if(model.used().begin(), model.used().end(),
                                      [](uint64_t used) { return used > 0; });
    EXPECT_EQ(rows.size(), in_use);
    moves += rows.moves();
  }
  EXPECT_GT(moves, 10000);
}

// However much is remembered of them, expired rows are given away as an index
// that is made anew each time gives them away.
TEST(KeyTableTest, RowsThatExpiredFollowFromTheNumbersAlone) {
  uint64_t expired = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomStream random(seed);
    const size_t count = 1 + random.Below(400);
    const uint64_t universe = 1 + random.Below(2 * count);
    const KeyPolicy policy = {
        .evicts = random.Chance(0.5),
        .admit_after = static_cast<uint32_t>(random.Below(3)),
        .expire_after = 1 + random.Below(60),
        .fast_rows = random.Below(count)};
    TableRows rows(count);
    TableRows forgetful(count);
    for (int push = 0; push < 300; ++push) {
      std::vector<uint64_t> keys;
      const size_t wanted = random.Below(std::min<uint64_t>(universe, 20)) + 1;
      while (keys.size() < wanted) {
        const uint64_t key = random.Below(universe);
        if (std::count(keys.begin(), keys.end(), key) == 0) keys.push_back(key);
      }
      forgetful.Forget();
      ASSERT_EQ(rows.Push(keys, policy), forgetful.Push(keys, policy))
          << "seed " << seed;
      ASSERT_EQ(rows.used(), forgetful.used()) << "seed " << seed;
      ASSERT_EQ(rows.keys(), forgetful.keys()) << "seed " << seed;
    }
    EXPECT_EQ(rows.size(), forgetful.size());
    expired += rows.counts().expired;
  }
  EXPECT_GT(expired, 10000);
}

}  // namespace
}  // namespace paramd
