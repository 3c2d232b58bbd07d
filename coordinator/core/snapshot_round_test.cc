#include "coordinator/core/snapshot_round.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::Pair;

using Phase = SnapshotRound::Phase;

v1::WorkerCut CutOf(const v1::SnapshotNumber& snapshot, uint64_t sequence) {
  v1::WorkerCut cut;
  *cut.mutable_snapshot() = snapshot;
  cut.set_sequence(sequence);
  cut.set_acknowledged(true);
  return cut;
}

// Snapshot 3.7 of two servers.
class SnapshotRoundTest : public ::testing::Test {
 protected:
  SnapshotRoundTest()
      : round_(Pair(3, 7), {.servers = 2}, Time::FromNanoseconds(5)) {}

  void Prepare() {
    v1::PrepareCheckpointResult prepared;
    prepared.set_directory("/dir");
    prepared.set_nonce(42);
    round_.Prepared(prepared, {Pair(3, 1), Pair(3, 2)});
  }
  void BeginSeal() {
    v1::SavedInput input;
    input.set_next_epoch(2);
    round_.BeginSeal(41, input, present_, Time::FromNanoseconds(9));
  }
  void SealBoth() {
    round_.Sealed(0);
    round_.Sealed(1);
  }

  static v1::SavedSession At(uint32_t worker, const v1::SessionId& generation,
                             uint64_t sequence) {
    v1::SavedSession session;
    session.set_worker(worker);
    *session.mutable_generation() = generation;
    session.set_sequence(sequence);
    return session;
  }

  SnapshotRound round_;
  std::vector<v1::SavedSession> present_;
};

TEST_F(SnapshotRoundTest, ItIsOpenFromTheDirectoryToTheLastSeal) {
  EXPECT_EQ(round_.phase(), Phase::kPreparing);
  EXPECT_FALSE(round_.is_open());
  Prepare();
  EXPECT_EQ(round_.phase(), Phase::kCutting);
  EXPECT_TRUE(round_.is_open());
  BeginSeal();
  EXPECT_EQ(round_.phase(), Phase::kSealing);
  round_.Sealed(1);
  EXPECT_TRUE(round_.is_open());
  round_.Sealed(0);
  EXPECT_EQ(round_.phase(), Phase::kWriting);
  EXPECT_FALSE(round_.is_open());
}

TEST_F(SnapshotRoundTest, ItIsCommittedWhenEveryFileIsWritten) {
  Prepare();
  BeginSeal();
  SealBoth();
  round_.Written(1, {});
  EXPECT_EQ(round_.phase(), Phase::kWriting);
  EXPECT_TRUE(round_.NeedsWritten(0));
  EXPECT_FALSE(round_.NeedsWritten(1));
  round_.Written(0, {});
  EXPECT_EQ(round_.phase(), Phase::kCommitting);
}

TEST_F(SnapshotRoundTest, OnlyACutOfThisSnapshotCountsAndOnlyBeforeTheSeal) {
  round_.Cut(0, CutOf(Pair(3, 7), 1));
  EXPECT_FALSE(round_.HasCut(0));  // Not yet.
  Prepare();
  round_.Cut(0, CutOf(Pair(3, 6), 1));
  EXPECT_FALSE(round_.HasCut(0));
  round_.Cut(0, CutOf(Pair(3, 7), 2));
  ASSERT_TRUE(round_.HasCut(0));
  BeginSeal();
  round_.Cut(0, CutOf(Pair(3, 7), 3));
  EXPECT_EQ(round_.cuts().at(0).sequence(), 2u);
}

TEST_F(SnapshotRoundTest, ACutIsAcknowledgedWhenItSaysSo) {
  Prepare();
  EXPECT_FALSE(round_.HasAcknowledged(0));
  v1::WorkerCut cut = CutOf(Pair(3, 7), 2);
  cut.set_acknowledged(false);
  round_.Cut(0, cut);
  EXPECT_TRUE(round_.HasCut(0));
  EXPECT_FALSE(round_.HasAcknowledged(0));
  round_.Cut(0, CutOf(Pair(3, 7), 2));
  EXPECT_TRUE(round_.HasAcknowledged(0));
}

v1::Portion MakePortion(uint64_t id, uint64_t begin, uint64_t end) {
  v1::Portion portion;
  portion.set_id(id);
  portion.set_epoch(1);
  portion.set_begin(begin);
  portion.set_end(end);
  return portion;
}

