#include "coordinator/core/loss_report.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::Pair;

v1::LostPushes Lost(uint32_t worker, uint64_t generation, uint64_t from,
                    uint64_t to, uint64_t server_generation = 20) {
  v1::LostPushes lost;
  lost.set_worker(worker);
  *lost.mutable_generation() = Pair(1, generation);
  lost.set_from(from);
  lost.set_to(to);
  lost.set_server(0);
  *lost.mutable_server_generation() = Pair(1, server_generation);
  return lost;
}

LossReport::List ListOf(std::initializer_list<v1::LostPushes> all) {
  LossReport::List list;
  for (const v1::LostPushes& lost : all) *list.Add() = lost;
  return list;
}

v1::SavedSession At(uint32_t worker, uint64_t generation, uint64_t sequence) {
  v1::SavedSession session;
  session.set_worker(worker);
  *session.mutable_generation() = Pair(1, generation);
  session.set_sequence(sequence);
  return session;
}

// Server 0, whose life 1.20 is to restore a checkpoint that has push 80 of
// session 1.7 of worker 1.
class LossReportTest : public ::testing::Test {
 protected:
  LossReportTest() {
    Seal({At(1, 7, 80)});
    v1::Manifest first;
    AddFile(1, &first);
    AddRecord(7, 79, &first);
    AddRecord(7, 80, &first);
    EXPECT_TRUE(report_.Complete(&first).empty());
    report_.Committed();
    report_.Restoring(0, Pair(1, 20));
    AddFile(20, &manifest_);
  }

  // The next snapshot.
  void Seal(std::vector<v1::SavedSession> present) {
    report_.Sealing(Pair(1, ++snapshots_), std::move(present));
  }
  static void AddFile(uint64_t generation, v1::Manifest* manifest) {
    v1::ShardFile* const file = manifest->add_files();
    *file->mutable_server_generation() = Pair(1, generation);
    file->add_slices();
  }
  static void AddRecord(uint64_t generation, uint64_t sequence,
                        v1::Manifest* manifest) {
    v1::PushRecord* const record =
        manifest->mutable_files(0)->add_slices()->add_records();
    record->set_worker(1);
    *record->mutable_generation() = Pair(1, generation);
    record->set_sequence(sequence);
  }
  // Of a manifest: what is listed as lost.
  static std::string Listed(const v1::Manifest& manifest) {
    std::string text;
    for (const v1::LostPushes& lost : manifest.files(0).lost()) {
      absl::StrAppend(&text, lost.worker(), "/", lost.generation().counter(),
                      ":", lost.from(), "-", lost.to(), "@",
                      lost.server_generation().counter(), " ");
    }
    return text;
  }

  uint64_t snapshots_ = 0;
  LossReport report_;
  v1::Manifest manifest_;
};

TEST_F(LossReportTest, WhatServersTellIsSummedUp) {
  report_.Told(0, Pair(1, 20), ListOf({Lost(1, 7, 81, 90), Lost(2, 8, 1, 3)}));
  report_.Told(1, Pair(1, 2), ListOf({Lost(1, 3, 5, 5)}));
  EXPECT_EQ(report_.pushes(), 14u);
  // A server always says all that it knows.
  report_.Told(0, Pair(1, 20), ListOf({Lost(1, 7, 81, 91)}));
  EXPECT_EQ(report_.pushes(), 12u);
}

TEST_F(LossReportTest, AServerWithoutAPartOfAnyVariableHasLostNothing) {
  v1::Manifest empty = manifest_;
  empty.mutable_files(0)->clear_slices();
  Seal({At(1, 7, 100)});
  EXPECT_TRUE(report_.Complete(&empty).empty());
  EXPECT_EQ(Listed(empty), "");
  EXPECT_EQ(report_.Complete(&manifest_).size(), 1u);
}

TEST_F(LossReportTest, APushThatSeveralLivesLostCountsOnce) {
  report_.Told(0, Pair(1, 20), ListOf({Lost(1, 7, 81, 90)}));
  report_.Told(1, Pair(1, 21),
               ListOf({Lost(1, 7, 85, 95), Lost(1, 7, 90, 92)}));
  EXPECT_EQ(report_.pushes(), 15u);
}

