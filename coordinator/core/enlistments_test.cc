#include "coordinator/core/enlistments.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

// Of a job of two workers that names "a:1" and "b:1".
CoordinatorOptions WithJoined(uint32_t most) {
  CoordinatorOptions options = JobOptions();
  options.job.set_max_joined_workers(most);
  options.ps_addresses = {"a:1", "b:1"};
  return options;
}

class EnlistmentsTest : public ::testing::Test {
 protected:
  explicit EnlistmentsTest(uint32_t most = 2) : bench_(WithJoined(most)) {}

  void Enlist(uint64_t incarnation, PeerId from = PeerId::AnyWorker()) {
    v1::EnlistRequest request;
    request.set_incarnation(incarnation);
    request.set_host("host");
    request.set_pid(7);
    Message message;
    message.from = from;
    message.call = ++call_;
    bench_.Do([&](Turn* turn) {
      enlistments_.OnEnlist(
          message, request,
          [&](uint32_t worker) { return joining_.contains(worker); }, turn);
    });
  }
  // The index that the last one got; 0: it was refused.
  uint32_t Index() const {
    const Outbox::ReplyItem& reply = bench_.out.replies.at(0);
    if (!reply.status.ok()) return 0;
    return static_cast<const v1::EnlistReply&>(*reply.head).index();
  }
  v1::Refusal::Reason Refused() const {
    return RefusalOf(bench_.out.replies.at(0).status).reason();
  }
  uint32_t RetryAfterMs() const {
    return RefusalOf(bench_.out.replies.at(0).status).retry_after_ms();
  }
  std::string Sentence() const {
    return std::string(bench_.out.replies.at(0).status.message());
  }
  void AddSession(uint32_t index, uint64_t incarnation) {
    WorkerRecord& worker = bench_.workers[index];
    worker.incarnation = incarnation;
    worker.generation = Pair(1, 9);
    worker.heard = bench_.now;
  }

  PartBench bench_;
  Enlistments enlistments_;
  std::set<uint32_t> joining_;
  CallId call_ = 0;
};

TEST_F(EnlistmentsTest, WhoAsksGetsAnIndexBehindThoseOfTheListAndItsServers) {
  Enlist(11);
  ASSERT_EQ(Index(), 2u);
  const auto& reply =
      static_cast<const v1::EnlistReply&>(*bench_.out.replies.at(0).head);
  EXPECT_EQ(reply.workers(), 2u);
  ASSERT_EQ(reply.ps_size(), 2);
  EXPECT_EQ(reply.ps(1), "b:1");
  Enlist(12);
  EXPECT_EQ(Index(), 3u);
}

TEST_F(EnlistmentsTest, TheSameProcessGetsTheSameIndex) {
  Enlist(11);
  Enlist(12);
  Enlist(11);
  EXPECT_EQ(Index(), 2u);
  AddSession(3, 12);
  Enlist(12);
  EXPECT_EQ(Index(), 3u);
}

TEST_F(EnlistmentsTest, MoreThanTheLimitAreRefusedByItsName) {
  Enlist(11);
  Enlist(12);
  Enlist(13);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(Sentence(),
            "as many workers as may have joined job 'j', or are about to; "
            "max_joined_workers of its chief is 2");
}

TEST_F(EnlistmentsTest, WhileOneThatHasAnIndexMayStillComeItIsRefusedForNow) {
  AddSession(2, 11);
  Enlist(12);  // And dies.
  ASSERT_EQ(Index(), 3u);
  Enlist(13);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
  EXPECT_GT(RetryAfterMs(), 0u);
  AddSession(3, 12);  // Or comes.
  Enlist(13);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(RetryAfterMs(), 0u);
}

TEST_F(EnlistmentsTest, AnIndexIsKeptForAsLongAsAStartMayTake) {
  Enlist(11);
  Enlist(12);
  bench_.now = bench_.now + absl::Seconds(60);
  Enlist(13);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
  bench_.now = bench_.now + absl::Milliseconds(1);
  Enlist(13);
  EXPECT_EQ(Index(), 2u);
}

TEST_F(EnlistmentsTest, WhoDoesNotJoinKeepsNoIndex) {
  Enlist(11);
  Enlist(12);
  enlistments_.GiveUp(11);
  Enlist(13);
  EXPECT_EQ(Index(), 2u);
  enlistments_.GiveUp(11);
  Enlist(14);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
}

TEST_F(EnlistmentsTest, WhoSaysThatItDoesNotJoinKeepsNoIndex) {
  Enlist(11);
  Enlist(12);
  v1::EnlistRequest request;
  request.set_incarnation(11);
  request.set_gives_up(true);
  Message message;
  message.from = PeerId::AnyWorker();
  message.call = ++call_;
  bench_.Do([&](Turn* turn) {
    enlistments_.OnEnlist(
        message, request, [](uint32_t) { return false; }, turn);
  });
  EXPECT_TRUE(bench_.out.replies.at(0).status.ok());
  EXPECT_EQ(Index(), 0u);
  Enlist(13);
  EXPECT_EQ(Index(), 2u);
}

