#include "coordinator/restorable.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/testing/sample.h"

namespace paramd {
namespace {

using testing::CommitSample;
using ::testing::HasSubstr;
using testing::SampleVariable;

// A job of "w" and "head", in whose directory checkpoints come to lie.
class RestorableTest : public ::testing::Test {
 protected:
  RestorableTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/restorable/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        directory_(root_, /*nonce=*/1) {
    std::filesystem::remove_all(root_);
    *find_.add_variables() = w_;
    *find_.add_variables() = head_;
    find_.set_allow_missing("head");
  }

  std::string Commit(uint64_t counter,
                     const std::vector<v1::Variable>& variables) {
    const auto path = CommitSample(root_, variables, {}, 1, counter,
                                   10 * counter, 1, 1 << 20);
    EXPECT_TRUE(path.ok()) << path.status();
    return *path;
  }
  // A number of it is another one, which only its checksum says.
  static void Damage(const std::string& path) {
    std::fstream file(path + "/ps-00001-of-00001.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-2, std::ios::end);
    file.put('!');
  }

  const v1::Variable w_ = SampleVariable("w", {6, 2});
  const v1::Variable head_ = SampleVariable("head", {3});
  const std::string root_;
  CheckpointDirectory directory_;
  v1::FindCheckpoint find_;
};

TEST_F(RestorableTest, OfOtherVariablesTheValuesAreTaken) {
  const std::string path = Commit(1, {w_});
  const auto found = FindRestorable(find_, &directory_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path(), path);
  EXPECT_TRUE(found->has_manifest());
  EXPECT_EQ(found->warm_start().path(), path);
  EXPECT_EQ(found->warm_start().allow_missing(), "head");
}

TEST_F(RestorableTest, Promise3_ADamagedOneOfOtherVariablesIsPassedOver) {
  const std::string old = Commit(1, {w_});
  Damage(Commit(2, {w_}));
  const auto found = FindRestorable(find_, &directory_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path(), old);
  EXPECT_EQ(found->manifest().snapshot().counter(), 1u);
  EXPECT_EQ(found->warm_start().path(), old);
}

TEST_F(RestorableTest, AnOlderOneWithAllVariablesIsRestored) {
  const std::string old = Commit(1, {w_, head_});
  Damage(Commit(2, {w_}));
  const auto found = FindRestorable(find_, &directory_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path(), old);
  EXPECT_FALSE(found->has_warm_start());
}

TEST_F(RestorableTest, IfNoneIsLeftTheNewestsFaultIsSaid) {
  Damage(Commit(1, {w_}));
  Damage(Commit(2, {w_}));
  const absl::Status status = FindRestorable(find_, &directory_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("000001-00000002.step-20/ps-00001-of-00001.safetensors'"
                        " has the crc32c"));
}

TEST_F(RestorableTest, WhatTheNewestLacksIsAMistakeAndNoReasonForAnOlderOne) {
  Commit(1, {w_, head_});
  Commit(2, {head_});
  const absl::Status status = FindRestorable(find_, &directory_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'w'"));
}

TEST_F(RestorableTest, OfTheSameVariablesServersCheckTheSums) {
  const std::string path = Commit(1, {w_, head_});
  Damage(path);
  const auto found = FindRestorable(find_, &directory_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path(), path);
  EXPECT_FALSE(found->has_warm_start());
}

class RestorableTableTest : public RestorableTest {
 protected:
  // A checkpoint of a table of 40 rows, of which 39 have a key.
  std::string CommitTable(uint64_t counter = 1) {
    const auto path = CommitSample(root_, {w_, Table(40)}, {"key", "used"}, 1,
                                   counter, 10 * counter, 1, 1 << 20);
    EXPECT_TRUE(path.ok()) << path.status();
    return *path;
  }
  static v1::Variable Table(uint64_t rows) {
    v1::Variable table = SampleVariable("table", {rows, 4});
    table.set_sparse(true);
    table.set_keyed(true);
    return table;
  }
  // For a job whose table has so many.
  absl::StatusOr<v1::FindCheckpointResult> Find(uint64_t rows,
                                                uint64_t memory_rows = 0) {
    find_.clear_variables();
    *find_.add_variables() = w_;
    *find_.add_variables() = Table(rows);
    find_.mutable_variables(1)->set_memory_rows(memory_rows);
    return FindRestorable(find_, &directory_);
  }
};

TEST_F(RestorableTableTest, ATableOfAnotherCapacityIsRestoredIfItHasRoom) {
  const std::string path = CommitTable();
  for (const std::string allowed : {"", "head", "table"}) {
    find_.set_allow_missing(allowed);
    for (const uint64_t rows : {39, 50}) {
      const auto found = Find(rows);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->path(), path);
      EXPECT_FALSE(found->has_warm_start()) << "slots are taken too";
    }
    // None of the rows there is dropped.
    const absl::Status full = Find(30).status();
    EXPECT_TRUE(absl::IsInvalidArgument(full)) << full;
    EXPECT_EQ(full.message(),
              absl::StrCat("checkpoint '", path,
                           "': 'table' has 39 rows with a key; variable "
                           "'table' has room for 30: give it a capacity of "
                           "39"));
  }
}

TEST_F(RestorableTableTest, SpareRowsOfATableOnDiskAreNoRoom) {
  CommitTable();
  EXPECT_TRUE(Find(40).ok());
  EXPECT_THAT(std::string(Find(40, /*memory_rows=*/20).status().message()),
              HasSubstr("'table' has room for 35: "));
}

TEST_F(RestorableTableTest, Promise3_WhatIsDamagedSaysNothingOfTheRoom) {
  find_.set_allow_missing("");
  const std::string old = CommitTable(1);
  const std::string newest = CommitTable(2);
  Damage(newest);  // The use of the last row.
  // It may have room; servers will find what is wrong.
  EXPECT_EQ(Find(50)->path(), newest);
  const absl::Status full = Find(30).status();
  EXPECT_TRUE(absl::IsInvalidArgument(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr(old));
}

TEST_F(RestorableTableTest, BesideOtherVariablesItsValuesAreTaken) {
  find_.set_allow_missing("head");
  const std::string path = CommitTable();
  find_.clear_variables();
  *find_.add_variables() = w_;
  *find_.add_variables() = Table(50);
  *find_.add_variables() = head_;
  const auto found = FindRestorable(find_, &directory_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->warm_start().path(), path);
}

TEST_F(RestorableTest, WithoutACheckpointNothingIsFound) {
  EXPECT_FALSE(FindRestorable(find_, &directory_)->has_manifest());
}

}  // namespace
}  // namespace paramd
