#include "net/core_host.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "net/testing/toy_core.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

Time At(int64_t seconds) { return Time::FromNanoseconds(seconds * 1000000000); }

Outbox::Head Request(uint64_t clock) {
  auto request = std::make_unique<v1::PushRequest>();
  request->set_clock(clock);
  return request;
}

class RecordingTransport : public CoreHost::Transport {
 public:
  void Send(CallId id, PeerId, Outbox::SendItem) override {
    sent.push_back(id);
  }
  void Cancel(CallId id) override { cancelled.push_back(id); }
  void Reply(Outbox::ReplyItem item) override {
    replies.push_back(std::move(item));
  }
  void CancelOldestReply() override { ++given_up; }
  bool HasPeers() const override { return has_peers; }
  bool has_peers = true;
  int given_up = 0;
  std::vector<CallId> sent, cancelled;
  std::vector<Outbox::ReplyItem> replies;
};

class CoreHostTest : public ::testing::Test {
 protected:
  void TurnUntilIdle(Time now) {
    while (host_.Turn(now)) {
    }
  }
  void RunPosted() {
    for (const auto& f : mailbox_->Take()) f();
  }

  RecordingTransport transport_;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  CoreHost host_{&transport_, mailbox_};
  ToyCore ps_, worker_;
  std::vector<std::string> seen_;
};

TEST_F(CoreHostTest, MessagesBetweenItsCoresKeepOrderAndReferences) {
  const Buffer bytes = Buffer::Copy("abc");
  worker_.on_start = [&](Time, Outbox* out) {
    out->Send(PeerId::Ps(0), 7, Request(1), {bytes}, absl::Seconds(1));
    out->Send(PeerId::Ps(0), 8, Request(2), {}, absl::Seconds(1));
  };
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    const auto& head = static_cast<const v1::PushRequest&>(*m.head);
    EXPECT_EQ(m.from, PeerId::Worker(0));
    if (head.clock() == 1) {
      EXPECT_EQ(m.payload[0].bytes().data(), bytes.bytes().data());
    }
    seen_.push_back(absl::StrCat("push ", head.clock()));
    out->Reply(m.call, std::make_unique<v1::PushReply>());
  };
  worker_.on_receive = [&](Message m, Time, Outbox*) {
    EXPECT_TRUE(m.is_reply && m.status.ok() && m.head != nullptr);
    EXPECT_EQ(m.from, PeerId::Ps(0));
    seen_.push_back(absl::StrCat("reply ", m.call));
  };
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.AddCore(PeerId::Worker(0), &worker_);
  host_.Start(At(0));
  TurnUntilIdle(At(0));
  EXPECT_EQ(seen_, (std::vector<std::string>{"push 1", "push 2", "reply 7",
                                             "reply 8"}));
  EXPECT_EQ(host_.next_wakeup(), Time::Never());
}

TEST_F(CoreHostTest, ACallIsAnsweredAtItsDeadlineAndNotAgain) {
  CallId open = 0;
  worker_.on_start = [&](Time, Outbox* out) {
    out->Send(PeerId::Ps(0), 1, Request(1), {}, absl::Seconds(3));
    out->Send(PeerId::Ps(5), 2, Request(1), {}, absl::Seconds(4));
  };
  worker_.on_receive = [&](Message m, Time now, Outbox*) {
    EXPECT_EQ(m.status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(m.head, nullptr);
    seen_.push_back(absl::StrCat(m.call, " at ", now.nanoseconds() / 1000000000,
                                 ": ", m.status.message()));
  };
  ps_.on_receive = [&](Message m, Time, Outbox*) { open = m.call; };
  ps_.on_tick = [&](Time, Outbox* out) {
    out->Reply(open, std::make_unique<v1::PushReply>());
  };
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.AddCore(PeerId::Worker(0), &worker_);
  host_.Start(At(0));
  TurnUntilIdle(At(2));
  EXPECT_TRUE(seen_.empty());
  EXPECT_EQ(host_.next_wakeup(), At(3));
  TurnUntilIdle(At(3));
  TurnUntilIdle(At(4));
  ps_.tick = At(5);
  TurnUntilIdle(At(5));
  host_.Replied(transport_.sent[0], absl::OkStatus(), Request(1), {});
  TurnUntilIdle(At(5));
  EXPECT_EQ(seen_, (std::vector<std::string>{
                       "1 at 3: ps-0 did not answer within 3s",
                       "2 at 4: ps-5 did not answer within 4s"}));
  EXPECT_EQ(transport_.cancelled, transport_.sent);
}

TEST_F(CoreHostTest, RepliesSayWhetherTheirPeerSharesMemory) {
  worker_.on_start = [&](Time, Outbox* out) {
    for (CallId call = 1; call <= 4; ++call) {
      out->Send(PeerId::Ps(call == 2), call, Request(1), {}, absl::Seconds(1));
    }
  };
  std::map<CallId, bool> shared;
  worker_.on_receive = [&](Message m, Time, Outbox*) {
    shared[m.call] = m.in_shared_memory;
  };
  host_.AddCore(PeerId::Worker(0), &worker_);
  host_.Start(At(0));
  const auto reply = [&](int call) {
    host_.Replied(transport_.sent[call - 1], absl::OkStatus(), Request(1), {});
  };
  reply(1);
  host_.SharesMemory(PeerId::Ps(0), true);
  reply(2);
  reply(3);
  host_.SharesMemory(PeerId::Ps(0), false);
  reply(4);
  TurnUntilIdle(At(0));
  EXPECT_EQ(shared, (std::map<CallId, bool>{
                        {1, false}, {2, false}, {3, true}, {4, false}}));
}

TEST_F(CoreHostTest, ARequestFromOutsideIsAnsweredThroughTheTransport) {
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    EXPECT_EQ(m.from, PeerId::Worker(3));
    out->Refuse(m.call, absl::NotFoundError("no such block"));
  };
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.Start(At(0));
  EXPECT_TRUE(host_.Serves(PeerId::Ps(0)));
  const CallId id =
      host_.Request(PeerId::Worker(3), PeerId::Ps(0), Request(1), {});
  TurnUntilIdle(At(0));
  ASSERT_EQ(transport_.replies.size(), 1u);
  EXPECT_EQ(transport_.replies[0].call, id);
  EXPECT_EQ(transport_.replies[0].status.message(), "no such block");
}

