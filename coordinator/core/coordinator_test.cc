// Starting, servers, and what is said about it. The other tests of this class
// are coordinator_workers_test.cc and coordinator_end_test.cc.
#include "coordinator/core/coordinator.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

v1::LogEntry Entry(uint64_t number) {
  v1::LogEntry entry;
  entry.set_number(number);
  entry.set_run_id("old run");
  entry.set_job_digest("digest");
  return entry;
}

// ---- starting ---------------------------------------------------------------

TEST(CoordinatorTest, NobodyIsConfiguredBeforeTheLayoutIsLogged) {
  StartedCoordinator started(JobOptions());
  CoreDriver& driver = started.driver();
  EXPECT_EQ(started.core().waiting_for(), "the configuration log");
  started.ReadLog();
  EXPECT_TRUE(driver.sends.empty());
  EXPECT_EQ(started.Append().term(), 1u);
  EXPECT_EQ(driver.sends.size(), 2u);  // Both are recalled.
  started.Serve();
  started.FindCheckpoint();
  EXPECT_TRUE(driver.sends.empty());
  const v1::LogEntry layout = started.Append();
  EXPECT_EQ(layout.configuration().layout().slices_size(), 2);
  EXPECT_TRUE(driver.HasNote("the layout has 2 slices with"));
  EXPECT_EQ(layout.configuration().state(), v1::STARTING);
  const auto sent = driver.TakeSend<v1::ConfigureRequest>();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(static_cast<const v1::ConfigureRequest&>(*sent->head)
                .configuration()
                .SerializeAsString(),
            layout.configuration().SerializeAsString());
}

TEST(CoordinatorTest, EntriesAreNumberedDenselyAndBelongToTheRun) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  const v1::LogEntry first = started.Append();
  started.Serve();
  started.FindCheckpoint();
  const v1::LogEntry second = started.Append();
  EXPECT_EQ(first.number(), 1u);
  EXPECT_EQ(second.number(), 2u);
  EXPECT_NE(first.nonce(), second.nonce());
  EXPECT_EQ(second.run_id(), "run");
  EXPECT_EQ(second.job_digest(), "digest");
}

TEST(CoordinatorTest, ARunThatGoesOnHasAHigherTermAndKeepsItsName) {
  StartedCoordinator started(JobOptions());
  v1::ReadLogResult log;
  *log.add_entries() = Entry(1);
  log.mutable_entries(0)->set_term(4);
  *log.add_entries() = Entry(2);
  *log.mutable_entries(1)->mutable_configuration()->mutable_version() =
      Pair(4, 1);
  started.ReadLog(log);
  const v1::LogEntry term = started.Append();
  EXPECT_EQ(term.number(), 3u);
  EXPECT_EQ(term.term(), 5u);
  EXPECT_EQ(term.run_id(), "old run");
}

TEST(CoordinatorTest, ALogThatCannotBeReadEndsTheProcess) {
  StartedCoordinator started(JobOptions());
  started.driver().End(started.driver().TakeIo<v1::ReadLog>()->first,
                       absl::InternalError("no such disk"));
  EXPECT_EQ(started.driver().exit_status.message(), "no such disk");
}

TEST(CoordinatorTest, WhoLosesTheRaceForATermStepsDown) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  started.driver().End(started.driver().TakeIo<v1::AppendLog>()->first,
                       absl::AbortedError("number 1 is taken"));
  EXPECT_TRUE(absl::IsAborted(started.driver().exit_status));
  EXPECT_TRUE(started.driver().sends.empty());
}

TEST(CoordinatorTest, WhoLosesTheRaceForTheLayoutStepsDownAndTellsNobody) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  started.Append();
  started.Serve();
  started.FindCheckpoint();
  started.driver().End(started.driver().TakeIo<v1::AppendLog>()->first,
                       absl::AbortedError("number 2 is taken"));
  // Started again the two would end each other for ever.
  EXPECT_TRUE(absl::IsAlreadyExists(started.driver().exit_status));
  EXPECT_TRUE(started.driver().sends.empty());
}