TEST_F(EnlistmentsTest, WhoseSessionsAllEndKeepTheirIndicesForALease) {
  AddSession(1, 10);
  AddSession(2, 11);
  bench_.Do([&](Turn* turn) { enlistments_.KeepSessions(*turn); });
  bench_.workers.clear();
  Enlist(13);
  EXPECT_EQ(Index(), 3u);
  Enlist(14);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
  bench_.now = bench_.now + bench_.job.lease() + absl::Milliseconds(1);
  Enlist(14);
  EXPECT_EQ(Index(), 2u);
}

TEST_F(EnlistmentsTest, WhoIsBackAfterAllSessionsHaveEndedIsKeptNoMore) {
  AddSession(2, 11);
  bench_.Do([&](Turn* turn) { enlistments_.KeepSessions(*turn); });
  Enlist(13);  // The session is there again.
  EXPECT_EQ(Index(), 3u);
  bench_.workers.clear();  // And has left.
  Enlist(14);
  EXPECT_EQ(Index(), 2u);
}

TEST_F(EnlistmentsTest, WhoAsksForASessionKeepsItsIndexForLonger) {
  Enlist(11);
  joining_ = {2};
  bench_.now = bench_.now + absl::Seconds(61);
  Enlist(12);
  EXPECT_EQ(Index(), 3u);
}

TEST_F(EnlistmentsTest, TheIndexOfASilentSessionIsGivenToOneProcess) {
  AddSession(2, 11);
  AddSession(3, 12);
  Enlist(13);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
  bench_.now = bench_.now + bench_.job.lease() / 2;
  Enlist(13);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
  bench_.now = bench_.now + absl::Milliseconds(1);
  bench_.workers[2].heard = bench_.now;
  Enlist(13);
  EXPECT_EQ(Index(), 3u);
  Enlist(14);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
}

TEST_F(EnlistmentsTest, TheIndexOfOneThatIsHeardAgainIsKeptForNobodyElse) {
  AddSession(2, 11);
  AddSession(3, 12);
  bench_.now = bench_.now + absl::Seconds(6);
  bench_.workers[3].heard = bench_.now;
  Enlist(13);
  EXPECT_EQ(Index(), 2u);
  bench_.workers[2].heard = bench_.now;
  Enlist(14);
  EXPECT_EQ(Refused(), v1::Refusal::OVER_LIMIT);
  bench_.workers.erase(2);  // It leaves.
  Enlist(14);
  EXPECT_EQ(Index(), 2u);
}

TEST_F(EnlistmentsTest, AnIndexThatNobodyHasComesBeforeASilentOne) {
  AddSession(2, 11);
  bench_.now = bench_.now + absl::Seconds(6);
  Enlist(13);
  EXPECT_EQ(Index(), 3u);
}

TEST_F(EnlistmentsTest, ACertificateNamesTheIndex) {
  Enlist(11, PeerId::Worker(3));
  EXPECT_EQ(Index(), 3u);
  Enlist(11, PeerId::Worker(1));
  EXPECT_EQ(Refused(), v1::Refusal::INVALID);
  EXPECT_EQ(Sentence(),
            "the certificate is that of worker-1; those that join have "
            "worker-2 to worker-3");
  Enlist(11, PeerId::Worker(4));
  EXPECT_EQ(Refused(), v1::Refusal::INVALID);
}

TEST_F(EnlistmentsTest, WhoIsNoWorkerIsRefused) {
  Enlist(11, PeerId::Ps(2));
  EXPECT_EQ(Refused(), v1::Refusal::NOT_ALLOWED);
}

TEST_F(EnlistmentsTest, NobodyEnlistsBeforeTheSessionsAreKnown) {
  bench_.phase = JobPhase::kRecalling;
  bench_.awaited = "ps-0";
  Enlist(11);
  EXPECT_EQ(Refused(), v1::Refusal::NOT_READY);
  EXPECT_EQ(Sentence(), "a coordinator that has just begun waits for ps-0");
}

TEST_F(EnlistmentsTest, AtTheEndWhoAsksIsTold) {
  bench_.phase = JobPhase::kTellingEnd;
  Enlist(11);
  EXPECT_EQ(Refused(), v1::Refusal::JOB_FINISHED);
}

class NoEnlistmentsTest : public EnlistmentsTest {
 protected:
  NoEnlistmentsTest() : EnlistmentsTest(0) {}
};

TEST_F(NoEnlistmentsTest, UnlessTheSettingSaysSoNobodyMayJoin) {
  Enlist(11);
  EXPECT_EQ(Refused(), v1::Refusal::INVALID);
  EXPECT_EQ(Sentence(),
            "job 'j' takes no workers beside the 2 that its cluster names: "
            "give its chief max_joined_workers");
}

}  // namespace
}  // namespace paramd
