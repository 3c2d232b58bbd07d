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

TEST_F(RestorableTest, RowsByKeyAreTakenIntoAnotherCapacity) {
  v1::Variable table = SampleVariable("table", {40, 4});
  table.set_sparse(true);
  table.set_keyed(true);
  const std::string path =
      *CommitSample(root_, {w_, table}, {"key", "used"}, 1, 1, 10, 1, 1 << 20);
  find_.clear_variables();
  *find_.add_variables() = w_;
  table.set_shape(0, 50);
  *find_.add_variables() = table;
  EXPECT_TRUE(
      absl::IsInvalidArgument(FindRestorable(find_, &directory_).status()));
  find_.set_allow_missing("table");
  const auto found = FindRestorable(find_, &directory_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->warm_start().path(), path);
  // The rows there are not dropped because the variable may differ.
  find_.mutable_variables(1)->set_shape(0, 30);
  const absl::Status full = FindRestorable(find_, &directory_).status();
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("'table' has 39 rows with a key; variable 'table' has "
                        "room for 30"));
}

TEST_F(RestorableTest, WithoutACheckpointNothingIsFound) {
  EXPECT_FALSE(FindRestorable(find_, &directory_)->has_manifest());
}

}  // namespace
}  // namespace paramd
