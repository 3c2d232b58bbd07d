// The parts of a worker, each without a worker.
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "proto/paramd/v1/compute.pb.h"
#include "proto/refusal.h"
#include "worker/core/computation.h"
#include "worker/core/heartbeats.h"
#include "worker/core/input_leases.h"
#include "worker/core/joining.h"
#include "worker/core/worker_evaluation.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using testing::MakeConfiguration;
using testing::Pair;

// One event after the other, and what the part did.
class PartTest : public ::testing::Test {
 protected:
  WorkerTurn* Turn() {
    out_ = Outbox();
    turn_ = std::make_unique<WorkerTurn>(now_, &out_, &numbers_);
    return turn_.get();
  }
  static Message Answer(CallId call, const google::protobuf::Message* head) {
    Message message;
    message.call = call;
    message.is_reply = true;
    message.head = head;
    return message;
  }
  static Message Failure(CallId call, absl::Status status) {
    Message message = Answer(call, nullptr);
    message.status = std::move(status);
    return message;
  }
  CallId sent() const { return out_.sends.at(0).call; }
  template <typename Head>
  const Head& Sent() const {
    return dynamic_cast<const Head&>(*out_.sends.at(0).head);
  }

  Time now_;
  Outbox out_;
  WorkerNumbers numbers_;
  std::unique_ptr<WorkerTurn> turn_;
};

// ---- input ------------------------------------------------------------------

class InputLeasesTest : public PartTest {
 protected:
  void Give(uint64_t id, uint64_t begin, uint64_t end) {
    v1::PortionReply reply;
    reply.set_term(1);
    reply.mutable_portion()->set_id(id);
    reply.mutable_portion()->set_epoch(2);
    reply.mutable_portion()->set_begin(begin);
    reply.mutable_portion()->set_end(end);
    input_.Ask(v1::Header(), Turn());
    const CallId call = sent();
    EXPECT_TRUE(input_.Take(Answer(call, &reply), /*term=*/1, Turn()));
  }
  v1::WorkerCut Cut() {
    v1::WorkerCut cut;
    input_.FillCut(open_, &cut);
    return cut;
  }

  InputLeases input_{Time()};
  absl::optional<InputLeases::Range> open_;
};

TEST_F(InputLeasesTest, BatchesFollowEachOtherAndNoneSpansTwoPortions) {
  Give(1, 0, 5);
  Give(2, 20, 22);
  EXPECT_EQ(input_.BatchesLeft(4), 3u);
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  while (const auto range = input_.TakeExamples(4)) {
    EXPECT_EQ(range->epoch, 2u);
    taken.emplace_back(range->begin, range->end);
  }
  EXPECT_THAT(taken,
              ::testing::ElementsAre(std::pair(0u, 4u), std::pair(4u, 5u),
                                     std::pair(20u, 22u)));
  EXPECT_EQ(input_.BatchesLeft(4), 0u);
}

TEST_F(InputLeasesTest, Promise1_APortionIsFinishedWhenAllOfItIsUsed) {
  Give(7, 0, 4);
  input_.TakeExamples(4);
  input_.Used(7, 2);
  EXPECT_FALSE(input_.empty());
  EXPECT_EQ(Cut().remaining(0).begin(), 2u);
  input_.Used(7, 4);
  EXPECT_TRUE(input_.empty());
  input_.Ask(v1::Header(), Turn());
  EXPECT_EQ(Sent<v1::PortionRequest>().finished_id(), 7u);
}

TEST_F(InputLeasesTest, WhatAnOpenPushIsOfDoesNotRemain) {
  Give(7, 0, 4);
  open_ = input_.TakeExamples(3);
  EXPECT_EQ(Cut().remaining(0).begin(), 3u);
  EXPECT_EQ(Cut().last_portion(), 7u);
}

