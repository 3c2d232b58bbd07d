// A mode that is changed while the job runs: to and from sync.
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::StartedCoordinator;

Coordinator::Options Options(const std::string& staleness) {
  Coordinator::Options options = JobOptions();
  options.job.set_staleness(staleness);
  options.job.mutable_checkpoint()->set_every_steps(0);
  return options;
}

v1::SetRequest Staleness(const std::string& value) {
  v1::SetRequest set;
  set.set_key("staleness");
  set.set_value(value);
  return set;
}

class ModeChangeTest : public ::testing::Test {
 protected:
  explicit ModeChangeTest(const Coordinator::Options& options)
      : started_(options) {
    started_.Run();
    started_.Serve();
  }
  CoreDriver& driver() { return started_.driver(); }
  v1::Configuration Told() {
    started_.Serve();
    return started_.configuration();
  }
  std::string Waits() { return started_.core().waiting_for(); }
  // The answer to a worker's parked heartbeat says that its session has ended.
  void ExpectSent(StartedCoordinator::Worker* worker) {
    ASSERT_NE(worker->parked, 0u);
    const absl::Status status = driver().Take(worker->parked).status;
    worker->parked = 0;
    EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::NOT_READY);
    EXPECT_EQ(RefusalOf(status).entity(), "session");
  }

  StartedCoordinator started_;
};

// ---- to sync ----------------------------------------------------------------

class ToSyncTest : public ModeChangeTest {
 protected:
  ToSyncTest() : ToSyncTest(Options("async")) {}
  explicit ToSyncTest(const Coordinator::Options& options)
      : ModeChangeTest(options) {
    for (const uint32_t w : {0, 1}) {
      workers_[w] = started_.Join(w);
      started_.CatchUp(&workers_[w]);
    }
  }
  CallId Set() {
    const CallId call = driver().Begin(PeerId{}, Staleness("sync"));
    started_.Serve();
    return call;
  }
  // Says that it stands still, with this much left of its portion.
  void Stop(uint32_t index, uint64_t sequence, const v1::Portion& portion,
            uint64_t begin, bool acknowledged = true) {
    StartedCoordinator::Worker& worker = workers_[index];
    started_.CatchUp(&worker);
    ASSERT_TRUE(worker.beat.stop());
    worker.beat.mutable_header()->set_sequence(sequence);
    v1::WorkerCut* const cut = worker.beat.mutable_cut();
    cut->Clear();
    cut->set_sequence(sequence);
    cut->set_acknowledged(acknowledged);
    cut->set_last_portion(portion.id());
    *cut->add_remaining() = portion;
    cut->mutable_remaining(0)->set_begin(begin);
    started_.Beat(&worker);
  }
  bool IsLogging() {
    const auto append = driver().TakeIo<v1::AppendLog>();
    return append.has_value();
  }

  StartedCoordinator::Worker workers_[2];
};

TEST_F(ToSyncTest, WorkersStopThenTheModeIsLoggedAndAllBeginAnew) {
  const v1::Portion first = started_.NextPortion(&workers_[0], 0).portion();
  const v1::Portion second = started_.NextPortion(&workers_[1], 0).portion();
  const CallId set = Set();
  EXPECT_EQ(Waits(),
            "worker-0 generation 1.3 to stop, to change staleness from async "
            "to sync");
  Stop(0, 1, first, 2);
  EXPECT_EQ(Waits(),
            "worker-1 generation 1.4 to stop, to change staleness from async "
            "to sync");
  Stop(1, 0, second, 4, /*acknowledged=*/false);
  EXPECT_FALSE(IsLogging());
  Stop(1, 1, second, 6);
  const v1::LogEntry entry = started_.Append();
  EXPECT_EQ(entry.configuration().consistency().mode(), v1::Consistency::SYNC);
  EXPECT_EQ(entry.configuration().workers_size(), 0);
  // 2 pushes are in, and of 6 batches left each step takes two, of one range.
  EXPECT_EQ(entry.configuration().decay_steps(), 2u + 2u + 2u);
  ASSERT_TRUE(driver().Take(set).status.ok());
  EXPECT_EQ(Told().consistency().mode(), v1::Consistency::SYNC);
  for (auto& worker : workers_) ExpectSent(&worker);
  // They join again, and share what is left.
  for (auto& worker : workers_) worker = started_.Join(worker.index);
  for (auto& worker : workers_) started_.Beat(&worker);
  const v1::Contributors contributors =
      started_.Append().configuration().contributors();
  EXPECT_THAT(contributors.workers(), ElementsAre(0, 1));
  EXPECT_EQ(contributors.first_step(), 3u);
  EXPECT_EQ(contributors.input().next_epoch(), 2u);
  ASSERT_EQ(contributors.input().remaining_size(), 2);
  EXPECT_EQ(contributors.input().remaining(0).begin(), 2u);
  EXPECT_EQ(contributors.input().remaining(0).end(), 4u);
  EXPECT_EQ(contributors.input().remaining(1).begin(), 6u);
  EXPECT_EQ(contributors.input().remaining(1).end(), 8u);
}