TEST(CoordinatorTest, Promise9_AModelThatCannotBeLaidOutEndsTheStart) {
  Coordinator::Options options = JobOptions();
  options.variables[1].set_name("a");
  StartedCoordinator started(options);
  started.ReadLog();
  started.Append();
  started.Serve();
  started.FindCheckpoint();
  started.driver().LetAllHear();
  EXPECT_TRUE(absl::IsInvalidArgument(started.driver().exit_status));
}

TEST(CoordinatorTest, Promise4_AServerThatDoesNotComeIsNamedWhenTimeIsUp) {
  StartedCoordinator started(JobOptions());
  CoreDriver& driver = started.driver();
  started.ReadLog();
  started.Append();
  driver.Fail(*driver.TakeSend<v1::RecallRequest>(PeerId::Ps(1)),
              absl::UnavailableError("connection refused"));
  v1::RecallReply reply;
  reply.set_incarnation(100);
  driver.Reply(*driver.TakeSend<v1::RecallRequest>(PeerId::Ps(0)), reply);
  EXPECT_EQ(started.core().waiting_for(),
            "ps-1 to be there: connection refused");
  driver.Advance(absl::Seconds(61));
  EXPECT_TRUE(absl::IsDeadlineExceeded(driver.exit_status));
  EXPECT_EQ(driver.exit_status.message(),
            "not started within 1m; waiting for ps-1 to be there: connection "
            "refused");
}

TEST(CoordinatorTest, Promise4_EveryServerThatIsMissingIsNamed) {
  StartedCoordinator started(JobOptions());
  CoreDriver& driver = started.driver();
  started.ReadLog();
  started.Append();
  for (const uint32_t server : {0, 1}) {
    driver.Fail(*driver.TakeSend<v1::RecallRequest>(PeerId::Ps(server)),
                absl::UnavailableError("connection refused"));
  }
  EXPECT_EQ(
      started.core().waiting_for(),
      "ps-0 to be there: connection refused, ps-1 to be there: connection "
      "refused");
}

TEST(CoordinatorTest, AMissingServerIsNamedOnce) {
  for (const auto& [why, whom] : std::map<std::string, std::string>{
           {"ps-1 at host:1: refused", "ps-1 at host:1: refused"},
           {"ps-1 did not answer within 5s",
            "ps-1 to be there: did not answer within 5s"},
           {"", "ps-1 to be there"}}) {
    StartedCoordinator started(JobOptions());
    started.ReadLog();
    started.Append();
    CoreDriver& driver = started.driver();
    driver.Fail(*driver.TakeSend<v1::RecallRequest>(PeerId::Ps(1)),
                absl::UnavailableError(why));
    v1::RecallReply reply;
    reply.set_incarnation(100);
    driver.Reply(*driver.TakeSend<v1::RecallRequest>(PeerId::Ps(0)), reply);
    EXPECT_EQ(started.core().waiting_for(), whom);
  }
}

TEST(CoordinatorTest, AServerThatIsNotThereIsAskedAgain) {
  StartedCoordinator started(JobOptions());
  CoreDriver& driver = started.driver();
  started.ReadLog();
  started.Append();
  driver.Fail(*driver.TakeSend<v1::RecallRequest>(PeerId::Ps(1)),
              absl::UnavailableError("connection refused"));
  EXPECT_FALSE(driver.TakeSend<v1::RecallRequest>(PeerId::Ps(1)).has_value());
  driver.Advance(absl::Milliseconds(200));
  EXPECT_TRUE(driver.TakeSend<v1::RecallRequest>(PeerId::Ps(1)).has_value());
}

TEST(CoordinatorTest, Promise8_AServerHasOneCallUnderWay) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  started.Append();
  started.driver().Advance(absl::Seconds(5));
  EXPECT_EQ(started.driver().sends.size(), 2u);
}

