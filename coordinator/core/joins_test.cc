#include "coordinator/core/joins.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

class JoinsTest : public ::testing::Test {
 protected:
  JoinsTest() : JoinsTest(JobOptions()) {}
  explicit JoinsTest(const CoordinatorOptions& options) : bench_(options) {}

  v1::JoinRequest RequestOf(uint32_t index, uint64_t incarnation) const {
    v1::JoinRequest request;
    request.mutable_task()->set_type(v1::WORKER);
    request.mutable_task()->set_index(index);
    request.set_incarnation(incarnation);
    request.set_job_digest(bench_.options.job_digest);
    *request.mutable_data() = bench_.options.data;
    return request;
  }
  void Join(const v1::JoinRequest& request) {
    Message message;
    message.from = PeerId::Worker(request.task().index());
    message.call = ++call_;
    bench_.Do([&](Turn* turn) { joins_.OnJoin(message, request, turn); });
  }
  void Advance(bool held = false) {
    bench_.Do([&](Turn* turn) { joins_.Advance(held, turn); });
  }
  void AddSession(uint32_t index, uint64_t incarnation) {
    WorkerRecord& worker = bench_.workers[index];
    worker.incarnation = incarnation;
    worker.generation = Pair(1, 9);
    worker.heard = bench_.now;
  }
  v1::Refusal::Reason Refused() const {
    return RefusalOf(bench_.out.replies.at(0).status).reason();
  }

  PartBench bench_;
  Joins joins_;
  CallId call_ = 0;
};

TEST_F(JoinsTest, WhoAsksGetsASessionUnlessJoinsAreHeld) {
  Join(RequestOf(1, 7));
  Advance(/*held=*/true);
  EXPECT_TRUE(bench_.facts.empty());
  Advance();
  const auto* admitted = bench_.Raised<Admitted>();
  ASSERT_NE(nullptr, admitted);
  EXPECT_EQ(1u, admitted->worker);
  EXPECT_EQ(7u, admitted->request.incarnation());
}

TEST_F(JoinsTest, AJoinIsAnsweredWhenEveryServerHasTheSession) {
  Join(RequestOf(1, 7));
  AddSession(1, 7);
  bench_.workers[1].admitted = Pair(5, 1);
  Advance();
  bench_.Do([&](Turn* turn) { joins_.Answer(turn); });
  EXPECT_TRUE(bench_.out.replies.empty());
  for (ServerRecord& server : bench_.servers) server.acknowledged = Pair(5, 1);
  Advance();
  bench_.Do([&](Turn* turn) { joins_.Answer(turn); });
  ASSERT_EQ(1u, bench_.out.replies.size());
  EXPECT_TRUE(bench_.out.replies[0].status.ok());
  EXPECT_FALSE(joins_.IsJoining(1));
}

TEST_F(JoinsTest, AJoinWaitsForTheServerThatIsLast) {
  Join(RequestOf(1, 7));
  AddSession(1, 7);
  bench_.workers[1].admitted = Pair(1, 4);
  const auto is_answered = [&] {
    Advance();
    bench_.Do([&](Turn* turn) { joins_.Answer(turn); });
    return !bench_.out.replies.empty();
  };
  bench_.servers[1].acknowledged = Pair(1, 3);
  EXPECT_FALSE(is_answered());
  bench_.servers[1].acknowledged = Pair(1, 4);
  bench_.servers[0].restored = false;
  EXPECT_FALSE(is_answered()) << "one is not filled";
  bench_.servers[0].restored = true;
  EXPECT_TRUE(is_answered());
}

TEST_F(JoinsTest, OneCallOfAWorkerIsKept) {
  Join(RequestOf(1, 7));
  Join(RequestOf(1, 7));
  ASSERT_EQ(1u, bench_.out.replies.size());
  EXPECT_EQ(1u, bench_.out.replies[0].call);
}