TEST_F(ToSyncTest, ASilentWorkerIsFencedAndWhatItHadIsHandedOutAgain) {
  const v1::Portion first = started_.NextPortion(&workers_[0], 0).portion();
  started_.NextPortion(&workers_[1], 0);
  const CallId set = Set();
  for (int i = 0; i < 11; ++i) {
    Stop(0, 1, first, 2);
    driver().Advance(absl::Seconds(1));
    started_.Serve();
  }
  EXPECT_EQ(started_.Append().fence().worker(), 1u);
  EXPECT_FALSE(driver().answered(set));
  started_.Serve();
  Stop(0, 1, first, 2);
  EXPECT_TRUE(started_.Append().has_configuration());
  EXPECT_TRUE(driver().Take(set).status.ok());
  // Only who was there is waited for.
  workers_[0] = started_.Join(0);
  started_.Beat(&workers_[0]);
  const v1::SavedInput input =
      started_.Append().configuration().contributors().input();
  ASSERT_EQ(input.remaining_size(), 2);
  EXPECT_EQ(input.remaining(0).begin(), 4u);
  EXPECT_EQ(input.remaining(1).begin(), 2u);
}

TEST_F(ToSyncTest, NobodyJoinsAndNoSecondSettingIsTakenMeanwhile) {
  Set();
  const absl::Status second = driver().Call(PeerId{}, Staleness("4")).status;
  EXPECT_EQ(RefusalOf(second).reason(), v1::Refusal::RETRY);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("waiting for staleness to change from async to sync: "
                        "worker-0 generation 1.3 to stop"));
  EXPECT_TRUE(driver().HasNote(
      "an operator changes staleness from async to sync: workers stop"));
}

TEST_F(ToSyncTest, AChiefThatLeavesGivesTheChangeUpAndWorkersGoOn) {
  const v1::Portion first = started_.NextPortion(&workers_[0], 0).portion();
  const CallId set = Set();
  Stop(0, 1, first, 2);
  driver().Drain();
  EXPECT_EQ(RefusalOf(driver().Take(set).status).reason(), v1::Refusal::RETRY);
  EXPECT_TRUE(driver().HasNote(
      "staleness was not changed from async to sync: the chief is leaving"));
  EXPECT_EQ(started_.configuration().consistency().mode(),
            v1::Consistency::ASYNC);
}

TEST_F(ToSyncTest, ALeaverIsLetGoBeforeTheModeIsLogged) {
  const v1::Portion first = started_.NextPortion(&workers_[0], 0).portion();
  Set();
  Stop(0, 1, first, 2);
  workers_[1].beat.set_leaving(true);
  started_.CatchUp(&workers_[1]);
  EXPECT_TRUE(started_.Append().has_fence());
  started_.Serve();
  EXPECT_TRUE(started_.Append().has_configuration());
}

class ToSyncWithBackupTest : public ToSyncTest {
 protected:
  static Coordinator::Options WithBackup() {
    Coordinator::Options options = Options("async");
    options.job.set_backup_workers(1);
    options.job.set_sync_park_bytes(1);
    return options;
  }
  ToSyncWithBackupTest() : ToSyncTest(WithBackup()) {}
};

TEST_F(ToSyncWithBackupTest, StepsThatDoNotFitAreRefusedWithNothingChanged) {
  const v1::ConfigurationVersion before = Told().version();
  const absl::Status refused =
      driver().Call(PeerId{}, Staleness("sync")).status;
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("sync_park_bytes is 1"));
  EXPECT_EQ(Told().version(), before);
  EXPECT_FALSE(IsLogging());
  started_.CatchUp(&workers_[0]);
  EXPECT_FALSE(workers_[0].beat.stop());
}