TEST(CoordinatorTest, RunningBeginsWhenEveryServerIsFilled) {
  StartedCoordinator started(JobOptions());
  CoreDriver& driver = started.driver();
  started.ReadLog();
  started.Append();
  started.Serve();
  started.FindCheckpoint();
  started.Append();
  const auto slow = driver.TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  started.Serve();
  driver.Fail(*slow, RefuseForNow(v1::Refusal::NOT_READY, "ps-1",
                                  absl::Milliseconds(20), "still filling"));
  EXPECT_EQ(started.configuration().state(), v1::STARTING);
  EXPECT_EQ(started.core().waiting_for(),
            "ps-1 generation 1.2 to be filled: still filling");
  driver.Advance(absl::Milliseconds(20));
  started.Serve();
  EXPECT_EQ(started.configuration().state(), v1::RUNNING);
  EXPECT_TRUE(driver.HasNote("all 2 servers are filled"));
  EXPECT_EQ(started.core().waiting_for(), "worker-0 to join");
}

TEST(CoordinatorTest, AResumedRunRestoresTheNewestCheckpointThatIsNotRetired) {
  StartedCoordinator started(JobOptions());
  CoreDriver& driver = started.driver();
  v1::ReadLogResult log;
  *log.add_entries() = Entry(1);
  log.mutable_entries(0)->set_term(1);
  *log.add_entries() = Entry(2);
  *log.mutable_entries(1)->mutable_retired() = Pair(1, 9);
  started.ReadLog(log);
  started.Append();
  started.Serve();
  const auto find = driver.TakeIo<v1::FindCheckpoint>();
  ASSERT_EQ(find->second.retired_size(), 1);
  EXPECT_EQ(find->second.retired(0), Pair(1, 9));
  v1::FindCheckpointResult found;
  found.set_path("/c/8");
  found.mutable_manifest()->set_global_step(70);
  for (const v1::Variable& variable : JobOptions().variables) {
    *found.mutable_manifest()->add_variables() = variable;
  }
  found.mutable_manifest()->mutable_input()->set_next_epoch(2);
  found.mutable_manifest()->mutable_input()->set_next_offset(4);
  driver.Complete(find->first, found);
  const v1::Configuration layout = started.Append().configuration();
  for (const v1::ServerMember& member : layout.servers()) {
    EXPECT_EQ(member.restore_directory(), "/c/8");
    EXPECT_EQ(member.generation().term(), 2u);
  }
  started.Serve();
  v1::StatusReply status;
  started.core().FillStatus(&status);
  EXPECT_EQ(status.job().global_step(), 70u);
  EXPECT_EQ(status.job().pushes(), 0u);
  EXPECT_EQ(status.job().epochs_done(), 1.5);
  auto worker = started.Join(0);
  const v1::PortionReply portion = started.NextPortion(&worker, 0);
  EXPECT_EQ(portion.portion().epoch(), 2u);
  EXPECT_EQ(portion.portion().begin(), 4u);
}

TEST(CoordinatorTest, AnUnreadableCheckpointDirectoryEndsTheStart) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  started.Append();
  started.Serve();
  started.driver().End(started.driver().TakeIo<v1::FindCheckpoint>()->first,
                       absl::PermissionDeniedError("not yours"));
  started.driver().LetAllHear();
  EXPECT_EQ(started.driver().exit_status.message(), "not yours");
}

// ---- servers ----------------------------------------------------------------

class RunningCoordinatorTest : public ::testing::Test {
 protected:
  RunningCoordinatorTest() : started_(JobOptions()) {
    started_.Run();
    started_.Serve();
  }
  CoreDriver& driver() { return started_.driver(); }

  StartedCoordinator started_;
};

TEST_F(RunningCoordinatorTest, AServerIsToldTheConfigurationEachHeartbeat) {
  EXPECT_TRUE(driver().sends.empty());
  driver().Advance(absl::Milliseconds(999));
  EXPECT_TRUE(driver().sends.empty());
  driver().Advance(absl::Milliseconds(1));
  EXPECT_EQ(driver().sends.size(), 2u);
}

TEST_F(RunningCoordinatorTest, AControlCallNamesTermAndGeneration) {
  driver().Advance(absl::Seconds(1));
  const auto sent = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  const v1::Header& header =
      static_cast<const v1::ConfigureRequest&>(*sent->head).header();
  EXPECT_EQ(header.term(), 1u);
  EXPECT_EQ(header.server_generation(), Pair(1, 2));
}

