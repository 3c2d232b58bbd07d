#include "tests/sim/session_model.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/sim/fine_cut.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Worker 1 as generation 1-7, and one server, ps-0 as generation 1-3.
class SessionModelTest : public ::testing::Test {
 protected:
  SessionModelTest() {
    v1::Configuration& configuration = *joined_.mutable_configuration();
    Set(1, configuration.mutable_version());
    v1::ServerMember* const server = configuration.add_servers();
    Set(3, server->mutable_generation());
    for (size_t s = 0; s < job_.slices().size(); ++s) {
      configuration.mutable_layout()->add_slices();
    }
    v1::WorkerMember* const worker = configuration.add_workers();
    worker->set_index(1);
    Set(7, worker->mutable_generation());
    Set(7, joined_.mutable_generation());
    EXPECT_TRUE(content_.Configured(configuration, true).ok());
    EXPECT_TRUE(sessions_.Joined(1, joined_).ok());
  }
  template <class T>
  static void Set(uint64_t counter, T* version) {
    version->set_term(1);
    version->set_counter(counter);
  }
  void SetSession(v1::Header* header) const {
    header->set_worker(1);
    *header->mutable_generation() = joined_.generation();
  }
  v1::PushRequest PushOf(uint64_t sequence) const {
    v1::PushRequest push;
    SetSession(push.mutable_header());
    push.mutable_header()->set_sequence(sequence);
    push.set_epoch(1);
    push.set_input_begin((sequence - 1) * IntegerJob::kBatch);
    push.set_input_end(sequence * IntegerJob::kBatch);
    return push;
  }
  absl::Status Send(uint64_t sequence) {
    const auto index = ledger_.See(PeerId::Worker(1), PushOf(sequence));
    EXPECT_TRUE(index.ok()) << index.status();
    return sessions_.SendsPush(*index);
  }
  // The worker hears that all of it is acknowledged; with `applied` it is.
  absl::Status Acknowledge(uint64_t sequence, bool applied = true,
                           uint64_t server_generation = 3) {
    v1::PushReply reply;
    Set(server_generation, reply.mutable_server_generation());
    Set(1, reply.mutable_configuration());
    for (uint32_t s = 0; s < job_.slices().size(); ++s) {
      for (uint32_t b = 0; b < job_.slices()[s].blocks; ++b) {
        v1::PushedBlock* const block = reply.add_blocks();
        block->set_slice(s);
        block->set_block(b);
        block->set_result(v1::PushedBlock::APPLIED);
        block->mutable_version()->set_life(s + 1);
        block->mutable_version()->set_counter(sequence);
      }
    }
    if (applied) {
      EXPECT_TRUE(
          content_.Pushed({PeerId::Ps(0), 1}, PushOf(sequence), reply).ok());
    }
    return sessions_.HearsPush(PushOf(sequence), reply);
  }
  v1::HeartbeatRequest BeatOf(uint64_t sequence) {
    v1::HeartbeatRequest beat;
    SetSession(beat.mutable_header());
    beat.mutable_header()->set_sequence(sequence);
    beat.set_number(++beats_);
    return beat;
  }

  const FineCut cut_{{.block_elements = 16, .slice_bytes = 128}};
  const IntegerJob job_{/*seed=*/1};
  SimStorage storage_;
  PushLedger ledger_{job_};
  ContentModel content_{job_, ledger_, storage_};
  std::vector<PushLedger::PushIndex> whole_;
  SessionModel sessions_{job_, ledger_, content_,
                         [this](PushLedger::PushIndex push) {
                           whole_.push_back(push);
                           return absl::OkStatus();
                         }};
  v1::JoinReply joined_;
  uint64_t beats_ = 0;
};