class ToSyncWithCheckpointsTest : public ToSyncTest {
 protected:
  static Coordinator::Options WithCheckpoints() {
    Coordinator::Options options = Options("async");
    options.job.mutable_checkpoint()->set_every_steps(1);
    return options;
  }
  ToSyncWithCheckpointsTest() : ToSyncTest(WithCheckpoints()) {}
};

TEST_F(ToSyncWithCheckpointsTest, TheChangeWaitsForTheOpenSnapshot) {
  workers_[0].beat.mutable_header()->set_sequence(1);
  started_.Beat(&workers_[0]);
  ASSERT_TRUE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
  Set();
  EXPECT_THAT(Waits(), HasSubstr("for checkpoint"));
  EXPECT_FALSE(IsLogging());
}

TEST_F(ToSyncWithCheckpointsTest, NoSnapshotIsOpenedDuringTheChange) {
  Set();
  workers_[0].beat.mutable_header()->set_sequence(1);
  started_.Beat(&workers_[0]);
  EXPECT_FALSE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
}

// ---- from sync --------------------------------------------------------------

class FromSyncTest : public ModeChangeTest {
 protected:
  FromSyncTest() : FromSyncTest(Options("sync")) {}
  explicit FromSyncTest(const Coordinator::Options& options)
      : ModeChangeTest(options) {
    for (const uint32_t w : {0, 1}) workers_[w] = started_.Join(w);
    for (auto& worker : workers_) started_.Beat(&worker);
    started_.Append();  // Who contributes.
    started_.Serve();
  }
  // Answers what a server is asked to decide.
  void Decide(uint32_t server, uint64_t step,
              const std::vector<uint32_t>& complete) {
    const auto sent = driver().TakeSend<v1::DecideRequest>(PeerId::Ps(server));
    ASSERT_TRUE(sent.has_value());
    v1::DecideReply reply;
    reply.set_step(step);
    *reply.mutable_contributors() = Told().contributors().version();
    reply.mutable_complete()->Assign(complete.begin(), complete.end());
    driver().Reply(*sent, reply);
  }
  void ApplyStep() {
    for (const uint32_t server : {0, 1}) Decide(server, 0, {0, 1});
    for (const uint32_t server : {0, 1}) Decide(server, 1, {});
  }
  // Everybody is heard, and worker 0 does not contribute to the step after
  // `step`. Whether it is gone before so many seconds are over.
  bool IsFencedWithin(int seconds, uint64_t step) {
    for (int second = 0; second < seconds; ++second) {
      driver().Advance(absl::Seconds(1));
      started_.Serve();
      for (auto& worker : workers_) started_.Beat(&worker);
      if (driver().HasNote("is gone after")) return true;
      for (const uint32_t server : {0, 1}) Decide(server, step, {1});
    }
    return false;
  }
  void GoAsync() {
    driver().Begin(PeerId{}, Staleness("async"));
    EXPECT_EQ(started_.Append().configuration().consistency().mode(),
              v1::Consistency::ASYNC);
  }
  // The snapshot that was just opened, up to its commit.
  v1::Manifest Save() {
    v1::PrepareCheckpointResult prepared;
    prepared.set_directory("/dir");
    driver().Complete(driver().TakeIo<v1::PrepareCheckpoint>()->first,
                      prepared);
    started_.Serve();
    EXPECT_TRUE(started_.Seal(0) && started_.Seal(1));
    EXPECT_TRUE(started_.Write(0) && started_.Write(1));
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    v1::CommitCheckpointResult committed;
    committed.set_path("/done");
    driver().Complete(commit->first, committed);
    return commit->second.manifest();
  }

  StartedCoordinator::Worker workers_[2];
};