TEST_F(LossReportTest, Promise1_ASessionThatStoppedPushingIsAddedByItsCut) {
  Seal({At(1, 7, 100)});
  const auto added = report_.Complete(&manifest_);
  ASSERT_EQ(added.size(), 1u);
  EXPECT_EQ(added[0].server(), 0u);
  EXPECT_EQ(Listed(manifest_), "1/7:81-100@20 ");
  EXPECT_EQ(report_.pushes(), 20u);
}

TEST_F(LossReportTest, Promise1_ASessionThatEndedIsAddedByWhatItHadSaid) {
  report_.Ended(1, Pair(1, 7), 90, {});
  Seal({At(1, 25, 4)});
  EXPECT_EQ(report_.Complete(&manifest_).size(), 1u);
  EXPECT_EQ(Listed(manifest_), "1/7:81-90@20 ");
}

TEST_F(LossReportTest, OfASessionThatTheServerHasHeardItKnowsBetter) {
  manifest_.mutable_files(0)->mutable_lost()->CopyFrom(
      ListOf({Lost(1, 7, 81, 83), Lost(2, 8, 1, 0)}));
  Seal({At(1, 7, 100), At(2, 8, 60)});
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
  EXPECT_EQ(Listed(manifest_), "1/7:81-83@20 ")
      << "and an empty range is not listed";
}

TEST_F(LossReportTest, WhatIsListedOfAnEarlierLifeIsNotAddedAgain) {
  manifest_.mutable_files(0)->mutable_lost()->CopyFrom(
      ListOf({Lost(1, 7, 81, 84, /*server_generation=*/10)}));
  Seal({At(1, 7, 86)});
  report_.Complete(&manifest_);
  EXPECT_EQ(Listed(manifest_), "1/7:81-84@10 1/7:85-86@20 ");
}

TEST_F(LossReportTest, ASessionNewerThanTheServerLosesNothing) {
  Seal({At(1, 21, 50)});
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
}

TEST_F(LossReportTest, WhatWasAddedIsInEveryLaterManifestOfThatLife) {
  report_.Ended(1, Pair(1, 7), 90, {});
  Seal({});
  v1::Manifest second = manifest_;
  EXPECT_EQ(report_.Complete(&second).size(), 1u);
  report_.Committed();
  Seal({});
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
  EXPECT_EQ(Listed(manifest_), "1/7:81-90@20 ");
}

TEST_F(LossReportTest, WhatWasAddedGivesWayToTheServersOwnWord) {
  Seal({At(1, 7, 90)});
  v1::Manifest second = manifest_;
  report_.Complete(&second);
  manifest_.mutable_files(0)->mutable_lost()->CopyFrom(
      ListOf({Lost(1, 7, 81, 92)}));
  Seal({At(1, 7, 99)});
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
  EXPECT_EQ(Listed(manifest_), "1/7:81-92@20 ");
}

// What it pushed up to its cut is in the checkpoint, though a later session of
// the same worker stands in the records.
TEST_F(LossReportTest, OfASessionThatEndedBehindItsCutTheRestIsLost) {
  report_.Ended(1, Pair(1, 7), 90, {Pair(1, 2), 84});
  Seal({At(1, 25, 4)});
  v1::Manifest second = manifest_;
  AddRecord(25, 4, &second);
  report_.Complete(&second);
  report_.Committed();
  const auto found = report_.Restoring(0, Pair(1, 30));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].from(), 85u);
  EXPECT_EQ(found[0].to(), 90u);
}

TEST_F(LossReportTest, ASnapshotThatIsGivenUpForgetsNoSession) {
  report_.Ended(1, Pair(1, 7), 90, {});
  Seal({});
  Seal({});
  EXPECT_EQ(report_.Restoring(0, Pair(1, 30)).size(), 1u);
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(1, 30);
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
  EXPECT_EQ(Listed(manifest_), "1/7:81-90@30 ");
}