void ExpectWrongSession(const absl::Status& status, const std::string& part) {
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST_F(SessionModelTest, APushFollowsTheOneThatIsWhole) {
  EXPECT_TRUE(Send(1).ok());
  EXPECT_TRUE(Send(1).ok()) << "it may be resent";
  EXPECT_TRUE(sessions_.HasOpenPush(1));
  ExpectWrongSession(Send(2), "is opened before push 1 is acknowledged");
}

TEST_F(SessionModelTest, APushThatIsGivenUpCountsAndTheNextMayFollow) {
  const SessionKey session = {1, {1, 7}};
  EXPECT_FALSE(sessions_.GivesUp(session).ok()) << "none was opened";
  ASSERT_TRUE(Send(1).ok());
  EXPECT_FALSE(Send(2).ok());
}

TEST_F(SessionModelTest, APushBehindOneThatWasGivenUpIsTheNext) {
  ASSERT_TRUE(Send(1).ok());
  const auto given_up = sessions_.GivesUp({1, {1, 7}});
  ASSERT_TRUE(given_up.ok());
  EXPECT_EQ(ledger_.push(*given_up).sequence, 1u);
  EXPECT_FALSE(sessions_.HasOpenPush(1));
  EXPECT_TRUE(Send(2).ok());
  EXPECT_TRUE(sessions_.HasOpenPush(1));
}

TEST_F(SessionModelTest, APushIsWholeWhenEveryBlockIsAcknowledged) {
  EXPECT_TRUE(Send(1).ok());
  EXPECT_TRUE(Acknowledge(1).ok());
  EXPECT_THAT(whole_, ElementsAre(0));
  EXPECT_FALSE(sessions_.AnyOpenPush());
  EXPECT_TRUE(Send(2).ok());
  ExpectWrongSession(Send(1), "is sent again after push 2");
}

TEST_F(SessionModelTest, WhatIsWholeIsInTheContent) {
  EXPECT_TRUE(Send(1).ok());
  ExpectWrongSession(Acknowledge(1, /*applied=*/false),
                     "was acknowledged, but is not in block 0 of ps-0");
}

TEST_F(SessionModelTest, AnotherLifeOfTheServerAcknowledgesNothing) {
  EXPECT_TRUE(Send(1).ok());
  EXPECT_TRUE(Acknowledge(1, /*applied=*/false, /*server_generation=*/2).ok());
  EXPECT_TRUE(sessions_.HasOpenPush(1));
  EXPECT_THAT(whole_, ElementsAre());
}

TEST_F(SessionModelTest, NobodyTellsOfMorePushesThanAreWhole) {
  EXPECT_TRUE(Send(1).ok());
  ExpectWrongSession(sessions_.SendsHeartbeat(BeatOf(1)),
                     "tells in a heartbeat of 1 pushes; whole are 0");
  v1::PortionRequest portion;
  SetSession(portion.mutable_header());
  portion.mutable_header()->set_sequence(1);
  ExpectWrongSession(sessions_.SendsPortion(portion), "when asking for input");
  EXPECT_TRUE(Acknowledge(1).ok());
  EXPECT_TRUE(sessions_.SendsHeartbeat(BeatOf(1)).ok());
}

TEST_F(SessionModelTest, NobodyOpensAPushWhileItIsToldToStop) {
  const v1::HeartbeatRequest beat = BeatOf(0);
  EXPECT_TRUE(sessions_.SendsHeartbeat(beat).ok());
  v1::HeartbeatReply reply;
  reply.set_term(1);
  reply.set_stop(true);
  EXPECT_TRUE(sessions_.HearsHeartbeat(beat, &reply).ok());
  ExpectWrongSession(Send(1), "is opened while its worker is told to stop");
}

TEST_F(SessionModelTest, NobodyLeavesWithAnOpenPush) {
  EXPECT_TRUE(Send(1).ok());
  v1::HeartbeatRequest beat = BeatOf(0);
  beat.set_leaving(true);
  ExpectWrongSession(sessions_.SendsHeartbeat(beat),
                     "leaves before its push is whole");
}

TEST_F(SessionModelTest, ACutIsTheNewestPush) {
  EXPECT_TRUE(Send(1).ok());
  v1::HeartbeatRequest beat = BeatOf(0);
  beat.mutable_cut()->set_sequence(1);
  EXPECT_TRUE(sessions_.SendsHeartbeat(beat).ok());
  beat.mutable_cut()->set_acknowledged(true);
  ExpectWrongSession(sessions_.SendsHeartbeat(beat), "cuts at push 1");
}

TEST_F(SessionModelTest, WhoHasNotJoinedPushesNothing) {
  joined_.mutable_generation()->set_counter(8);
  ExpectWrongSession(Send(1), "is of nobody who has joined");
}

}  // namespace
}  // namespace paramd