TEST_F(JoinsTest, ASecondProcessWaitsForTheLeaseOfTheFirst) {
  AddSession(1, 6);
  Join(RequestOf(1, 7));
  Advance();
  EXPECT_TRUE(bench_.facts.empty());
  bench_.now = bench_.now + bench_.job.lease() + absl::Milliseconds(1);
  Advance();
  EXPECT_NE(nullptr, bench_.Raised<SessionOver>());
}

TEST_F(JoinsTest, ASecondProcessIsRefusedWhileTheFirstIsHeard) {
  AddSession(1, 6);
  Join(RequestOf(1, 7));
  bench_.now = bench_.now + 3 * bench_.job.heartbeat();
  bench_.workers[1].heard = bench_.now;
  Advance();
  EXPECT_EQ(v1::Refusal::TASK_TAKEN, Refused());
}

CoordinatorOptions WithTwoBeside() {
  CoordinatorOptions options = JobOptions();
  options.job.set_max_joined_workers(2);
  return options;
}

class JoinsBesideTheListTest : public JoinsTest {
 protected:
  JoinsBesideTheListTest() : JoinsTest(WithTwoBeside()) {}
};

TEST_F(JoinsBesideTheListTest, WhoseIndexIsTakenIsToldHowItGetsAnother) {
  AddSession(2, 6);
  bench_.workers[2].pid = 12;
  bench_.workers[2].host = "here";
  v1::JoinRequest request = RequestOf(2, 7);
  request.set_joined(true);
  Join(request);
  bench_.now = bench_.now + 3 * bench_.job.heartbeat();
  bench_.workers[2].heard = bench_.now;
  Advance();
  EXPECT_EQ(v1::Refusal::TASK_TAKEN, Refused());
  EXPECT_EQ(bench_.out.replies.at(0).status.message(),
            "worker-2 is process 12 on here, which is alive: start this one "
            "again, which gives it another index, or give it a certificate of "
            "its own");
}

TEST_F(JoinsTest, WhoSawTheFirstOneEndTakesItsPlaceAtOnce) {
  AddSession(1, 6);
  v1::JoinRequest request = RequestOf(1, 7);
  request.set_replaces(6);
  Join(request);
  Advance();
  EXPECT_NE(nullptr, bench_.Raised<SessionOver>());
}

TEST_F(JoinsTest, AnotherJobIsRefused) {
  v1::JoinRequest request = RequestOf(1, 7);
  request.set_job_digest("another");
  Join(request);
  EXPECT_EQ(v1::Refusal::OTHER_JOB, Refused());
  EXPECT_FALSE(joins_.IsJoining(1));
}

TEST_F(JoinsTest, AtTheEndWhoAsksIsTold) {
  Join(RequestOf(1, 7));
  bench_.Do([&](Turn* turn) { joins_.TellEnd(turn); });
  EXPECT_EQ(v1::Refusal::JOB_FINISHED, Refused());
  EXPECT_NE(nullptr, bench_.Raised<HeardOfEnd>());
  bench_.phase = JobPhase::kTellingEnd;
  Join(RequestOf(0, 8));
  EXPECT_EQ(v1::Refusal::JOB_FINISHED, Refused());
}

TEST_F(JoinsTest, ACallIsRefusedBeforeItsDeadline) {
  Join(RequestOf(1, 7));
  const auto refuse = [&](Turn* turn) { joins_.RefuseLate(turn); };
  bench_.now = bench_.now + absl::Seconds(1);
  bench_.Do(refuse);
  EXPECT_TRUE(bench_.out.replies.empty());
  bench_.now = bench_.now + absl::Seconds(1);
  bench_.awaited = "ps-0";
  bench_.Do(refuse);
  EXPECT_EQ(v1::Refusal::NOT_READY, Refused());
  EXPECT_EQ("waiting for ps-0", bench_.out.replies.at(0).status.message());
  EXPECT_TRUE(joins_.IsJoining(1));
  bench_.Do(refuse);
  EXPECT_TRUE(bench_.out.replies.empty());
}

}  // namespace
}  // namespace paramd