TEST_F(InputLeasesTest, Promise1_ARequestKeepsItsNumberUntilItIsAnswered) {
  input_.Ask(v1::Header(), Turn());
  EXPECT_FALSE(input_.may_ask());
  const CallId call = sent();
  EXPECT_FALSE(
      input_.Take(Failure(call, absl::UnavailableError("")), 1, Turn()));
  EXPECT_GT(input_.ask_at(), now_);
  input_.Ask(v1::Header(), Turn());
  EXPECT_EQ(Sent<v1::PortionRequest>().number(), 1u);
  EXPECT_EQ(input_.Held(3).answered(), 0u);
}

TEST_F(InputLeasesTest, WhereThereIsNoneTheCoordinatorSaysWhenToAskAgain) {
  v1::PortionReply reply;
  reply.set_term(1);
  const auto ask = [&] {
    input_.Ask(v1::Header(), Turn());
    const CallId call = sent();
    EXPECT_TRUE(input_.Take(Answer(call, &reply), 1, Turn()));
  };
  ask();
  EXPECT_TRUE(input_.none_now());
  EXPECT_EQ(input_.ask_at() - now_, absl::Milliseconds(50));
  reply.set_retry_ms(700);
  ask();
  EXPECT_EQ(input_.ask_at() - now_, absl::Milliseconds(700));
}

TEST_F(InputLeasesTest, TheFilesOfAnInputThatGrowsAreFetched) {
  v1::PortionReply reply;
  reply.set_term(1);
  reply.mutable_portion()->set_id(1);
  reply.mutable_portion()->set_epoch(2);
  reply.mutable_portion()->set_end(4);
  reply.mutable_files()->set_epoch(2);
  reply.mutable_files()->add_files()->set_name("a.csv");
  input_.Ask(v1::Header(), Turn());
  const CallId call = sent();
  EXPECT_TRUE(input_.Take(Answer(call, &reply), 1, Turn()));
  ASSERT_FALSE(out_.ios.empty());
  const auto& fetch =
      dynamic_cast<const v1::FetchPortion&>(*out_.ios.back().head);
  EXPECT_EQ(fetch.files().files(0).name(), "a.csv");
}

TEST_F(InputLeasesTest, WhatAnEarlierCoordinatorGaveIsNotTaken) {
  v1::PortionReply reply;
  reply.set_term(1);
  reply.mutable_portion()->set_end(4);
  input_.Ask(v1::Header(), Turn());
  const CallId call = sent();
  EXPECT_FALSE(input_.Take(Answer(call, &reply), /*term=*/2, Turn()));
  EXPECT_TRUE(input_.empty());
}

// ---- joining ----------------------------------------------------------------

class JoiningTest : public PartTest {
 protected:
  void Refuse(const absl::Status& why) {
    joining_.Ask(v1::JoinRequest(), Turn());
    const CallId call = sent();
    EXPECT_EQ(joining_.Take(Failure(call, why), Turn()), nullptr);
  }
  Joining joining_{Time()};
};

TEST_F(JoiningTest, OneRequestIsUnderWayAtATime) {
  EXPECT_TRUE(joining_.may_ask());
  joining_.Ask(v1::JoinRequest(), Turn());
  EXPECT_FALSE(joining_.may_ask());
  const v1::JoinReply reply;
  const CallId call = sent();
  EXPECT_EQ(joining_.Take(Answer(call, &reply), Turn()), &reply);
}

TEST_F(JoiningTest, Promise4_WhoIsMissingIsStillNamedWhenNobodyAnswers) {
  Refuse(RefuseForNow(v1::Refusal::NOT_READY, "ps-1", absl::ZeroDuration(),
                      "waiting for ps-1"));
  EXPECT_EQ(joining_.why(), "waiting for ps-1");
  EXPECT_FALSE(out_.exited);
  Refuse(absl::UnavailableError("refused"));
  EXPECT_EQ(joining_.why(), "refused; it waited for ps-1");
}

TEST_F(JoiningTest, ATakenTaskEndsTheProcess) {
  Refuse(paramd::Refuse(v1::Refusal::TASK_TAKEN, "worker-3", "taken"));
  EXPECT_TRUE(absl::IsAlreadyExists(out_.exit_status));
}

// ---- heartbeats -------------------------------------------------------------