TEST_F(CoreHostTest, WhoAsksACoreOfTheProcessGetsItsAnswer) {
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    EXPECT_EQ(m.from, PeerId());
    const auto& head = static_cast<const v1::PushRequest&>(*m.head);
    if (head.clock() == 1) {
      out->Reply(m.call, std::make_unique<v1::PushReply>());
    }
  };
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.Start(At(0));
  const auto ask = [&](PeerId to, uint64_t clock) {
    host_.Ask(
        to, Request(clock), absl::Seconds(3),
        [&](const absl::Status& status, const auto* reply) {
          seen_.push_back(absl::StrCat(reply != nullptr ? "a reply" : "none, ",
                                       status.message()));
        },
        At(0));
  };
  ask(PeerId::Ps(0), 1);
  ask(PeerId::Ps(0), 2);
  ask(PeerId::Ps(1), 3);
  TurnUntilIdle(At(1));
  TurnUntilIdle(At(3));
  EXPECT_EQ(seen_,
            (std::vector<std::string>{"none, ps-1 is not here", "a reply",
                                      "none, ps-0 did not answer within 3s"}));
  EXPECT_TRUE(transport_.replies.empty());
  EXPECT_EQ(host_.open_calls(), 0u);
}

TEST_F(CoreHostTest, TicksComeWhenTheyAreDue) {
  ps_.tick = At(5);
  ps_.on_tick = [&](Time now, Outbox*) {
    seen_.push_back("tick");
    if (seen_.size() < 2) ps_.tick = now + absl::Seconds(2);
  };
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.Start(At(0));
  EXPECT_FALSE(host_.Turn(At(4)));
  EXPECT_EQ(host_.next_wakeup(), At(5));
  EXPECT_TRUE(host_.Turn(At(5)));
  EXPECT_EQ(host_.next_wakeup(), At(7));
  EXPECT_TRUE(host_.Turn(At(9)));
  EXPECT_EQ(host_.next_wakeup(), Time::Never());
  EXPECT_EQ(seen_.size(), 2u);
}

TEST_F(CoreHostTest, WorkOutsideComesBackWithItsIdAndUnknownWorkFails) {
  Runtime::IoDone done;
  host_.HandleIo(v1::ReadLog::descriptor(),
                 [&](Outbox::IoItem, Runtime::IoDone d) { done = d; });
  ps_.on_start = [&](Time, Outbox* out) {
    out->StartIo(11, std::make_unique<v1::ReadLog>());
    out->StartIo(12, std::make_unique<v1::AppendLog>());
  };
  ps_.on_completed = [&](IoResult result, Outbox*) {
    seen_.push_back(absl::StrCat(result.io, " ", result.status.message()));
  };
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.Start(At(0));
  TurnUntilIdle(At(0));
  done(IoResult{});
  RunPosted();
  TurnUntilIdle(At(0));
  EXPECT_EQ(seen_, (std::vector<std::string>{
                       "12 this process does not do AppendLog", "11 "}));
}