TEST_F(RunningCoordinatorTest, Promise5_AServerThatComesBackGetsANewLife) {
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  const v1::Configuration now = started_.configuration();
  EXPECT_GT(now.servers(1).generation(), Pair(1, 2));
  EXPECT_EQ(now.servers(1).incarnation(), started_.incarnation(1));
  EXPECT_EQ(now.servers(0).generation(), Pair(1, 1));
  EXPECT_EQ(now.servers(1).restore_directory(), "");
  EXPECT_TRUE(
      driver().HasNote("ps-1 came back without its shard; it takes "
                       "initial values"));
  EXPECT_FALSE(driver().exited);
}

TEST_F(RunningCoordinatorTest, Promise4_AServerThatIsGoneIsNamedUntilItIsBack) {
  started_.Join(0);
  started_.Join(1);
  EXPECT_EQ(started_.core().waiting_for(), "");
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                absl::UnavailableError("connection refused"));
  EXPECT_EQ(started_.core().waiting_for(),
            "ps-1 generation 1.2 to be there: connection refused");
  driver().Advance(absl::Milliseconds(200));
  started_.Serve();  // The same process: it had only been out of reach.
  EXPECT_EQ(started_.core().waiting_for(), "");
  EXPECT_EQ(started_.configuration().servers(1).generation(), Pair(1, 2));
}

TEST_F(RunningCoordinatorTest,
       AServerOfAnotherCoordinatorMakesThisOneStepDown) {
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::OLD_TERM, "term 1", "term 1 is over"));
  EXPECT_TRUE(absl::IsAlreadyExists(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(),
            "another chief has taken over this run, and nothing counts that "
            "this one still does: term 1 is over");
}

TEST_F(RunningCoordinatorTest, AServerOfAnotherJobEndsTheProcessByName) {
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::OTHER_JOB, "x", "belongs to run x"));
  driver().LetAllHear();
  EXPECT_TRUE(absl::IsInvalidArgument(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(),
            "ps-1 refuses this job: belongs to run x");
}

TEST_F(RunningCoordinatorTest, WhatNamesTheServersPlaceIsNotRepeated) {
  const std::string why = "ps-1 at host:1: another job answers";
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::OTHER_JOB, "x", why));
  driver().LetAllHear();
  EXPECT_EQ(driver().exit_status.message(), why);
}

TEST_F(RunningCoordinatorTest, AServerThatCannotRestoreEndsTheProcess) {
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::INVALID, "dir", "could not restore"));
  driver().LetAllHear();
  EXPECT_TRUE(absl::IsFailedPrecondition(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(), "ps-1: could not restore");
}

TEST_F(RunningCoordinatorTest, AProcessThatWasReplacedDoesNotEndTheJob) {
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::FENCED, "ps-1", "replaced by another"));
  EXPECT_FALSE(driver().exited);
  driver().Advance(absl::Milliseconds(200));
  EXPECT_TRUE(driver().TakeSend<v1::RecallRequest>(PeerId::Ps(1)).has_value());
}

TEST_F(RunningCoordinatorTest, ASecondAnswerOfAServerIsIgnored) {
  driver().Advance(absl::Seconds(1));
  const auto sent = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  v1::ConfigureReply reply;
  reply.set_incarnation(101);
  *reply.mutable_configuration() = started_.configuration().version();
  reply.set_restored(true);
  driver().Reply(*sent, reply);
  driver().Fail(*sent, absl::UnavailableError("late"));
  EXPECT_EQ(started_.core().waiting_for(), "worker-0 to join");
}

TEST_F(RunningCoordinatorTest, AMethodOfAnotherRoleIsRefused) {
  const auto answer = driver().Call(PeerId::Worker(0), v1::SealRequest());
  EXPECT_EQ(RefusalOf(answer.status).reason(), v1::Refusal::INVALID);
}

TEST_F(RunningCoordinatorTest, StatusNamesTheJob) {
  v1::StatusReply status;
  started_.core().FillStatus(&status);
  EXPECT_EQ(status.job().name(), "j");
  EXPECT_EQ(status.job().state(), v1::RUNNING);
  EXPECT_EQ(status.job().servers(), 2u);
  EXPECT_EQ(status.job().workers(), 2u);
  EXPECT_EQ(status.job().epochs(), 2u);
  EXPECT_EQ(status.job().waiting_for(), "worker-0 to join");
  EXPECT_EQ(status.configuration(), started_.configuration().version());
}

