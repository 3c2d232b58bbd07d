#include "coordinator/core/step_ledger.h"

#include <variant>

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

class StepLedgerTest : public ::testing::Test {
 protected:
  StepLedgerTest() {
    bench_.configuration.mutable_plan()->mutable_consistency()->set_mode(
        v1::Consistency::SYNC);
    AddWorker(0);
    AddWorker(1);
  }
  void AddWorker(uint32_t index) {
    WorkerRecord& worker = bench_.workers[index];
    worker.generation = Pair(1, 10 + index);
    worker.heard = bench_.now;
    worker.last.set_number(1);
  }
  void Advance(const StepLedger::Obstacles& obstacles = {}) {
    bench_.Do([&](Turn* turn) { ledger_.Advance(obstacles, turn); });
  }
  void LogContributors() {
    Advance();
    ASSERT_EQ(1u, bench_.out.ios.size());
    bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::AppendLog());
  }
  void Drive() {
    bench_.Do([&](Turn* turn) { ledger_.DriveServers(turn); });
  }
  // The answer to what the server is asked, with these contributions whole.
  bool Answer(CallId call, uint32_t server, absl::Status status = {}) {
    v1::DecideReply reply;
    *reply.mutable_contributors() = ledger_.steps().contributors().version();
    for (const uint32_t w : {0, 1}) reply.add_complete(w);
    Message message;
    message.call = call;
    message.is_reply = true;
    message.status = std::move(status);
    message.head = &reply;
    bool is_ours = false;
    bench_.Do(
        [&](Turn* turn) { is_ours = ledger_.OnReply(server, message, turn); });
    return is_ours;
  }

  PartBench bench_{JobOptions()};
  StepLedger ledger_{bench_.options};
};

TEST_F(StepLedgerTest, ContributorsAreLoggedBeforeServersAreAsked) {
  Advance();
  EXPECT_TRUE(ledger_.logging_contributors());
  Drive();
  EXPECT_TRUE(bench_.out.sends.empty());
}

TEST_F(StepLedgerTest, TheFirstStepIsKeptForEveryWorker) {
  bench_.workers.erase(1);
  Advance();
  EXPECT_FALSE(ledger_.logging_contributors());
  bench_.now =
      bench_.now + absl::Milliseconds(bench_.options.job.start_timeout_ms());
  Advance();
  EXPECT_TRUE(ledger_.logging_contributors());
}

TEST_F(StepLedgerTest, AServerHasOneDecideUnderWay) {
  LogContributors();
  Drive();
  EXPECT_EQ(2u, bench_.out.sends.size());
  Drive();
  EXPECT_TRUE(bench_.out.sends.empty());
}

TEST_F(StepLedgerTest, AStepIsDecidedWhenEveryServerHasAllOfIt) {
  LogContributors();
  Drive();
  const CallId first = bench_.out.sends[0].call;
  const CallId second = bench_.out.sends[1].call;
  EXPECT_TRUE(Answer(first, 0));
  Advance();
  EXPECT_EQ(0u, ledger_.steps().step());
  EXPECT_TRUE(Answer(second, 1));
  Advance({.snapshot_open = true});
  EXPECT_EQ(0u, ledger_.steps().step()) << "servers are to freeze";
  Advance({.changing_rate = true});
  EXPECT_EQ(0u, ledger_.steps().step()) << "or to have another rate first";
  Advance();
  EXPECT_EQ(1u, ledger_.steps().step());
}

// What the last place was asked nobody answers any more.
TEST_F(StepLedgerTest, AServerThatWasTakenOverIsAskedInItsOtherPlace) {
  bench_.servers[0].peer = 0;
  LogContributors();
  Drive();
  const CallId first = bench_.out.sends[0].call;
  Answer(bench_.out.sends[1].call, 1);
  bench_.servers[0].peer = 3;
  bench_.servers[0].restored = false;
  ledger_.OnTakenOver(0, bench_.now);
  Drive();
  EXPECT_TRUE(bench_.out.sends.empty()) << "it is to be configured first";
  bench_.servers[0].restored = true;
  Drive();
  ASSERT_EQ(1u, bench_.out.sends.size());
  EXPECT_EQ(PeerId::Ps(3), bench_.out.sends[0].to);
  const CallId again = bench_.out.sends[0].call;
  EXPECT_FALSE(Answer(first, 0));
  EXPECT_TRUE(Answer(again, 0));
  Advance();
  EXPECT_EQ(1u, ledger_.steps().step()) << "with what both have";
}

