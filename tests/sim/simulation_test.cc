#include "tests/sim/simulation.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// Counts what it is pushed, once for each sequence.
class Counter : public Core {
 public:
  void Start(Time, Outbox*) override {}
  void Receive(Message message, Time, Outbox* out) override {
    const auto& push = static_cast<const v1::PushRequest&>(*message.head);
    payloads.insert(FlattenForTest(message.payload));
    pieces += message.payload.size();
    if (!calls.insert(message.call).second) ++reused_call_ids;
    ++received;
    if (silent) return;
    if (counted.insert(push.header().sequence()).second) ++count;
    out->Reply(message.call, std::make_unique<v1::PushReply>());
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time, Outbox*) override {}
  Time next_tick() const override { return Time::Never(); }

  bool silent = false;
  int received = 0;
  int count = 0;
  int reused_call_ids = 0;
  size_t pieces = 0;
  std::set<std::string> payloads;
  std::set<CallId> calls;
  std::set<uint64_t> counted;
};

// Pushes 1 to `last`, each until it is acknowledged, with work in between.
class Pusher : public Core {
 public:
  explicit Pusher(uint64_t last) : last_(last) {}

  void Start(Time now, Outbox* out) override { Push(now, out); }
  void Receive(Message message, Time now, Outbox* out) override {
    if (message.call != call_) return;  // Settled before.
    ++(message.status.ok() ? acknowledged : failed);
    if (!message.status.ok()) return Push(now, out);
    call_ = 0;
    out->StartIo(++io_, std::make_unique<v1::FetchPortion>());
  }
  void Completed(IoResult result, Time, Outbox* out) override {
    EXPECT_EQ(result.io, io_);
    if (++sequence_ > last_) return out->Exit(exit_status);
    tick_wanted_ = true;
  }
  void Tick(Time now, Outbox* out) override {
    if (tick_wanted_) Push(now, out);
  }
  Time next_tick() const override {
    return tick_wanted_ ? Time::FromNanoseconds(1) : Time::Never();
  }

  int acknowledged = 0;
  int failed = 0;
  absl::Status exit_status;

 private:
  void Push(Time, Outbox* out) {
    tick_wanted_ = false;
    auto push = std::make_unique<v1::PushRequest>();
    push->mutable_header()->set_sequence(sequence_);
    out->Send(PeerId::Ps(0), call_ = ++last_call_, std::move(push),
              {Buffer::Copy(std::string("abcdefgh"))}, absl::Seconds(3));
  }

  const uint64_t last_;
  uint64_t sequence_ = 1;
  CallId call_ = 0;
  CallId last_call_ = 0;
  IoId io_ = 0;
  bool tick_wanted_ = false;
};

struct Cluster {
  explicit Cluster(Simulation::Options options, uint64_t pushes = 50)
      : pusher(pushes), simulation(options) {
    simulation.AddNode(PeerId::Ps(0), &counter);
    simulation.AddNode(PeerId::Worker(0), &pusher);
    simulation.HandleIo(PeerId::Worker(0), v1::FetchPortion::descriptor(), {},
                        [](Outbox::IoItem) { return IoResult{}; });
  }

  // The counter never exits; it is taken out of the way when the pusher has.
  void RunToTheEnd() {
    const absl::Status status = simulation.Run();
    EXPECT_THAT(status.message(), HasSubstr("worker-0 exited: CANCELLED"));
  }

  Counter counter;
  Pusher pusher;
  Simulation simulation;
};

Simulation::Options BadNetwork(uint64_t seed) {
  Simulation::Options options;
  options.seed = seed;
  options.faults.straggle = 0.05;
  options.faults.lose_request = 0.1;
  options.faults.lose_reply = 0.1;
  options.faults.duplicate = 0.1;
  options.faults.ghost = 0.1;
  options.faults.second_reply = 0.1;
  options.replay_command = "sim --seed=7";
  return options;
}

TEST(SimulationTest, ABadNetworkLosesAndRepeatsButNeverChangesAMessage) {
  Cluster cluster(BadNetwork(3));
  cluster.pusher.exit_status = absl::CancelledError("over");
  cluster.RunToTheEnd();
  EXPECT_EQ(cluster.counter.count, 50);
  EXPECT_GT(cluster.counter.received, 50);
  EXPECT_GT(cluster.pusher.failed, 5);
  EXPECT_EQ(cluster.pusher.acknowledged, 50);
  EXPECT_EQ(cluster.counter.reused_call_ids, 0);
  EXPECT_GT(cluster.counter.pieces, 60u) << "payloads are cut";
  EXPECT_EQ(cluster.counter.payloads, std::set<std::string>{"abcdefgh"});
  for (const char* fault : {"lose_request", "lose_reply", "duplicate", "ghost",
                            "deadline", "second_reply"}) {
    EXPECT_GT(cluster.simulation.fault_counts().Of(fault, "PushRequest"), 0u)
        << fault;
  }
}

TEST(SimulationTest, APerfectNetworkDeliversEverythingOnce) {
  Simulation::Options options;
  Cluster cluster(options);
  cluster.pusher.exit_status = absl::CancelledError("over");
  cluster.RunToTheEnd();
  // Refused only while the counter's process had not started.
  EXPECT_EQ(cluster.counter.received, 50);
  EXPECT_EQ(cluster.pusher.acknowledged, 50);
  EXPECT_EQ(cluster.simulation.fault_counts().ToString(), "");
}