TEST_F(SnapshotRoundTest, Promise3_WhatIsUsedBehindTheCutIsLeftInTheManifest) {
  Prepare();
  round_.Used(0, {MakePortion(1, 0, 10)});  // Before its cut.
  v1::WorkerCut cut = CutOf(Pair(3, 7), 2);
  cut.set_last_portion(3);
  *cut.add_remaining() = MakePortion(3, 25, 30);
  round_.Cut(0, cut);
  round_.Used(0, {MakePortion(2, 10, 20), MakePortion(3, 20, 30),
                  MakePortion(4, 30, 40)});
  round_.Used(1, {MakePortion(5, 40, 50)});  // Which has not cut.
  BeginSeal();
  EXPECT_EQ(round_.input().next_epoch(), 2u);
  ASSERT_EQ(round_.input().remaining_size(), 2);
  EXPECT_EQ(round_.input().remaining(0).begin(), 25u);
  EXPECT_EQ(round_.input().remaining(0).end(), 30u);
  EXPECT_EQ(round_.input().remaining(1).begin(), 30u);
  EXPECT_EQ(round_.input().remaining(1).end(), 40u);
}

TEST_F(SnapshotRoundTest, AWorkerThatIsGoneLeavesItsCutToNobody) {
  Prepare();
  round_.Cut(0, CutOf(Pair(3, 7), 2));
  round_.Gone(At(0, Pair(3, 5), 5));
  round_.Gone(At(1, Pair(3, 6), 9));
  EXPECT_FALSE(round_.HasCut(0));
  BeginSeal();
  EXPECT_EQ(round_.step(), 41u - 3) << "three pushes behind its cut";
}

TEST_F(SnapshotRoundTest, OnlyOneThatStopsWorkersSaysSoInItsSeal) {
  Prepare();
  BeginSeal();
  EXPECT_FALSE(round_.SealFor(0).stopped());
  const SnapshotRound stopped(Pair(3, 8), {.servers = 1, .stopped = true},
                              Time::FromNanoseconds(5));
  EXPECT_TRUE(stopped.SealFor(0).stopped());
}

TEST_F(SnapshotRoundTest, ASealNamesPlaceFileAndTheGenerationsOfTheOpening) {
  Prepare();
  BeginSeal();
  EXPECT_TRUE(round_.NeedsSeal(1));
  const v1::SealRequest seal = round_.SealFor(1);
  EXPECT_EQ(seal.header().snapshot(), Pair(3, 7));
  EXPECT_EQ(seal.header().term(), 3u);
  EXPECT_EQ(seal.directory(), "/dir");
  EXPECT_EQ(seal.file_name(), "ps-00002-of-00002.safetensors");
  ASSERT_EQ(seal.server_generations_size(), 2);
  EXPECT_EQ(seal.server_generations(1), Pair(3, 2));
  round_.Sealed(1);
  EXPECT_FALSE(round_.NeedsSeal(1));
}

v1::ShardFile FileWithRecord(uint32_t worker, const v1::SessionId& generation,
                             uint64_t sequence) {
  v1::ShardFile file;
  v1::PushRecord* record = file.add_slices()->add_records();
  record->set_worker(worker);
  *record->mutable_generation() = generation;
  record->set_sequence(sequence);
  return file;
}

TEST_F(SnapshotRoundTest, Promise3_PositionsComeFromTheSealedRecords) {
  Prepare();
  BeginSeal();
  SealBoth();
  round_.Written(0, FileWithRecord(4, Pair(3, 5), 12));
  v1::ShardFile second = FileWithRecord(4, Pair(3, 5), 11);
  *second.add_slices()->add_records() =
      FileWithRecord(4, Pair(2, 9), 80).slices(0).records(0);
  round_.Written(1, second);
  const v1::Manifest manifest = round_.MakeManifest({}, {});
  ASSERT_EQ(manifest.sessions_size(), 1);
  EXPECT_EQ(manifest.sessions(0).worker(), 4u);
  EXPECT_EQ(manifest.sessions(0).generation(), Pair(3, 5));
  EXPECT_EQ(manifest.sessions(0).sequence(), 12u);
}

// The step counts them, so that who goes on from it must not do so again.
TEST_F(SnapshotRoundTest,
       PushesUpToACutThatReachedNoServerAreBehindTheSession) {
  Prepare();
  present_ = {At(4, Pair(3, 5), 14), At(5, Pair(3, 8), 2)};
  round_.Cut(6, CutOf(Pair(3, 7), 9));
  round_.Gone(At(6, Pair(3, 6), 8));
  BeginSeal();
  SealBoth();
  round_.Written(0, FileWithRecord(4, Pair(3, 5), 12));
  round_.Written(1, FileWithRecord(5, Pair(3, 3), 30));
  const v1::Manifest manifest = round_.MakeManifest({}, {});
  ASSERT_EQ(manifest.sessions_size(), 3);
  EXPECT_EQ(manifest.sessions(0).sequence(), 14u);
  EXPECT_EQ(manifest.sessions(1).generation(), Pair(3, 8));
  EXPECT_EQ(manifest.sessions(1).sequence(), 2u);
  EXPECT_EQ(manifest.sessions(2).sequence(), 8u) << "nothing counts behind it";
}