TEST_F(FromSyncTest, TheModeIsLoggedBetweenTwoStepsAndTheRestIsHandedOut) {
  Decide(0, 0, {0, 1});
  Decide(1, 0, {0, 1});
  Decide(0, 1, {});
  const CallId set = driver().Begin(PeerId{}, Staleness("4"));
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  EXPECT_EQ(Waits(), "ps-1 generation 1.2 to apply step 1");
  Decide(1, 1, {0, 1});
  const v1::LogEntry entry = started_.Append();
  EXPECT_EQ(entry.configuration().consistency().bound(), 4u);
  EXPECT_FALSE(entry.configuration().has_contributors());
  // One step is in, and 6 batches are left.
  EXPECT_EQ(entry.configuration().decay_steps(), 7u);
  EXPECT_TRUE(driver().Take(set).status.ok());
  EXPECT_EQ(Told().consistency().mode(), v1::Consistency::BOUNDED);
  for (auto& worker : workers_) {
    started_.TakeNews(&worker);
    worker = started_.Join(worker.index);
  }
  const v1::Portion portion = started_.NextPortion(&workers_[0], 0).portion();
  EXPECT_EQ(portion.epoch(), 1u);
  EXPECT_EQ(portion.begin(), 4u);
  EXPECT_EQ(portion.end(), 8u);
  EXPECT_EQ(started_.NextPortion(&workers_[1], 0).portion().epoch(), 2u);
}

TEST_F(FromSyncTest, BackToSyncWhenEveryServerHasHeardThatItEnded) {
  GoAsync();
  const CallId back = driver().Begin(PeerId{}, Staleness("sync"));
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  Save();
  started_.Serve();  // All workers are gone, so nobody has to stop.
  EXPECT_EQ(started_.Append().configuration().consistency().mode(),
            v1::Consistency::SYNC);
  EXPECT_TRUE(driver().Take(back).status.ok());
}

TEST_F(FromSyncTest, ItsStepsAreInACheckpointBeforeAnybodyPushes) {
  ApplyStep();
  GoAsync();
  const v1::Manifest manifest = Save();
  EXPECT_EQ(manifest.global_step(), 1u);
  ASSERT_EQ(manifest.input().remaining_size(), 0);
  EXPECT_EQ(manifest.input().next_offset(), 4u);
  driver().Advance(absl::Seconds(5));
  EXPECT_FALSE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
}

TEST_F(FromSyncTest, ItsStepsAreSavedAgainIfThatFails) {
  ApplyStep();
  GoAsync();
  driver().End(driver().TakeIo<v1::PrepareCheckpoint>()->first,
               absl::ResourceExhaustedError("disk is full"));
  started_.Serve();
  EXPECT_FALSE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
  driver().Advance(absl::Seconds(1));
  EXPECT_EQ(Save().global_step(), 1u);
}

// Nobody could say what it lost: a session of sync mode has no push of its own.
TEST_F(FromSyncTest, Promise1_AServerLostBeforeTheyAreSavedTakesAllBack) {
  ApplyStep();
  GoAsync();
  driver().End(driver().TakeIo<v1::PrepareCheckpoint>()->first,
               absl::ResourceExhaustedError("disk is full"));
  started_.Serve();
  for (auto& worker : workers_) started_.TakeNews(&worker);
  workers_[0] = started_.Join(0);
  workers_[0].beat.mutable_header()->set_sequence(1);  // The newest push.
  started_.Beat(&workers_[0]);
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  // A second try has begun, and fails.
  EXPECT_EQ(Waits(), "storage for checkpoint 1.3");
  driver().End(driver().TakeIo<v1::PrepareCheckpoint>()->first,
               absl::ResourceExhaustedError("disk is full"));
  EXPECT_TRUE(driver().HasNote(
      "all servers go back to step 0, the initial values; 2 steps are computed "
      "again"));
  EXPECT_EQ(started_.Append().configuration().workers_size(), 0);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_FALSE(driver().HasNote("lost: pushes"));
  started_.TakeNews(&workers_[0]);
  StartedCoordinator::Worker worker = started_.Join(0);
  const v1::Portion portion = started_.NextPortion(&worker, 0).portion();
  EXPECT_EQ(portion.epoch(), 1u);
  EXPECT_EQ(portion.begin(), 0u);
  v1::StatusReply status;
  started_.core().FillStatus(&status);
  EXPECT_EQ(status.job().global_step(), 0u);
  EXPECT_EQ(status.job().pushes_lost(), 0u);
}

TEST_F(FromSyncTest, AServerLostWhileABoundIsLoggedTakesAllBackWithTheBound) {
  ApplyStep();
  GoAsync();
  driver().End(driver().TakeIo<v1::PrepareCheckpoint>()->first,
               absl::ResourceExhaustedError("disk is full"));
  started_.Serve();
  driver().Begin(PeerId{}, Staleness("16"));
  const auto append = driver().TakeIo<v1::AppendLog>();
  ASSERT_TRUE(append.has_value());
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_FALSE(driver().HasNote("all servers go back"));
  driver().End(append->first, absl::OkStatus());
  EXPECT_TRUE(driver().HasNote("all servers go back to step 0"));
  // Another coordinator begins in the mode of the newest entry.
  EXPECT_EQ(started_.Append().configuration().consistency().bound(), 16u);
}