// ---- what the variables begin with ------------------------------------------

TEST(CoordinatorTest, EveryServerBeginsWithTheSameTrainedValues) {
  Coordinator::Options options = JobOptions();
  options.job.mutable_warm_start()->set_path("base");
  StartedCoordinator started(options);
  started.ReadLog();
  started.Append();
  started.Serve();
  const auto find = started.driver().TakeIo<v1::FindCheckpoint>();
  ASSERT_TRUE(find.has_value());
  EXPECT_EQ(find->second.warm_start().path(), "base");
  EXPECT_EQ(find->second.variables_size(),
            static_cast<int>(options.variables.size()));
  v1::FindCheckpointResult found;
  found.mutable_warm_start()->set_path("/base/000001-00000003.step-8");
  started.driver().Complete(find->first, found);
  EXPECT_EQ(started.Append().configuration().warm_start().path(),
            "/base/000001-00000003.step-8");
}

TEST(CoordinatorTest, ACheckpointOfTheRunBeatsAWarmStart) {
  Coordinator::Options options = JobOptions();
  options.job.mutable_warm_start()->set_path("base");
  StartedCoordinator started(options);
  started.ReadLog();
  started.Append();
  started.Serve();
  v1::FindCheckpointResult found;
  found.set_path("/run/checkpoints/000001-00000002.step-4");
  found.mutable_manifest()->set_global_step(4);
  started.FindCheckpoint(found);
  const v1::LogEntry layout = started.Append();
  EXPECT_FALSE(layout.configuration().has_warm_start());
  EXPECT_EQ(layout.configuration().servers(0).restore_directory(),
            "/run/checkpoints/000001-00000002.step-4");
}

TEST(CoordinatorTest, ACheckpointWithOtherVariablesEndsTheJob) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  started.Append();
  started.Serve();
  v1::FindCheckpointResult found;
  found.set_path("/elsewhere/000001-00000002.step-4");
  v1::Variable* const other = found.mutable_manifest()->add_variables();
  other->set_name("other");
  other->add_shape(7);
  started.FindCheckpoint(found);
  started.driver().LetAllHear();
  EXPECT_TRUE(started.driver().exited);
  const absl::Status& status = started.driver().exit_status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("/elsewhere/"));
  EXPECT_THAT(status.message(), HasSubstr("is not in it"));
  EXPECT_THAT(status.message(), HasSubstr("'other' (7) is not one of"));
}

// What the process around it finds where the job's head is another than the
// checkpoint's, which is of a job with that digest.
v1::FindCheckpointResult WithAnotherHead(const Coordinator::Options& options) {
  v1::FindCheckpointResult found;
  found.set_path("/run/checkpoints/000001-00000002.step-4");
  v1::Manifest* const manifest = found.mutable_manifest();
  *manifest->mutable_variables() = {options.variables.begin(),
                                    options.variables.end()};
  manifest->mutable_variables(0)->set_name("head");
  manifest->set_job_digest("another");
  manifest->set_global_step(4);
  manifest->mutable_input()->set_next_epoch(2);
  *manifest->mutable_snapshot() = Pair(1, 2);
  found.mutable_warm_start()->set_path(found.path());
  return found;
}

