#include "server/core/lost_pushes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::Pair;

// Life 1.20 of ps-3; sessions of it are 1.1 to 1.19.
class LostPushesTest : public ::testing::Test {
 protected:
  LostPushesTest() { lost_.Begin(3, Pair(1, 20)); }

  // Slice `variable` of the checkpoint of run "run", with this record of
  // worker 1.
  void AddSlice(const std::string& variable, uint64_t counter,
                uint64_t sequence) {
    v1::SavedSlice saved;
    saved.set_variable(variable);
    v1::PushRecord* const record = saved.add_records();
    record->set_worker(1);
    *record->mutable_generation() = Pair(1, counter);
    record->set_sequence(sequence);
    *content_.add_slices()->add_pieces()->mutable_saved() = saved;
  }
  // A file of the checkpoint that has slice `variable` and lists these.
  v1::ShardFile* AddFile(const std::string& variable) {
    v1::ShardFile* const file = content_.mutable_manifest()->add_files();
    file->set_name(variable);
    file->add_slices()->set_variable(variable);
    return file;
  }
  static void AddLost(uint64_t from, uint64_t to, v1::ShardFile* file) {
    v1::LostPushes* const lost = file->add_lost();
    lost->set_worker(1);
    *lost->mutable_generation() = Pair(1, 7);
    lost->set_from(from);
    lost->set_to(to);
    lost->set_server(3);
    *lost->mutable_server_generation() = Pair(1, 10);
  }
  void Restore() {
    content_.mutable_manifest()->set_run_id("run");
    lost_.Restore(content_, "run");
  }
  absl::optional<v1::LostPushes> Hear(uint64_t counter, uint64_t acknowledged) {
    return lost_.Hear(1, Pair(1, counter), acknowledged);
  }
  std::string Saved() const {
    LostPushes::List list;
    lost_.Save(&list);
    std::string text;
    for (const v1::LostPushes& lost : list) {
      absl::StrAppend(&text, VersionName(lost.generation()), ":", lost.from(),
                      "-", lost.to(), "@",
                      VersionName(lost.server_generation()), " ");
    }
    return text;
  }

  v1::ReadSlicesResult content_;
  LostPushes lost_;
};

// Each window of a file brings its manifest along.
TEST_F(LostPushesTest, Promise1_AFileThatIsReadInWindowsCountsOnce) {
  AddSlice("a", 7, 80);
  v1::ShardFile* const file = AddFile("a");
  v1::LostPushes* const nameless = file->add_lost();
  nameless->set_from(1);
  nameless->set_to(40);
  for (size_t i = 0; i < LostPushes::kMostKept; ++i) {
    AddLost(2 * i + 1, 2 * i + 1, file);
  }
  Restore();
  Restore();
  EXPECT_EQ(lost_.total(), 40 + LostPushes::kMostKept);
  // For another life of the server it does again.
  lost_.Begin(3, Pair(1, 21));
  Restore();
  EXPECT_EQ(lost_.total(), 40 + LostPushes::kMostKept);
}

TEST_F(LostPushesTest, Promise1_WhatIsAcknowledgedAndNotRestoredIsLost) {
  AddSlice("a", 7, 80);
  Restore();
  const auto lost = Hear(7, 100);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->worker(), 1u);
  EXPECT_EQ(lost->generation(), Pair(1, 7));
  EXPECT_EQ(lost->from(), 81u);
  EXPECT_EQ(lost->to(), 100u);
  EXPECT_EQ(lost->server(), 3u);
  EXPECT_EQ(lost->server_generation(), Pair(1, 20));
  EXPECT_EQ(lost_.total(), 20u);
  EXPECT_EQ(Saved(), "1.7:81-100@1.20 ");
}

TEST_F(LostPushesTest, OnlyTheFirstWordOfASessionCounts) {
  Restore();
  EXPECT_TRUE(Hear(7, 5).has_value());
  // Its pushes since are here.
  EXPECT_FALSE(Hear(7, 60).has_value());
  EXPECT_EQ(Saved(), "1.7:1-5@1.20 ");
}

TEST_F(LostPushesTest, ASessionThatLostNothingIsSavedAsHeard) {
  AddSlice("a", 7, 80);
  Restore();
  EXPECT_FALSE(Hear(7, 80).has_value());
  EXPECT_FALSE(Hear(7, 99).has_value());
  EXPECT_EQ(lost_.total(), 0u);
  EXPECT_EQ(Saved(), "1.7:81-80@1.20 ");
}