TEST_F(CoreHostTest, Promise8_TooMuchWorkOutsideIsRefused) {
  std::vector<Runtime::IoDone> done;
  host_.HandleIo(v1::ReadLog::descriptor(),
                 [&](Outbox::IoItem, Runtime::IoDone d) { done.push_back(d); });
  ps_.on_start = [&](Time, Outbox* out) {
    for (IoId io = 1; io <= 4097; ++io) {
      out->StartIo(io, std::make_unique<v1::ReadLog>());
    }
  };
  ps_.on_completed = [&](IoResult result, Outbox* out) {
    seen_.push_back(absl::StrCat(result.io, " ", result.status.message()));
    if (result.io == 1) out->StartIo(4098, std::make_unique<v1::ReadLog>());
  };
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.Start(At(0));
  TurnUntilIdle(At(0));
  EXPECT_EQ(done.size(), 4096u);
  EXPECT_EQ(seen_, std::vector<std::string>{"4097 4096 works are under way"});
  done[0]({});
  EXPECT_EQ(seen_.size(), 1u) << "not on this thread";
  RunPosted();
  TurnUntilIdle(At(0));
  EXPECT_EQ(done.size(), 4097u);
}

TEST_F(CoreHostTest, ItEndsWhenEveryCoreHasExitedAndCallsNoneThatHas) {
  worker_.on_start = [](Time, Outbox* out) { out->Exit(absl::OkStatus()); };
  worker_.on_receive = [&](Message, Time, Outbox*) { ADD_FAILURE(); };
  ps_.on_start = [](Time, Outbox* out) {
    out->Send(PeerId::Worker(0), 1, Request(1), {}, absl::Seconds(1));
  };
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    EXPECT_EQ(m.status.message(), "worker-0 has ended");
    out->Exit(absl::OkStatus());
  };
  host_.AddCore(PeerId::Worker(0), &worker_);
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.Start(At(0));
  EXPECT_FALSE(host_.ended());
  EXPECT_FALSE(host_.Serves(PeerId::Worker(0)));
  TurnUntilIdle(At(0));
  EXPECT_TRUE(host_.ended());
  EXPECT_TRUE(host_.end_status().ok());
}

TEST_F(CoreHostTest, AFailureEndsAtOnceAndTheFirstEndCounts) {
  worker_.on_start = [](Time, Outbox* out) {
    out->Exit(absl::AbortedError("first"));
  };
  ps_.on_start = [](Time, Outbox*) { ADD_FAILURE(); };
  host_.AddCore(PeerId::Worker(0), &worker_);
  host_.AddCore(PeerId::Ps(0), &ps_);
  host_.Start(At(0));
  host_.End(absl::CancelledError("second"));
  EXPECT_TRUE(host_.ended());
  EXPECT_EQ(host_.end_status(), absl::AbortedError("first"));
}

// Tells what it is told of; it exits when it is ticked.
class FailingHostTest : public CoreHostTest {
 protected:
  FailingHostTest() {
    ps_.on_fail = [&](const absl::Status& why, Outbox* out) {
      seen_.push_back(std::string(why.message()));
      out->Send(PeerId::Ps(7), 1, Request(1), {}, absl::Seconds(9));
    };
    ps_.on_tick = [](Time, Outbox* out) {
      out->Exit(absl::AbortedError("too late to count"));
    };
    worker_.on_tick = [](Time, Outbox* out) {
      out->Exit(absl::InternalError("broken"));
    };
    host_.AddCore(PeerId::Ps(0), &ps_);
    host_.AddCore(PeerId::Worker(0), &worker_);
    host_.Start(At(0));
    worker_.tick = At(1);
  }
};

TEST_F(FailingHostTest, OtherCoresMayTellOfAFailureBeforeTheEnd) {
  TurnUntilIdle(At(1));
  EXPECT_EQ(seen_, (std::vector<std::string>{"broken"}));
  EXPECT_EQ(transport_.sent.size(), 1u);
  EXPECT_FALSE(host_.ended());
  EXPECT_TRUE(host_.Serves(PeerId::Ps(0)));
  ps_.tick = At(2);
  TurnUntilIdle(At(2));
  ASSERT_TRUE(host_.ended());
  EXPECT_EQ(host_.end_status(), absl::InternalError("broken"));
}

TEST_F(FailingHostTest, ASignalMeanwhileLimitsTheTimeAndChangesNoReason) {
  ps_.on_drain = [](Outbox*) {};
  TurnUntilIdle(At(1));
  host_.Drain(absl::CancelledError("stopped"), absl::Seconds(5), At(2));
  TurnUntilIdle(At(7));
  ASSERT_TRUE(host_.ended());
  EXPECT_EQ(host_.end_status(), absl::InternalError("broken"));
}