TEST(CoordinatorTest, ARunMayGoOnWithOtherVariablesWhereThatIsAllowed) {
  Coordinator::Options options = JobOptions();
  const std::string changed = options.variables[0].name();
  options.job.mutable_checkpoint()->set_allow_missing("head," + changed);
  StartedCoordinator started(options);
  v1::ReadLogResult log;
  v1::LogEntry* const entry = log.add_entries();
  entry->set_number(1);
  entry->set_run_id("run");
  entry->set_job_digest("another");
  entry->set_term(1);
  started.ReadLog(log);
  started.Append();
  started.Serve();
  const auto find = started.driver().TakeIo<v1::FindCheckpoint>();
  ASSERT_TRUE(find.has_value());
  EXPECT_EQ(find->second.allow_missing(), "head," + changed);
  started.driver().Complete(find->first, WithAnotherHead(options));
  EXPECT_TRUE(started.driver().HasNote("'head' ("));
  EXPECT_TRUE(started.driver().HasNote("slots and counts begin anew"));
  const v1::LogEntry layout = started.Append();
  EXPECT_EQ(layout.job_digest(), "digest");
  EXPECT_EQ(layout.configuration().warm_start().path(),
            "/run/checkpoints/000001-00000002.step-4");
  EXPECT_EQ(layout.configuration().servers(0).restore_directory(), "");
  v1::StatusReply status;
  started.core().FillStatus(&status);
  EXPECT_EQ(status.job().global_step(), 0u);
  EXPECT_EQ(status.job().epochs_done(), 1u);
}

TEST(CoordinatorTest, WhatIsNotAllowedToBeMissingEndsTheJob) {
  Coordinator::Options options = JobOptions();
  options.job.mutable_checkpoint()->set_allow_missing("head");
  StartedCoordinator started(options);
  started.ReadLog();
  started.Append();
  started.Serve();
  started.FindCheckpoint(WithAnotherHead(options));
  started.driver().LetAllHear();
  EXPECT_TRUE(absl::IsInvalidArgument(started.driver().exit_status));
  EXPECT_THAT(started.driver().exit_status.message(),
              HasSubstr("is not in it; checkpoint.allow_missing"));
}

// A start that was refused has logged its term.
TEST(CoordinatorTest, TheLayoutsSayWhichSettingsARunHas) {
  for (const char* const newest : {"digest", "another"}) {
    StartedCoordinator started(JobOptions());
    v1::ReadLogResult log;
    for (const char* const digest : {"first", newest, "refused"}) {
      v1::LogEntry* const entry = log.add_entries();
      entry->set_number(static_cast<uint64_t>(log.entries_size()));
      entry->set_run_id("run");
      entry->set_job_digest(digest);
      entry->set_term(1);
      if (digest == newest) entry->mutable_configuration();
    }
    started.ReadLog(log);
    EXPECT_EQ(started.driver().exited, std::string(newest) == "another");
  }
}

TEST(CoordinatorTest, AWarmStartThatDoesNotFitEndsTheJob) {
  Coordinator::Options options = JobOptions();
  options.job.mutable_warm_start()->set_path("base");
  StartedCoordinator started(options);
  started.ReadLog();
  started.Append();
  started.Serve();
  const auto find = started.driver().TakeIo<v1::FindCheckpoint>();
  started.driver().End(find->first, absl::InvalidArgumentError("no 'w'"));
  started.driver().LetAllHear();
  EXPECT_TRUE(started.driver().exited);
  EXPECT_EQ(started.driver().exit_status.message(), "no 'w'");
}

TEST(CoordinatorTest, AWarmStartThatMayBeReadLaterIsTriedByTheNextStart) {
  for (const bool may_pass : {false, true}) {
    Coordinator::Options options = JobOptions();
    options.job.mutable_warm_start()->set_path("base");
    StartedCoordinator started(options);
    started.ReadLog();
    started.Append();
    started.Serve();
    v1::FindCheckpointResult found;
    found.mutable_warm_start()->set_path("/base");
    started.FindCheckpoint(found);
    started.Append();
    const auto sent =
        started.driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(0));
    ASSERT_TRUE(sent.has_value());
    v1::Refusal refusal;
    refusal.set_entity("/base");
    refusal.set_reason(v1::Refusal::DAMAGED);
    if (may_pass) refusal.set_retry_after_ms(10);
    started.driver().Fail(*sent, Refuse(refusal, "stale file handle"));
    started.driver().LetAllHear();
    ASSERT_TRUE(started.driver().exited);
    EXPECT_EQ(started.driver().exit_status.code(),
              may_pass ? absl::StatusCode::kAborted
                       : absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(started.driver().exit_status.message(),
              "ps-0: stale file handle");
  }
}

}  // namespace
}  // namespace paramd