// The one that is restored is the newest when the server is lost; what is
// sealed by then was frozen in its earlier life.
TEST_F(LossReportTest, AServerThatComesBackDuringACommitLosesTheEndedSessions) {
  report_.Ended(1, Pair(1, 7), 90, {});
  Seal({At(1, 25, 4)});
  v1::Manifest second = manifest_;
  report_.Complete(&second);
  const auto found = report_.Restoring(0, Pair(1, 30));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].server_generation(), Pair(1, 30));
  EXPECT_EQ(report_.pushes(), 10u);
  report_.Committed();
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(1, 30);
  Seal({});
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
  EXPECT_EQ(Listed(manifest_), "1/7:81-90@30 ");
}

TEST_F(LossReportTest, ASessionThatEndedAfterTheSealIsOfTheNextSnapshot) {
  Seal({At(1, 7, 80)});
  report_.Ended(1, Pair(1, 7), 85, {});
  v1::Manifest second = manifest_;
  EXPECT_TRUE(report_.Complete(&second).empty());
  report_.Committed();
  Seal({});
  EXPECT_EQ(report_.Complete(&manifest_).size(), 1u);
}

TEST_F(LossReportTest, TheNextLifeRestoresTheNewestCheckpoint) {
  v1::Manifest second = manifest_;
  AddRecord(7, 120, &second);
  Seal({At(1, 7, 120)});
  second.mutable_files(0)->mutable_lost()->CopyFrom(
      ListOf({Lost(1, 7, 81, 83)}));
  report_.Complete(&second);
  report_.Committed();
  report_.Restoring(0, Pair(1, 30));
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(1, 30);
  Seal({At(1, 7, 121)});
  report_.Complete(&manifest_);
  EXPECT_EQ(Listed(manifest_), "1/7:121-121@30 ");
}

TEST_F(LossReportTest, WhatASessionPushedBehindItsCutIsOfTheNextSnapshot) {
  report_.Ended(1, Pair(1, 7), 90, {Pair(1, 2), 84});
  Seal({});
  v1::Manifest second = manifest_;
  report_.Complete(&second);
  EXPECT_EQ(Listed(second), "1/7:81-84@20 ");
  report_.Committed();
  Seal({});
  report_.Complete(&manifest_);
  EXPECT_EQ(Listed(manifest_), "1/7:81-84@20 1/7:85-90@20 ");
}

// The coordinator dies, and then a server. The session's successor has pushed
// before the seal, so that no record names it any more.
TEST_F(LossReportTest, Promise1_TheManifestSaysWhatWasPushedBehindACut) {
  report_.Ended(1, Pair(1, 7), 90, {Pair(1, 2), 84});
  report_.Ended(2, Pair(1, 8), 9, {});
  Seal({At(1, 9, 1)});
  AddRecord(9, 1, &manifest_);
  report_.Complete(&manifest_);
  ASSERT_EQ(manifest_.ended_size(), 1);
  EXPECT_EQ(manifest_.ended(0).worker(), 1u);
  EXPECT_EQ(manifest_.ended(0).sequence(), 84u);
  EXPECT_EQ(manifest_.ended(0).ended_with(), 90u);

  LossReport taken_over;
  taken_over.TakeOver(&manifest_, {{Pair(1, 20), Pair(1, 20)}}, {At(1, 7, 90)},
                      {});
  const auto lost = taken_over.Restoring(0, Pair(2, 9));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].generation(), Pair(1, 7));
  EXPECT_EQ(lost[0].from(), 85u);
  EXPECT_EQ(lost[0].to(), 90u);

  // Of a life that began with the checkpoint that was computed again.
  LossReport later;
  later.TakeOver(&manifest_, {{Pair(2, 1), Pair(2, 1)}}, {}, {});
  EXPECT_TRUE(later.Restoring(0, Pair(3, 9)).empty());
}

TEST_F(LossReportTest, TheNextManifestHasNothingBehindTheCutOfTheOneBefore) {
  report_.Ended(1, Pair(1, 7), 90, {Pair(1, 2), 84});
  Seal({});
  v1::Manifest second = manifest_;
  report_.Complete(&second);
  report_.Committed();
  Seal({});
  report_.Complete(&manifest_);
  EXPECT_EQ(manifest_.ended_size(), 0);
}