TEST(SimulationTest, TheSameSeedGivesTheSameTraceAndAnotherSeedAnother) {
  const auto trace = [](uint64_t seed) {
    Cluster cluster(BadNetwork(seed));
    cluster.pusher.exit_status = absl::CancelledError("over");
    cluster.RunToTheEnd();
    return cluster.simulation.trace_hash();
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

TEST(SimulationTest, Promise4_AStallSaysWhoWaitsForWhomAndHowToSeeItAgain) {
  Cluster cluster(BadNetwork(7));
  cluster.counter.silent = true;
  const absl::Status status = cluster.simulation.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no progress for 10m"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("worker-0 waits for:\n    ps-0: PushRequest, sent"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has not answered PushRequest of worker-0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("replay: sim --seed=7"));
}

TEST(SimulationTest, ACrashedNodeIsUnavailableUntilAnotherLifeTakesItsPlace) {
  Simulation::Options options;
  Cluster cluster(options, /*pushes=*/400);
  cluster.pusher.exit_status = absl::CancelledError("over");
  Counter second;
  cluster.simulation.At(absl::Seconds(2),
                        [&] { cluster.simulation.Crash(PeerId::Ps(0)); });
  cluster.simulation.At(absl::Seconds(3), [&] {
    cluster.simulation.AddNode(PeerId::Ps(0), &second);
  });
  cluster.RunToTheEnd();
  EXPECT_GT(cluster.counter.count, 0);
  EXPECT_GT(second.count, 0);
  EXPECT_GT(cluster.pusher.failed, 0);
  // At most the push that was open when the first life ended is in both.
  EXPECT_GE(cluster.counter.count + second.count, 400);
  EXPECT_LE(cluster.counter.count + second.count, 401);
}

TEST(SimulationTest, ACutOffNodeIsReachedByNobodyUntilItIsOver) {
  Simulation::Options options;
  Cluster cluster(options, /*pushes=*/400);
  cluster.pusher.exit_status = absl::CancelledError("over");
  int received = 0;
  cluster.simulation.At(absl::Seconds(2), [&] {
    received = cluster.counter.received;
    cluster.simulation.CutOff(PeerId::Worker(0), absl::Seconds(10));
  });
  cluster.simulation.At(absl::Seconds(12), [&] {
    // One may have been on its way.
    EXPECT_LE(cluster.counter.received, received + 1);
  });
  cluster.RunToTheEnd();
  EXPECT_GT(received, 0);
  EXPECT_EQ(cluster.counter.count, 400);
  EXPECT_GT(cluster.simulation.fault_counts().Of("cut_off", "PushRequest"), 2u);
}

TEST(SimulationTest, APayloadChangedAfterItWasSentFailsTheRun) {
  // Goes on writing to what it has sent.
  class Careless : public Counter {
   public:
    void Start(Time, Outbox* out) override {
      out->StartIo(1, std::make_unique<v1::FetchPortion>());
    }
    void Completed(IoResult, Time now, Outbox* out) override {
      wanted_ = now;
      out->Send(PeerId::Ps(1), 1, std::make_unique<v1::PushRequest>(),
                {Buffer::Foreign(
                    AsBytes<char>(absl::MakeConstSpan(bytes_)), [](void*) {},
                    nullptr)},
                absl::Seconds(1));
    }
    void Tick(Time, Outbox*) override {
      bytes_[1] = 'x';
      wanted_ = Time::Never();
    }
    Time next_tick() const override { return wanted_; }

   private:
    char bytes_[3] = {'a', 'b', 'c'};
    Time wanted_ = Time::Never();
  };
  Careless careless;
  Counter counter;
  Simulation::Options options;
  // Longer than the lateness of a tick.
  options.faults.shortest_delay = absl::Milliseconds(4);
  Simulation simulation(options);
  simulation.HandleIo(
      PeerId::Ps(0), v1::FetchPortion::descriptor(),
      {.shortest = absl::Seconds(2), .longest = absl::Seconds(3)},
      [](Outbox::IoItem) { return IoResult{}; });
  simulation.AddNode(PeerId::Ps(1), &counter);
  simulation.AddNode(PeerId::Ps(0), &careless);
  const absl::Status status = simulation.Run();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("PushRequest was changed after it had been sent"));
}

TEST(SimulationDeathTest, ABrokenInvariantOfACoreSaysHowToSeeItAgain) {
  class Broken : public Counter {
   public:
    void Start(Time, Outbox*) override { CHECK(false, "one is one"); }
  };
  Broken broken;
  Simulation::Options options;
  options.replay_command = "sim --seed=7";
  Simulation simulation(options);
  simulation.AddNode(PeerId::Ps(0), &broken);
  EXPECT_DEATH(simulation.Run().IgnoreError(),
               "one is one(.|\n)*replay: sim --seed=7");
}

TEST(SimulationTest, ACoreThatBreaksTheRulesOfAnOutboxFailsTheRun) {
  class Rude : public Counter {
   public:
    void Start(Time, Outbox* out) override {
      out->Reply(17, std::make_unique<v1::PushReply>());
    }
  };
  Rude rude;
  Simulation simulation({});
  simulation.AddNode(PeerId::Ps(0), &rude);
  const absl::Status status = simulation.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("answered call 17"));
}

}  // namespace
}  // namespace paramd