// Whether that had applied it or not.
TEST_F(StepLedgerTest, AStepIsDecidedAgainWhereAServerWasTakenOver) {
  LogContributors();
  Drive();
  const std::vector<Outbox::SendItem> asked = std::move(bench_.out.sends);
  Answer(asked[0].call, 0);
  Answer(asked[1].call, 1);
  Advance();
  ASSERT_EQ(1u, ledger_.steps().step());
  Drive();
  bench_.servers[1].peer = 5;
  ledger_.OnTakenOver(1, bench_.now);
  Drive();
  ASSERT_EQ(1u, bench_.out.sends.size());
  EXPECT_EQ(PeerId::Ps(5), bench_.out.sends[0].to);
  const auto& again =
      static_cast<const v1::DecideRequest&>(*bench_.out.sends[0].head);
  EXPECT_EQ(1u, again.step());
  EXPECT_EQ(2, again.workers_size());
}

TEST_F(StepLedgerTest, WhatAServerAnswersIsTold) {
  LogContributors();
  Drive();
  const CallId first = bench_.out.sends[0].call;
  const CallId second = bench_.out.sends[1].call;
  EXPECT_FALSE(Answer(first + 100, 0)) << "the answer to something else";
  EXPECT_TRUE(bench_.facts.empty());
  Answer(first, 0, Refuse(v1::Refusal::NOT_READY, "ps-0", "not yet"));
  ASSERT_NE(nullptr, bench_.Raised<ServerHeard>());
  EXPECT_TRUE(bench_.Raised<ServerHeard>()->status.ok());
  Answer(second, 1, absl::UnavailableError("gone"));
  ASSERT_NE(nullptr, bench_.Raised<ServerHeard>());
  EXPECT_EQ("gone", bench_.Raised<ServerHeard>()->status.message());
}

TEST_F(StepLedgerTest, AFenceWaitsUntilTheStepIsOver) {
  bench_.workers[1].fencing = true;
  Advance();
  const auto* due = bench_.Raised<FenceIsDue>();
  ASSERT_NE(nullptr, due);
  EXPECT_EQ(1u, due->worker);
}

// The step is kept for all of them.
TEST_F(StepLedgerTest, AllFencesAreDueTogether) {
  bench_.workers[0].fencing = bench_.workers[1].fencing = true;
  Advance();
  ASSERT_EQ(2u, bench_.facts.size());
  for (const uint32_t worker : {0u, 1u}) {
    const auto* due = std::get_if<FenceIsDue>(&bench_.facts[worker]);
    ASSERT_NE(nullptr, due);
    EXPECT_EQ(worker, due->worker);
  }
  bench_.workers[0].fence_logged = true;
  Advance();
  ASSERT_EQ(1u, bench_.facts.size());
  EXPECT_EQ(1u, bench_.Raised<FenceIsDue>()->worker);
  bench_.workers[1].fence_logged = true;
  Advance();
  EXPECT_TRUE(bench_.facts.empty());
  EXPECT_FALSE(ledger_.logging_contributors()) << "they are in the log first";
}

TEST_F(StepLedgerTest, WhoIsHeardAndNeverContributesHoldsUpTheStep) {
  LogContributors();
  Advance();
  EXPECT_EQ(nullptr, bench_.Raised<HoldsUpStep>());
  bench_.now = bench_.now + absl::Hours(1);
  Advance();
  ASSERT_NE(nullptr, bench_.Raised<HoldsUpStep>());
}

TEST_F(StepLedgerTest, AllGoBackWhenNothingIsBeingCommittedOrLogged) {
  ledger_.GoBack();
  Advance({.committing = true});
  EXPECT_EQ(nullptr, bench_.Raised<BackToCheckpoint>());
  Advance({.logging_mode = true});
  EXPECT_EQ(nullptr, bench_.Raised<BackToCheckpoint>());
  bench_.workers[0].fencing = bench_.workers[0].fence_logged = true;
  Advance();
  EXPECT_EQ(nullptr, bench_.Raised<BackToCheckpoint>());
  bench_.workers.clear();
  Advance();
  EXPECT_NE(nullptr, bench_.Raised<BackToCheckpoint>());
  EXPECT_FALSE(ledger_.going_back());
}

TEST_F(StepLedgerTest, NobodyGoesBackBehindTheLastCheckpoint) {
  ledger_.GoBack();
  bench_.phase = JobPhase::kWritingResult;
  Advance();
  EXPECT_EQ(nullptr, bench_.Raised<BackToCheckpoint>());
}

}  // namespace
}  // namespace paramd