TEST_F(LossReportTest, WhatIsComputedAgainIsNotLost) {
  Seal({At(1, 7, 83)});
  v1::Manifest second = manifest_;
  report_.Complete(&second);
  report_.Committed();
  report_.Ended(1, Pair(1, 7), 90, {});
  report_.Told(0, Pair(1, 20), ListOf({Lost(1, 7, 81, 83), Lost(2, 8, 1, 9)}));
  report_.Rewind();
  EXPECT_EQ(report_.pushes(), 3u) << "that the checkpoint lists";
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(1, 30);
  Seal({});
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
}

TEST_F(LossReportTest, Promise8_SessionsThatEndedAreBounded) {
  for (uint64_t i = 0; i <= LossReport::kMostEnded; ++i) {
    report_.Ended(5, Pair(0, i + 1), 1, {});
  }
  Seal({});
  EXPECT_EQ(report_.Complete(&manifest_).size(), LossReport::kMostEnded);
}

TEST_F(LossReportTest, NumbersOfSessionsLongGoneAreAddedUp) {
  v1::LostPushes gone;
  gone.set_from(1);
  gone.set_to(7);
  report_.Told(0, Pair(1, 20), ListOf({gone}));
  gone.set_server(1);
  report_.Told(1, Pair(1, 2), ListOf({gone}));
  EXPECT_EQ(report_.pushes(), 14u);
}

// What a coordinator knows that takes over life 1.20, whose newest checkpoint
// has push 80 of session 1.7 of worker 1 and lists pushes 3 to 5 of session 1.6
// as lost.
class LossReportTakeOverTest : public LossReportTest {
 protected:
  LossReportTakeOverTest() {
    v1::Manifest newest;
    AddFile(20, &newest);
    AddRecord(7, 80, &newest);
    *newest.mutable_files(0)->add_lost() = Lost(1, 6, 3, 5);
    taken_over_.TakeOver(&newest, {{Pair(1, 20), Pair(1, 20)}},
                         {At(1, 6, 9), At(1, 7, 82), At(1, 8, 4)}, {});
  }
  LossReport taken_over_;
};

TEST_F(LossReportTakeOverTest, WhatTheCheckpointListsIsListedAgain) {
  EXPECT_EQ(taken_over_.pushes(), 3u);
  taken_over_.Told(0, Pair(1, 20), {});
  EXPECT_EQ(taken_over_.pushes(), 3u);
  taken_over_.Sealing(Pair(2, 1), {});
  // The server has heard the sessions that pushed to it.
  *manifest_.mutable_files(0)->add_lost() = Lost(1, 7, 81, 80);
  *manifest_.mutable_files(0)->add_lost() = Lost(1, 8, 1, 0);
  EXPECT_TRUE(taken_over_.Complete(&manifest_).empty());
  ASSERT_EQ(manifest_.files(0).lost_size(), 1);
  EXPECT_EQ(manifest_.files(0).lost(0).SerializeAsString(),
            Lost(1, 6, 3, 5).SerializeAsString());
}

// A session that goes on and has not pushed to this life of the server yet.
TEST_F(LossReportTest, WhatTheLifeThatWroteTheCheckpointHasIsNotLost) {
  v1::Manifest newest;
  AddFile(20, &newest);
  AddRecord(7, 80, &newest);
  LossReport report;
  report.TakeOver(&newest, {{Pair(1, 20), Pair(1, 20)}}, {}, {});
  report.Sealing(Pair(2, 1), {At(1, 7, 80)});
  EXPECT_TRUE(report.Complete(&manifest_).empty());
}

// Life 1.20 wrote the checkpoint, and life 1.40 took it over before the
// coordinator was lost, too.
TEST_F(LossReportTest, WhatWasTakenOverBeforeTheCoordinatorIsNotLost) {
  v1::Manifest newest;
  AddFile(20, &newest);
  AddRecord(7, 80, &newest);
  *newest.mutable_files(0)->add_lost() = Lost(1, 6, 3, 5);
  LossReport report;
  report.TakeOver(&newest, {{Pair(1, 40), Pair(1, 20)}},
                  {At(1, 6, 9), At(1, 7, 82), At(2, 5, 4)}, {{3, Pair(1, 9)}});
  // It went on, and ends before the present life has heard it.
  report.Ended(3, Pair(1, 9), 60, {});
  report.Told(0, Pair(1, 40), {});
  EXPECT_EQ(report.pushes(), 3u) << "that the checkpoint lists";
  report.Sealing(Pair(2, 1), {});
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(1, 40);
  EXPECT_TRUE(report.Complete(&manifest_).empty());
  EXPECT_EQ(Listed(manifest_), "1/6:3-5@20 ");
  EXPECT_EQ(report.pushes(), 3u);
}