TEST_F(PartTest, OnlyAnAnswerOfThePresentCoordinatorCounts) {
  Heartbeats beats(/*term=*/2, now_);
  EXPECT_TRUE(beats.is_due(now_));
  beats.Send(v1::HeartbeatRequest(), v1::WorkerStats(), absl::Seconds(1),
             Turn());
  EXPECT_EQ(Sent<v1::HeartbeatRequest>().number(), 1u);
  EXPECT_TRUE(beats.is_open());
  v1::HeartbeatReply reply;
  reply.set_term(1);
  reply.set_stop(true);
  EXPECT_FALSE(beats.Take(Answer(sent(), &reply), now_));
  EXPECT_FALSE(beats.last_reply().stop());
  beats.Unanswered(absl::UnavailableError("away"));
  EXPECT_EQ(beats.why_silent(), "away");
  now_ = now_ + absl::Seconds(1);
  beats.Send(v1::HeartbeatRequest(), v1::WorkerStats(), absl::Seconds(1),
             Turn());
  EXPECT_EQ(Sent<v1::HeartbeatRequest>().number(), 2u);
  reply.set_term(3);
  EXPECT_TRUE(beats.Take(Answer(sent(), &reply), now_));
  EXPECT_TRUE(beats.last_reply().stop());
  EXPECT_EQ(beats.term(), 3u);
  EXPECT_EQ(beats.last_heard(), now_);
  EXPECT_EQ(beats.why_silent(), "");
}

TEST_F(PartTest, WhereThisProcessStoodStillTheCoordinatorWasNotSilent) {
  Heartbeats beats(/*term=*/2, now_);
  const auto send = [&] {
    beats.Send(v1::HeartbeatRequest(), v1::WorkerStats(), absl::Seconds(1),
               Turn());
  };
  const auto lose = [&](absl::Duration after) {
    now_ = now_ + after;
    EXPECT_FALSE(
        beats.Take(Failure(sent(), absl::DeadlineExceededError("late")), now_));
  };
  const Time begin = now_;
  send();
  lose(absl::Seconds(2));
  now_ = now_ + absl::Milliseconds(200);
  send();
  lose(absl::Seconds(2));
  EXPECT_EQ(beats.last_heard(), begin) << "these came in time";
  now_ = now_ + absl::Minutes(11);
  send();
  EXPECT_EQ(beats.last_heard(), now_) << "between two calls";
  lose(absl::Minutes(11));
  EXPECT_EQ(beats.last_heard(), now_) << "during one";
}

// ---- computing --------------------------------------------------------------

class ComputationTest : public PartTest {
 protected:
  void Start(bool by_layers) {
    computation_.Start(std::make_unique<v1::ComputeGradient>(),
                       {Buffer::Allocate(8)}, /*copy=*/1, by_layers, Turn());
  }
  IoResult Part(IoId io) {
    IoResult result;
    result.io = io;
    return result;
  }

  Computation computation_;
};

TEST_F(ComputationTest, TheWorkHasTheWeights) {
  Start(/*by_layers=*/false);
  ASSERT_EQ(out_.ios.size(), 1u);
  EXPECT_EQ(out_.ios[0].payload.size(), 1u);
  EXPECT_TRUE(computation_.busy());
  IoResult result;
  result.io = out_.ios[0].io;
  EXPECT_TRUE(computation_.IsResult(result));
  computation_.End(computation_.io());
  EXPECT_FALSE(computation_.busy());
}

TEST_F(ComputationTest, LayersAreTakenAsTheyBecomeReady) {
  Start(/*by_layers=*/true);
  ASSERT_EQ(out_.ios.size(), 2u);
  const IoResult part = Part(out_.ios[1].io);
  ASSERT_TRUE(computation_.IsPart(part));
  EXPECT_TRUE(computation_.TakePart(Turn()));
  EXPECT_FALSE(computation_.IsPart(part));
  computation_.AskForMore(Turn());
  EXPECT_EQ(out_.ios.size(), 1u);
}

TEST_F(ComputationTest, APartOfTheOneBeforeIsDroppedAndAskedForAgain) {
  Start(/*by_layers=*/true);
  computation_.End(computation_.io());
  Start(/*by_layers=*/true);
  EXPECT_EQ(out_.ios.size(), 1u);  // One question is open.
  EXPECT_FALSE(computation_.TakePart(Turn()));
  EXPECT_EQ(out_.ios.size(), 1u);
}