TEST_F(FromSyncTest, AServerLostWhileTheModeIsLoggedTakesAllBackInTheNewMode) {
  Decide(0, 0, {0, 1});
  Decide(1, 0, {0, 1});
  Decide(0, 1, {});
  Decide(1, 1, {});
  driver().Begin(PeerId{}, Staleness("async"));
  const auto append = driver().TakeIo<v1::AppendLog>();
  ASSERT_TRUE(append.has_value());
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  driver().End(append->first, absl::OkStatus());
  EXPECT_TRUE(driver().HasNote("all servers go back to step 0"));
  const v1::Configuration logged = started_.Append().configuration();
  EXPECT_EQ(logged.consistency().mode(), v1::Consistency::ASYNC);
  started_.Serve();
  StartedCoordinator::Worker worker = started_.Join(0);
  const v1::Portion portion = started_.NextPortion(&worker, 0).portion();
  EXPECT_EQ(portion.epoch(), 1u);
  EXPECT_EQ(portion.begin(), 0u);
}

TEST_F(FromSyncTest, Promise4_WhoIsHeardAndNeverContributesIsFencedByName) {
  Decide(0, 0, {1});
  Decide(1, 0, {1});
  EXPECT_FALSE(IsFencedWithin(299, 0));
  EXPECT_TRUE(IsFencedWithin(3, 0));
  EXPECT_TRUE(
      driver().HasNote("worker-0 is heard and has not contributed to "
                       "step 1 for 5m: the others go on without it; "
                       "if a step may take longer, raise "
                       "start_timeout_ms"));
  EXPECT_EQ(started_.Append().fence().worker(), 0u);
  ExpectSent(&workers_[0]);
}

TEST_F(FromSyncTest, Promise4_AStepMayTakeThreeTimesAsLongAsTheLongestBefore) {
  Decide(0, 0, {1});
  Decide(1, 0, {1});
  EXPECT_FALSE(IsFencedWithin(240, 0));
  ApplyStep();
  for (auto& worker : workers_) worker.beat.mutable_header()->set_sequence(1);
  EXPECT_FALSE(IsFencedWithin(710, 1));
  EXPECT_TRUE(IsFencedWithin(20, 1));
}

class LongStartTest : public FromSyncTest {
 protected:
  LongStartTest() : FromSyncTest(WithLongStart()) {}
  static Coordinator::Options WithLongStart() {
    Coordinator::Options options = Options("sync");
    options.job.set_start_timeout_ms(600'000);
    return options;
  }
};

TEST_F(LongStartTest, Promise4_TheFirstStepMayTakeAsLongAsAStart) {
  Decide(0, 0, {1});
  Decide(1, 0, {1});
  EXPECT_FALSE(IsFencedWithin(599, 0));
  EXPECT_TRUE(IsFencedWithin(3, 0));
}

// ---- a new chief ------------------------------------------------------------

TEST(ModeLogTest, ANewCoordinatorGoesOnInTheModeAndScheduleOfTheLog) {
  StartedCoordinator started(Options("async"));
  v1::ReadLogResult log;
  uint64_t number = 0;
  for (const auto& [mode, decay] :
       std::vector<std::pair<v1::Consistency::Mode, uint64_t>>{
           {v1::Consistency::ASYNC, 8}, {v1::Consistency::SYNC, 6}}) {
    v1::LogEntry& entry = *log.add_entries();
    entry.set_number(++number);
    entry.set_run_id("run");
    entry.set_job_digest("digest");
    v1::Configuration* const logged = entry.mutable_configuration();
    logged->mutable_version()->set_term(1);
    logged->mutable_consistency()->set_mode(mode);
    logged->set_decay_steps(decay);
  }
  started.ReadLog(log);
  started.Append();
  started.Serve();
  started.FindCheckpoint();
  const v1::Configuration logged = started.Append().configuration();
  EXPECT_EQ(logged.consistency().mode(), v1::Consistency::SYNC);
  EXPECT_EQ(logged.decay_steps(), 6u);
}

}  // namespace
}  // namespace paramd
