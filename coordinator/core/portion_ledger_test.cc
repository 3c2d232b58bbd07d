#include "coordinator/core/portion_ledger.h"

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

class PortionLedgerTest : public ::testing::Test {
 protected:
  // True if it is not refused; the answer is in reply_.
  bool Take(uint32_t worker, uint64_t number,
            const PortionLedger::Snapshot* told = nullptr,
            const v1::SnapshotNumber& known = {}) {
    v1::PortionRequest request;
    request.set_number(number);
    request.mutable_header()->set_worker(worker);
    *request.mutable_header()->mutable_snapshot() = known;
    Message message;
    message.call = number;
    bool taken = false;
    bench_.Do([&](Turn* turn) {
      taken = ledger_.OnTake(message, request, told, turn);
    });
    const Outbox::ReplyItem& reply = bench_.out.replies.at(0);
    if (reply.head != nullptr) {
      reply_ = static_cast<const v1::PortionReply&>(*reply.head);
    }
    reason_ = RefusalOf(reply.status).reason();
    return taken;
  }

  PartBench bench_{JobOptions()};
  PortionLedger ledger_{bench_.options};
  v1::PortionReply reply_;
  v1::Refusal::Reason reason_;
};

TEST_F(PortionLedgerTest, ARepeatedRequestHasTheSameAnswer) {
  ASSERT_TRUE(Take(0, 1));
  const v1::PortionReply first = reply_;
  ASSERT_TRUE(first.has_portion());
  ASSERT_TRUE(Take(0, 1));
  EXPECT_TRUE(MessageDifferencer::Equals(first, reply_));
}

TEST_F(PortionLedgerTest, ARequestOutOfOrderIsRefused) {
  EXPECT_FALSE(Take(0, 2));
  EXPECT_EQ(v1::Refusal::INVALID, reason_);
  ASSERT_TRUE(Take(0, 1));
  EXPECT_FALSE(Take(0, 0));
  EXPECT_EQ(v1::Refusal::SUPERSEDED, reason_);
}

TEST_F(PortionLedgerTest, BehindACutThatIsNotKnownNothingCountsAsUsed) {
  const PortionLedger::Snapshot open = {Pair(1, 3), false};
  EXPECT_FALSE(Take(0, 1, &open, Pair(1, 3)));
  EXPECT_EQ(v1::Refusal::RETRY, reason_);
  EXPECT_TRUE(Take(0, 1, &open)) << "the worker has not heard of it";
  const PortionLedger::Snapshot cut = {Pair(1, 3), true};
  EXPECT_TRUE(Take(0, 2, &cut, Pair(1, 3)));
}

TEST_F(PortionLedgerTest, WhatIsUsedIsTold) {
  ASSERT_TRUE(Take(0, 1));
  const auto* used = bench_.Raised<InputUsed>();
  ASSERT_NE(nullptr, used);
  EXPECT_EQ(0u, used->worker);
}

TEST_F(PortionLedgerTest, WhatAWorkerThatIsGoneHeldIsHandedOutAgain) {
  ASSERT_TRUE(Take(0, 1));
  const v1::Portion held = reply_.portion();
  WorkerRecord worker;
  worker.acknowledged = 7;
  ledger_.OnWorkerGone(0, worker);
  EXPECT_EQ(7u, ledger_.Pushes(bench_.job));
  ASSERT_TRUE(Take(1, 1));
  EXPECT_EQ(held.begin(), reply_.portion().begin());
  EXPECT_EQ(held.end(), reply_.portion().end());
  ASSERT_TRUE(Take(0, 1)) << "its successor begins anew";
}

TEST_F(PortionLedgerTest, WhatASessionTellsOfItsPushesIsCountedByItAlone) {
  bench_.workers[0].acknowledged = 3;
  ledger_.TakeOver(10, ledger_.portions().Save({}), {0});
  EXPECT_EQ(13u, ledger_.Pushes(bench_.job));
  v1::HeartbeatRequest request;
  request.mutable_header()->set_sequence(6);
  request.mutable_held()->set_term(bench_.job.configuration.version().term());
  bench_.Do([&](Turn* turn) {
    EXPECT_FALSE(ledger_.AskWhatItHolds(Message(), request, turn));
  });
  bench_.workers[0].acknowledged = 6;
  EXPECT_EQ(16u, ledger_.Pushes(bench_.job));
}

TEST_F(PortionLedgerTest, PushesAreThoseOfAllSessionsThatEverWere) {
  ledger_.GoOnFrom(10, ledger_.portions().Save({}));
  bench_.workers[0].acknowledged = 3;
  bench_.workers[1].acknowledged = 4;
  EXPECT_EQ(17u, ledger_.Pushes(bench_.job));
  v1::WorkerCut cut;
  cut.set_sequence(2);
  EXPECT_EQ(12u, ledger_.PushesAt({{0, cut}, {5, cut}}, bench_.job));
  bench_.workers[1].last.set_number(1);
  EXPECT_EQ(13u, ledger_.PushesTold(bench_.job));
}

}  // namespace
}  // namespace paramd