TEST_F(LostPushesTest, ASessionThatIsNewerThanThisLifeLosesNothing) {
  Restore();
  EXPECT_FALSE(Hear(20, 5).has_value());
  EXPECT_FALSE(Hear(21, 5).has_value());
  EXPECT_EQ(Saved(), "");
}

TEST_F(LostPushesTest, TheRecordOfAnEarlierSessionSaysNothing) {
  AddSlice("a", 6, 80);
  Restore();
  EXPECT_EQ(Hear(7, 3)->from(), 1u);
}

// A push that was given up may have reached one slice and not another; one that
// was acknowledged is in all.
TEST_F(LostPushesTest, TheNewestRecordOfAllSlicesCounts) {
  AddSlice("a", 7, 80);
  AddSlice("b", 7, 81);
  AddSlice("c", 7, 80);
  Restore();
  EXPECT_EQ(Hear(7, 90)->from(), 82u);
}

TEST_F(LostPushesTest, Promise1_WhatTheCheckpointListsAsLostStaysListed) {
  AddSlice("a", 7, 80);
  AddLost(71, 75, AddFile("a"));
  AddLost(1, 9, AddFile("elsewhere"));
  Restore();
  EXPECT_EQ(lost_.total(), 5u);
  EXPECT_EQ(Saved(), "1.7:71-75@1.10 ");
  EXPECT_EQ(Hear(7, 82)->from(), 81u);
  EXPECT_EQ(lost_.total(), 7u);
}

TEST_F(LostPushesTest, WhatTwoFilesListIsKeptOnce) {
  AddSlice("a", 7, 80);
  AddSlice("b", 7, 80);
  AddLost(71, 75, AddFile("a"));
  AddLost(71, 75, AddFile("b"));
  Restore();
  EXPECT_EQ(lost_.total(), 5u);
}

TEST_F(LostPushesTest, WhatIsListedIsNotLostAgain) {
  AddSlice("a", 7, 80);
  AddLost(81, 90, AddFile("a"));
  Restore();
  EXPECT_EQ(Hear(7, 93)->from(), 91u);
  EXPECT_EQ(lost_.total(), 13u);
}

TEST_F(LostPushesTest, SessionsThatWereOnlyHeardAreNotKept) {
  AddSlice("a", 7, 80);
  AddLost(81, 80, AddFile("a"));
  Restore();
  EXPECT_EQ(Saved(), "");
}

TEST_F(LostPushesTest, OfAnotherRunNothingIsKept) {
  AddSlice("a", 7, 80);
  AddLost(71, 75, AddFile("a"));
  content_.mutable_manifest()->set_run_id("another");
  lost_.Restore(content_, "run");
  EXPECT_EQ(Saved(), "");
  EXPECT_EQ(Hear(7, 2)->from(), 1u);
}

TEST_F(LostPushesTest, ANewLifeBeginsWithNothing) {
  AddSlice("a", 7, 80);
  Restore();
  Hear(7, 100);
  lost_.Begin(3, Pair(1, 30));
  EXPECT_EQ(lost_.total(), 0u);
  EXPECT_EQ(Hear(7, 4)->from(), 1u);
}

TEST_F(LostPushesTest, Promise8_ListedLossesAreBoundedAndNoneIsForgotten) {
  AddSlice("a", 7, 1);
  v1::ShardFile* const file = AddFile("a");
  for (uint64_t n = 1; n <= LostPushes::kMostKept + 3; ++n) {
    AddLost(2 * n, 2 * n + 1, file);
  }
  Restore();
  EXPECT_EQ(lost_.total(), 2 * (LostPushes::kMostKept + 3));
  LostPushes::List list;
  lost_.Save(&list);
  ASSERT_EQ(list.size(), static_cast<int>(LostPushes::kMostKept) + 1);
  EXPECT_EQ(list[0].to(), 6u);
  EXPECT_EQ(list[1].from(), 8u);
  // And the one number stays when that is restored.
  *file->mutable_lost() = list;
  lost_.Begin(3, Pair(1, 30));
  Restore();
  EXPECT_EQ(lost_.total(), 2 * (LostPushes::kMostKept + 3));
}

}  // namespace
}  // namespace paramd