TEST_F(SnapshotRoundTest, TheManifestSaysWhoseItIsAndWhatIsInIt) {
  Prepare();
  BeginSeal();
  SealBoth();
  v1::ShardFile file;
  file.set_name("one");
  round_.Written(0, file);
  file.set_name("two");
  round_.Written(1, file);
  v1::JobConfig job;
  job.set_name("job");
  v1::Configuration configuration;
  configuration.set_job_digest("digest");
  configuration.set_run_id("run");
  configuration.mutable_layout()->add_variables()->set_name("w");
  configuration.mutable_optimizer()->mutable_adam();
  EXPECT_FALSE(
      round_.MakeManifest(job, configuration).has_learning_rate_scale());
  configuration.set_learning_rate_scale(0.25);
  const v1::Manifest manifest = round_.MakeManifest(job, configuration);
  EXPECT_EQ(manifest.learning_rate_scale(), 0.25);
  EXPECT_EQ(manifest.format(), 1u);
  EXPECT_EQ(manifest.min_reader(), 1u);
  EXPECT_EQ(manifest.job_name(), "job");
  EXPECT_EQ(manifest.job_digest(), "digest");
  EXPECT_EQ(manifest.run_id(), "run");
  EXPECT_EQ(manifest.snapshot(), Pair(3, 7));
  EXPECT_EQ(manifest.global_step(), 41u);
  EXPECT_EQ(manifest.variables(0).name(), "w");
  EXPECT_EQ(manifest.files(0).name(), "one");
  EXPECT_EQ(manifest.files(1).name(), "two");
  EXPECT_EQ(manifest.input().next_epoch(), 2u);
  ASSERT_EQ(manifest.slots_size(), 2);
  EXPECT_EQ(manifest.slots(0), "momentum");
  EXPECT_EQ(manifest.slots(1), "variance");
  EXPECT_TRUE(manifest.variable_slots().empty());
}

TEST_F(SnapshotRoundTest, OfSeveralKindsOfOptimizerEachVariableSaysItsSlots) {
  v1::Configuration configuration;
  configuration.mutable_optimizer()->mutable_adam();
  v1::OptimizerConfig::Group* const group =
      configuration.mutable_optimizer()->add_groups();
  group->set_variables("t");
  group->mutable_adagrad()->set_row_wise(true);
  for (const char* name : {"w", "t"}) {
    configuration.mutable_layout()->add_variables()->set_name(name);
  }
  configuration.mutable_layout()->mutable_variables(1)->set_sparse(true);
  const v1::Manifest manifest = round_.MakeManifest({}, configuration);
  EXPECT_THAT(manifest.slots(),
              ElementsAre("momentum", "variance", "row_accumulator"));
  // "w" has what one that is no table can have of these.
  ASSERT_EQ(manifest.variable_slots_size(), 1);
  EXPECT_THAT(manifest.variable_slots().at("t").names(),
              ElementsAre("row_accumulator"));
}

TEST_F(SnapshotRoundTest, Promise4_EachPhaseNamesWhomItWaitsFor) {
  const std::map<uint32_t, v1::SessionId> workers = {{0, Pair(3, 4)},
                                                     {2, Pair(3, 6)}};
  EXPECT_EQ(round_.waiting_for(workers), "storage for checkpoint 3.7");
  Prepare();
  round_.Cut(0, CutOf(Pair(3, 7), 1));
  EXPECT_EQ(round_.waiting_for(workers),
            "worker-2 generation 3.6 to say its last push for checkpoint 3.7");
  v1::WorkerCut cut = CutOf(Pair(3, 7), 8);
  cut.set_acknowledged(false);
  round_.Cut(2, cut);
  EXPECT_EQ(round_.waiting_for(workers),
            "push 8 of worker-2 generation 3.6 to be acknowledged for "
            "checkpoint 3.7");
  round_.Cut(2, CutOf(Pair(3, 7), 8));  // Worker 1 does not live.
  EXPECT_EQ(round_.waiting_for(workers),
            "the servers to know all workers for checkpoint 3.7");
  BeginSeal();
  round_.Sealed(0);
  EXPECT_EQ(round_.waiting_for(workers),
            "ps-1 generation 3.2 to freeze for checkpoint 3.7");
  round_.Sealed(1);
  EXPECT_EQ(round_.waiting_for(workers),
            "ps-0 generation 3.1 to write for checkpoint 3.7");
  round_.Written(0, {});
  round_.Written(1, {});
  EXPECT_EQ(round_.waiting_for(workers), "storage for checkpoint 3.7");
}

}  // namespace
}  // namespace paramd