TEST_F(LossReportTakeOverTest, ALaterLifeLosesWhatCameBehindTheCheckpoint) {
  const auto lost = taken_over_.Restoring(0, Pair(2, 9));
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost[0].generation(), Pair(1, 7));
  EXPECT_EQ(lost[0].from(), 81u);
  EXPECT_EQ(lost[0].to(), 82u);
  EXPECT_EQ(lost[1].generation(), Pair(1, 8));
  EXPECT_EQ(lost[1].from(), 1u);
  EXPECT_EQ(lost[1].to(), 4u);
}

TEST_F(LossReportTest, ALifeThatGoesOnWithWhatTheLastOneHeldHasLostNothing) {
  report_.TakenOver(0, Pair(1, 20));
  AddRecord(7, 95, &manifest_);
  Seal({At(1, 7, 95)});
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
  EXPECT_EQ(report_.pushes(), 0u);
}

// A worker is replaced right before or after that: its session never pushes to
// the new life, and no record names it any more.
TEST(LossReportGoesOnTest, Promise1_ALifeThatGoesOnHasWhatEndedSessionsPushed) {
  LossReport report;
  report.Told(0, Pair(1, 2), {});
  report.Ended(1, Pair(1, 7), 90, {});
  report.TakenOver(0, Pair(1, 30));
  report.Told(0, Pair(1, 30), {});
  report.Ended(2, Pair(1, 8), 40, {});
  v1::Manifest manifest;
  v1::ShardFile* const file = manifest.add_files();
  *file->mutable_server_generation() = Pair(1, 30);
  for (const uint32_t worker : {1, 2}) {
    v1::PushRecord* const record = file->add_slices()->add_records();
    record->set_worker(worker);
    *record->mutable_generation() = Pair(1, 30 + worker);
    record->set_sequence(4);
  }
  report.Sealing(Pair(1, 1), {At(1, 31, 4), At(2, 32, 4)});
  EXPECT_TRUE(report.Complete(&manifest).empty());
  EXPECT_EQ(report.pushes(), 0u);
}

TEST_F(LossReportTest, WhatTheLastLifeHasLostALifeThatGoesOnHasLostToo) {
  report_.Ended(1, Pair(1, 7), 90, {});
  report_.TakenOver(0, Pair(1, 30));
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(1, 30);
  Seal({});
  EXPECT_EQ(report_.Complete(&manifest_).size(), 1u);
  EXPECT_EQ(Listed(manifest_), "1/7:81-90@30 ");
}

TEST_F(LossReportTest, WhomTheLastLifeHasHeardALifeThatGoesOnHasHeard) {
  report_.Told(0, Pair(1, 20), ListOf({Lost(1, 7, 81, 80)}));
  report_.TakenOver(0, Pair(1, 30));
  report_.Ended(1, Pair(1, 7), 90, {});
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(1, 30);
  AddRecord(35, 4, &manifest_);
  Seal({At(1, 35, 4)});
  EXPECT_TRUE(report_.Complete(&manifest_).empty());
  EXPECT_EQ(report_.pushes(), 0u);
}

TEST_F(LossReportTest, WhenAllGoBackNoLifeGoesOn) {
  report_.TakenOver(0, Pair(1, 30));
  report_.Rewind();
  report_.Told(0, Pair(1, 40), {});
  report_.Ended(1, Pair(1, 38), 9, {});
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(1, 40);
  Seal({});
  EXPECT_EQ(report_.Complete(&manifest_).size(), 1u);
  EXPECT_EQ(Listed(manifest_), "1/38:1-9@40 ");
}

}  // namespace
}  // namespace paramd