TEST_F(ComputationTest, Promise4_OneThatDoesNotEndIsNamed) {
  auto compute = std::make_unique<v1::ComputeGradient>();
  compute->set_epoch(3);
  compute->set_begin(16);
  compute->set_end(24);
  computation_.Start(std::move(compute), {}, /*copy=*/0, /*by_layers=*/false,
                     Turn());
  EXPECT_EQ(computation_.overdue(now_ + absl::Seconds(29)), "");
  EXPECT_EQ(computation_.overdue(now_ + absl::Seconds(30)),
            "its own gradient of examples [16, 24) of epoch 3");
  computation_.End(computation_.io());
  EXPECT_EQ(computation_.overdue(now_ + absl::Seconds(30)), "");
}

TEST_F(ComputationTest, NothingIsAbandonedWhereNothingIsComputed) {
  computation_.Abandon(Turn());
  EXPECT_TRUE(out_.ios.empty());
}

// ---- evaluations ------------------------------------------------------------

TEST_F(PartTest, AnEvaluationThatFailsEndsTheProcess) {
  WorkerEvaluation evaluation(/*epochs=*/2);
  evaluation.Pulled(/*given_up=*/false, Turn());
  ASSERT_EQ(out_.ios.size(), 1u);
  IoResult result;
  result.io = out_.ios[0].io;
  ASSERT_TRUE(evaluation.IsResult(result));
  result.status = absl::DataLossError("truncated file");
  evaluation.Take(result, Turn());
  EXPECT_THAT(std::string(out_.exit_status.message()),
              HasSubstr("truncated file"));
  EXPECT_FALSE(evaluation.busy());
}

// A sparse variable "t" of 8 rows of 2 beside "a". The test plays the server
// and whoever computes.
class SparseEvaluationTest : public PartTest {
 protected:
  SparseEvaluationTest() {
    v1::Configuration configuration =
        MakeConfiguration({{"a", {2}, 0}, {"t", {8, 2}, 0}}, 1);
    configuration.mutable_layout()->mutable_variables(1)->set_sparse(true);
    EXPECT_TRUE(session_.Configure(configuration, Pair(1, 7)).ok());
    evaluation_.BeginSession(&session_);
    asked_.set_evaluate_epoch(1);
  }

  void Collected(const std::vector<uint64_t>& rows) {
    IoResult result;
    result.io = out_.ios.at(0).io;
    result.head = std::make_unique<v1::CollectEvaluationRowsResult>();
    result.payload = {Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)))};
    ASSERT_TRUE(evaluation_.IsResult(result));
    evaluation_.Take(result, Turn());
  }
  // That which was begun, of rows 1 and 5.
  void ExpectLookup() {
    ASSERT_EQ(out_.sends.size(), 1u);
    ASSERT_EQ(Sent<v1::PullRequest>().rows().rows_size(), 1);
    EXPECT_EQ(Sent<v1::PullRequest>().rows().rows(0), 2u);
    EXPECT_FALSE(Sent<v1::PullRequest>().has_clock()) << "nobody waits for it";
  }

  v1::HeartbeatReply asked_;
  // Nothing that was sent is answered here.
  Session session_{Session::Options{.worker = 3, .calls_per_server = 16}};
  WorkerEvaluation evaluation_{/*epochs=*/2};
};