TEST_F(FailingHostTest, WithoutPeersAFailureIsTheEnd) {
  transport_.has_peers = false;
  TurnUntilIdle(At(1));
  EXPECT_TRUE(seen_.empty());
  ASSERT_TRUE(host_.ended());
  EXPECT_EQ(host_.end_status(), absl::InternalError("broken"));
}

// ---- waits -----------------------------------------------------------------

TEST_F(CoreHostTest, Promise4_WhomACoreWaitsForIsSaidEveryFiveSeconds) {
  host_.AddCore(PeerId::Ps(0), &ps_);
  ps_.waits_for = "ps-1 to be there: refused";
  ::testing::internal::CaptureStderr();
  for (int second = 1; second <= 12; ++second) {
    EXPECT_EQ(host_.TellWaits(At(second)), At(second + 1));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("for=\"ps-1 to be there: refused\" since=5s"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("since=10s"), std::string::npos) << log;
  EXPECT_EQ(log.find("since=6s"), std::string::npos) << log;
}

TEST_F(CoreHostTest, AWaitIsPartOfTheStatusUntilItIsOver) {
  host_.AddCore(PeerId::Ps(3), &ps_);
  ps_.waits_for = "ps-1 to be there";
  for (int second = 1; second <= 4; ++second) host_.TellWaits(At(second));
  v1::StatusReply status;
  host_.FillStatus(&status);
  ASSERT_EQ(status.waits_size(), 1);
  EXPECT_EQ(status.waits(0).who(), "ps-3");
  EXPECT_EQ(status.waits(0).whom(), "ps-1 to be there");
  EXPECT_EQ(status.waits(0).since_ms(), 3000u);
  ps_.waits_for = "";
  host_.TellWaits(At(5));
  status.Clear();
  host_.FillStatus(&status);
  EXPECT_EQ(status.waits_size(), 0);
}

TEST_F(CoreHostTest, AWaitThatChangesBeginsAnew) {
  host_.AddCore(PeerId::Ps(0), &ps_);
  ::testing::internal::CaptureStderr();
  for (int second = 1; second <= 12; ++second) {
    ps_.waits_for = second < 5 ? "worker-1" : second < 9 ? "" : "worker-2";
    host_.TellWaits(At(second));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// ---- draining ---------------------------------------------------------------

class DrainingHostTest : public CoreHostTest {
 protected:
  DrainingHostTest() {
    host_.AddCore(PeerId::Ps(0), &ps_);
    host_.AddCore(PeerId::Worker(0), &worker_);
    host_.Start(At(0));
  }
  void Drain() {
    host_.Drain(absl::CancelledError("stopped"), absl::Seconds(5), At(1));
  }
};

TEST_F(DrainingHostTest, ItEndsAsToldWhenEveryCoreHasDrained) {
  ps_.on_drain = [&](Outbox*) { seen_.push_back("told"); };
  ps_.on_tick = [](Time, Outbox* out) { out->Exit(absl::OkStatus()); };
  Drain();
  EXPECT_EQ(seen_, (std::vector<std::string>{"told"}));
  EXPECT_TRUE(host_.draining());
  EXPECT_FALSE(host_.ended());
  ps_.tick = At(2);
  TurnUntilIdle(At(2));
  ASSERT_TRUE(host_.ended());
  EXPECT_EQ(host_.end_status(), absl::CancelledError("stopped"));
}

TEST_F(DrainingHostTest, Promise4_ItEndsAtTheTimeoutAtTheLatest) {
  ps_.on_drain = [](Outbox*) {};
  Drain();
  EXPECT_EQ(host_.next_wakeup(), At(6));
  TurnUntilIdle(At(5));
  EXPECT_FALSE(host_.ended());
  TurnUntilIdle(At(6));
  ASSERT_TRUE(host_.ended());
  EXPECT_EQ(host_.end_status(), absl::CancelledError("stopped"));
}

TEST_F(DrainingHostTest, ACoreThatFailsMeanwhileEndsItAsEver) {
  ps_.on_drain = [](Outbox* out) { out->Exit(absl::AbortedError("broken")); };
  Drain();
  EXPECT_EQ(host_.end_status(), absl::AbortedError("broken"));
}

TEST_F(DrainingHostTest, ACoreIsToldOnce) {
  ps_.on_drain = [&](Outbox*) { seen_.push_back("told"); };
  Drain();
  Drain();
  EXPECT_EQ(seen_.size(), 1u);
}

}  // namespace
}  // namespace paramd