TEST_F(SparseEvaluationTest, RowsAreAskedForOnceAndLookedUpEachTime) {
  evaluation_.Advance(asked_, Turn());
  ASSERT_EQ(out_.ios.size(), 1u);
  EXPECT_EQ(out_.ios[0].head->GetDescriptor(),
            v1::CollectEvaluationRows::descriptor());
  Collected({1, 5});
  EXPECT_FALSE(evaluation_.busy());
  for (uint32_t epoch = 1; epoch <= 2; ++epoch) {
    asked_.set_evaluate_epoch(epoch);
    evaluation_.Advance(asked_, Turn());
    ASSERT_EQ(out_.sends.size(), 1u);
    EXPECT_EQ(Sent<v1::PullRequest>().blocks_size(), 1) << "of 'a' alone";
    evaluation_.Pulled(/*given_up=*/false, Turn());
    ExpectLookup();
    evaluation_.LookedUp(/*given_up=*/false, Turn());
    ASSERT_EQ(out_.ios.size(), 1u);
    const BufferChain& weights = out_.ios[0].payload;
    ASSERT_EQ(weights.size(), 3u) << "two variables, and numbers of rows";
    EXPECT_EQ(weights[1].size(), 2u * 2 * sizeof(float));
    EXPECT_EQ(weights[2].size(), 2u * sizeof(uint64_t));
    auto head = std::make_unique<v1::EvaluateWeightsResult>();
    head->mutable_evaluation()->set_epoch(epoch);
    IoResult result;
    result.io = out_.ios[0].io;
    result.head = std::move(head);
    evaluation_.Take(result, Turn());
  }
}

TEST_F(SparseEvaluationTest, ALookupThatIsGivenUpBeginsAnew) {
  evaluation_.Advance(asked_, Turn());
  Collected({1, 5});
  evaluation_.Advance(asked_, Turn());
  evaluation_.Pulled(/*given_up=*/false, Turn());
  evaluation_.LookedUp(/*given_up=*/true, Turn());
  ExpectLookup();
}

TEST_F(SparseEvaluationTest, ASessionThatEndsMeanwhileKeepsTheRows) {
  evaluation_.Advance(asked_, Turn());
  auto ios = std::move(out_.ios);
  evaluation_.EndSession();
  out_.ios = std::move(ios);
  Collected({1, 5});
  evaluation_.BeginSession(&session_);
  evaluation_.Advance(asked_, Turn());
  EXPECT_EQ(out_.sends.size(), 1u);
}

TEST_F(SparseEvaluationTest, RowsThatTheVariableHasNotEndTheWorker) {
  evaluation_.Advance(asked_, Turn());
  Collected({8});
  evaluation_.Advance(asked_, Turn());
  evaluation_.Pulled(/*given_up=*/false, Turn());
  EXPECT_THAT(std::string(out_.exit_status.message()),
              HasSubstr("there is no row 8 of 't'"));
}

IoResult Evaluated(IoId io, uint32_t epoch, bool final) {
  auto head = std::make_unique<v1::EvaluateWeightsResult>();
  head->mutable_evaluation()->set_epoch(epoch);
  head->mutable_evaluation()->set_final(final);
  IoResult result;
  result.io = io;
  result.head = std::move(head);
  return result;
}

TEST_F(PartTest, WhatWasReportedIsOfTheSessionThatHasEnded) {
  WorkerEvaluation evaluation(/*epochs=*/2);
  evaluation.Pulled(/*given_up=*/false, Turn());
  const IoId io = out_.ios[0].io;
  evaluation.Take(Evaluated(io, 1, /*final=*/false), Turn());
  EXPECT_EQ(evaluation.newest().epoch(), 1u);
  evaluation.EndSession();
  EXPECT_EQ(evaluation.newest().epoch(), 0u);
}

// Its weights may be those of steps that the job has gone back behind.
TEST_F(PartTest, WhatIsComputedOfASessionThatHasEndedIsDropped) {
  WorkerEvaluation evaluation(/*epochs=*/2);
  evaluation.Pulled(/*given_up=*/false, Turn());
  IoId io = out_.ios[0].io;
  evaluation.EndSession();
  ASSERT_TRUE(evaluation.busy());
  evaluation.Take(Evaluated(io, 2, /*final=*/true), Turn());
  EXPECT_FALSE(evaluation.busy());
  EXPECT_FALSE(evaluation.newest().final());
  // The next one is of the next session.
  evaluation.Pulled(/*given_up=*/false, Turn());
  io = out_.ios[0].io;
  evaluation.Take(Evaluated(io, 2, /*final=*/true), Turn());
  EXPECT_TRUE(evaluation.newest().final());
}

}  // namespace
}  // namespace paramd
