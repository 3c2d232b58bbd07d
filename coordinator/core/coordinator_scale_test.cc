// A job of more members than a coordinator looks at with each event.
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/job_view.h"
#include "coordinator/core/live_configuration.h"
#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::PartBench;
using testing::StartedCoordinator;

constexpr uint32_t kServers = 160;

Coordinator::Options LargeJob() {
  Coordinator::Options options = JobOptions();
  options.servers = kServers;
  options.workers = 8;
  return options;
}

// 50 microseconds for each member, and a little more: so long what makes
// another configuration waits after the one before.
constexpr absl::Duration kWait = absl::Milliseconds(9);

// Its servers are filled.
class CoordinatorScaleTest : public ::testing::Test {
 protected:
  explicit CoordinatorScaleTest(
      const Coordinator::Options& options = LargeJob())
      : job_(options) {
    job_.TakeChanges(true);
    job_.ReadLog();
    job_.Append();
    Settle();
    job_.FindCheckpoint();
    job_.Append();
    Settle();
  }

  CoreDriver& driver() { return job_.driver(); }
  // Time passes in which everything is done that waits for other events.
  void Settle(int milliseconds = 12) {
    for (int i = 0; i < milliseconds; ++i) {
      job_.Serve();
      driver().Advance(absl::Milliseconds(1));
    }
  }
  v1::JoinReply Join(uint32_t worker) {
    const CallId call = job_.BeginJoin(worker, 200 + worker);
    Settle();
    const CoreDriver::Answer answer = driver().Take(call);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return static_cast<const v1::JoinReply&>(*answer.head);
  }
  static v1::HeartbeatRequest FirstBeat(const v1::JoinReply& joined) {
    v1::HeartbeatRequest beat;
    v1::Header* const header = beat.mutable_header();
    *header->mutable_generation() = joined.generation();
    *header->mutable_configuration() = joined.configuration().version();
    beat.set_state(v1::RUNNING);
    beat.set_number(1);
    beat.set_takes_changes(true);
    return beat;
  }
  // Worker `index`, whose `joined` was answered, says that it leaves.
  void Leave(uint32_t index, const v1::JoinReply& joined) {
    v1::HeartbeatRequest beat = FirstBeat(joined);
    beat.mutable_header()->set_worker(index);
    beat.set_leaving(true);
    driver().Begin(PeerId::Worker(index), beat);
  }
  void Set(const char* key, const char* value) {
    v1::SetRequest set;
    set.set_key(key);
    set.set_value(value);
    driver().Begin(PeerId::Worker(0), set);
  }
  int sessions() { return job_.configuration().workers_size(); }
  uint64_t version() { return job_.configuration().version().counter(); }
  // The next one that a server is sent.
  v1::ConfigureRequest Configured(uint32_t server) {
    const auto sent =
        driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(server));
    EXPECT_TRUE(sent.has_value());
    return static_cast<const v1::ConfigureRequest&>(*sent->head);
  }

  StartedCoordinator job_;
};

TEST_F(CoordinatorScaleTest, AServerThatHasTheConfigurationIsRemindedOfIt) {
  const v1::Configuration all = job_.configuration();
  driver().Advance(absl::Seconds(1));
  const v1::Configuration told = Configured(5).configuration();
  EXPECT_EQ(told.version(), all.version());
  EXPECT_EQ(told.run_id(), all.run_id());
  EXPECT_EQ(told.job_digest(), all.job_digest());
  EXPECT_EQ(told.changes_since(), all.version());
  EXPECT_FALSE(told.has_layout());
  ASSERT_EQ(told.servers_size(), 1);
  EXPECT_EQ(told.servers(0).SerializeAsString(),
            all.servers(5).SerializeAsString());
}

TEST_F(CoordinatorScaleTest, AServerThatBeganAnewIsToldTheWhole) {
  job_.Restart(5);
  driver().Advance(absl::Seconds(1));
  const auto told_last = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(5));
  ASSERT_TRUE(told_last.has_value());
  v1::ConfigureReply answer;  // It says who is there now.
  answer.set_incarnation(job_.incarnation(5));
  driver().Reply(*told_last, answer);
  driver().Advance(absl::Milliseconds(1));
  const auto sent = driver().TakeSend<v1::RecallRequest>(PeerId::Ps(5));
  ASSERT_TRUE(sent.has_value());
  v1::RecallReply recalled;
  recalled.set_incarnation(job_.incarnation(5));
  driver().Reply(*sent, recalled);
  driver().Advance(absl::Milliseconds(1));
  const v1::Configuration told = Configured(5).configuration();
  EXPECT_TRUE(told.has_layout());
  EXPECT_EQ(told.servers(5).incarnation(), job_.incarnation(5));
}

TEST_F(CoordinatorScaleTest, AServerThatRefusesWhatHasChangedIsToldTheWhole) {
  driver().Advance(absl::Seconds(1));
  const auto sent = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(5));
  ASSERT_TRUE(sent.has_value());
  driver().Fail(*sent, Invalid("1.2", "was told before with other content"));
  driver().Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Configured(5).configuration().has_layout());
  EXPECT_FALSE(driver().exited) << driver().exit_status;
}

TEST_F(CoordinatorScaleTest, OfANewConfigurationIsToldWhatHasChanged) {
  const v1::ConfigurationVersion before = job_.configuration().version();
  job_.BeginJoin(1, 201);
  driver().Advance(absl::Milliseconds(1));
  const v1::Configuration told = Configured(5).configuration();
  EXPECT_EQ(told.changes_since(), before);
  EXPECT_EQ(told.version(), job_.configuration().version());
  EXPECT_FALSE(told.has_layout());
  EXPECT_THAT(told.changed(), ::testing::IsEmpty());
  ASSERT_EQ(told.servers_size(), 1);
  EXPECT_EQ(told.servers(0).index(), 5u);
  ASSERT_EQ(told.workers_size(), 1);
  EXPECT_EQ(told.workers(0).index(), 1u);
}

TEST_F(CoordinatorScaleTest, AServerThatTakesNoChangesIsToldTheWhole) {
  job_.TakeChanges(false);
  driver().Advance(absl::Seconds(1));
  job_.Serve();
  driver().Advance(absl::Seconds(1));
  const v1::Configuration told = Configured(5).configuration();
  EXPECT_FALSE(told.has_changes_since());
  EXPECT_TRUE(told.has_layout());
  EXPECT_EQ(told.servers_size(), static_cast<int>(kServers));
}

TEST_F(CoordinatorScaleTest, AWorkerThatTakesChangesIsToldThem) {
  const v1::JoinReply joined = Join(0);
  const CallId call = driver().Begin(PeerId::Worker(0), FirstBeat(joined));
  Join(1);
  ASSERT_TRUE(driver().answered(call));
  const CoreDriver::Answer answer = driver().Take(call);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const auto& told =
      static_cast<const v1::HeartbeatReply&>(*answer.head).configuration();
  EXPECT_EQ(told.changes_since(), joined.configuration().version());
  EXPECT_EQ(told.version(), job_.configuration().version());
  EXPECT_FALSE(told.has_layout());
  EXPECT_EQ(told.servers_size(), 0);
  EXPECT_EQ(told.workers_size(), 0);
}

TEST_F(CoordinatorScaleTest, AWorkerIsToldOfNoOtherSession) {
  Join(0);
  const v1::JoinReply reply = Join(1);
  const v1::Configuration all = job_.configuration();
  EXPECT_EQ(all.workers_size(), 2);
  ASSERT_EQ(reply.configuration().workers_size(), 1);
  EXPECT_EQ(reply.configuration().workers(0).SerializeAsString(),
            all.workers(1).SerializeAsString());
  EXPECT_EQ(reply.configuration().layout().SerializeAsString(),
            all.layout().SerializeAsString());
}

TEST_F(CoordinatorScaleTest, WhatComesTogetherIsLookedAtTogether) {
  const v1::ConfigurationVersion before = job_.configuration().version();
  driver().Tick();
  job_.BeginJoin(0, 200);
  job_.BeginJoin(1, 201);
  EXPECT_EQ(job_.configuration().version(), before);
  EXPECT_LE(job_.core().next_tick(), driver().now() + absl::Milliseconds(1));
  driver().Advance(absl::Milliseconds(1));
  EXPECT_EQ(job_.configuration().version().counter(), before.counter() + 1);
  EXPECT_EQ(job_.configuration().workers_size(), 2);
}

TEST_F(CoordinatorScaleTest, WhoJoinSoonAfterOthersAreInOneConfiguration) {
  const uint64_t before = version();
  job_.BeginJoin(0, 200);
  driver().Advance(absl::Milliseconds(1));
  EXPECT_EQ(version(), before + 1) << "the first one waits for nobody";
  job_.Serve();
  std::vector<CallId> calls;
  for (uint32_t worker = 1; worker < 8; ++worker) {
    calls.push_back(job_.BeginJoin(worker, 200 + worker));
    driver().Advance(absl::Milliseconds(1));
    EXPECT_EQ(version(), before + 1);
  }
  EXPECT_THAT(driver().sends, ::testing::IsEmpty());
  driver().Advance(absl::Milliseconds(2));
  EXPECT_EQ(version(), before + 2);
  EXPECT_EQ(sessions(), 8);
  EXPECT_EQ(driver().sends.size(), kServers) << "each server is told once";
  job_.Serve();
  driver().Advance(absl::Milliseconds(1));
  for (const CallId call : calls) EXPECT_TRUE(driver().answered(call));
}

// Else nobody could join where others come again and again.
TEST_F(CoordinatorScaleTest, WhatCantWaitLetsOthersWaitNoLonger) {
  Join(0);
  driver().Advance(kWait);
  job_.BeginJoin(1, 201);
  driver().Advance(absl::Milliseconds(1));
  EXPECT_EQ(sessions(), 2);
  job_.BeginJoin(2, 202);
  for (const char* const level : {"debug", "info", "debug", "info"}) {
    Settle(3);
    const uint64_t before = version();
    Set("log_level", level);
    EXPECT_TRUE(job_.Append().has_setting());
    EXPECT_GT(version(), before);
  }
  EXPECT_EQ(sessions(), 3);
}

TEST_F(CoordinatorScaleTest, SessionsThatEndTogetherAreInOneConfiguration) {
  std::vector<v1::JoinReply> joined;
  for (uint32_t worker = 0; worker < 5; ++worker) {
    joined.push_back(Join(worker));
  }
  driver().Advance(kWait);
  const uint64_t before = version();
  for (uint32_t worker = 0; worker < 5; ++worker) {
    Leave(worker, joined[worker]);
  }
  driver().Advance(kWait);
  for (int entries = 0; entries < 5; ++entries) {
    EXPECT_TRUE(job_.Append().has_fence());
    EXPECT_EQ(sessions(), 4) << "the first waits for nobody, the others do";
    driver().Advance(absl::Milliseconds(1));
  }
  EXPECT_EQ(version(), before + 1);
  EXPECT_EQ(sessions(), 4) << "as if the log had not answered yet";
  driver().Advance(kWait);
  EXPECT_EQ(version(), before + 5);
  EXPECT_EQ(sessions(), 0);
  job_.Serve();
  EXPECT_EQ(version(), before + 5);
}

class SyncScaleTest : public CoordinatorScaleTest {
 protected:
  SyncScaleTest() : CoordinatorScaleTest(SyncJob()) {}
  static Coordinator::Options SyncJob() {
    Coordinator::Options options = LargeJob();
    options.job.set_staleness("sync");
    return options;
  }
};

TEST_F(SyncScaleTest, NoStepWaitsForFencesThatTheLogHas) {
  std::vector<v1::JoinReply> joined;
  for (uint32_t worker = 0; worker < 4; ++worker) {
    joined.push_back(Join(worker));
  }
  driver().Advance(kWait);
  Leave(0, joined[0]);
  driver().Advance(absl::Milliseconds(1));
  EXPECT_TRUE(job_.Append().has_fence());
  EXPECT_EQ(sessions(), 3);
  Leave(1, joined[1]);
  driver().Advance(absl::Milliseconds(1));
  EXPECT_TRUE(job_.Append().has_fence());
  EXPECT_EQ(sessions(), 2) << "soon after another one";
  // Two together.
  driver().Tick();
  Leave(2, joined[2]);
  Leave(3, joined[3]);
  driver().Advance(absl::Milliseconds(1));
  const uint64_t before = version();
  EXPECT_TRUE(job_.Append().has_fence());
  EXPECT_EQ(version(), before) << "it is told with the last one";
  EXPECT_TRUE(job_.Append().has_fence());
  EXPECT_EQ(sessions(), 0);
}

// What follows from a later entry rests on the earlier ones.
TEST_F(CoordinatorScaleTest, EntriesOfTheLogHaveTheirEffectsInTheirOrder) {
  const v1::JoinReply first = Join(0);
  const v1::JoinReply second = Join(1);
  driver().Advance(kWait);
  Leave(0, first);
  Leave(1, second);
  Set("log_level", "debug");
  driver().Advance(kWait);
  EXPECT_TRUE(job_.Append().has_fence());
  driver().Advance(absl::Milliseconds(1));
  EXPECT_TRUE(job_.Append().has_fence());
  driver().Advance(absl::Milliseconds(1));
  EXPECT_EQ(sessions(), 1);
  EXPECT_TRUE(job_.Append().has_setting());
  EXPECT_EQ(sessions(), 0);
  EXPECT_EQ(job_.configuration().settings_size(), 1);
}

TEST_F(CoordinatorScaleTest, AFenceThatTheLogRefusesDoesNotWait) {
  const v1::JoinReply first = Join(0);
  const v1::JoinReply second = Join(1);
  driver().Advance(kWait);
  Leave(0, first);
  Leave(1, second);
  driver().Advance(kWait);
  job_.Append();
  driver().Advance(absl::Milliseconds(1));
  const auto append = driver().TakeIo<v1::AppendLog>();
  ASSERT_TRUE(append.has_value());
  driver().End(append->first, absl::UnavailableError("no disk"));
  EXPECT_TRUE(driver().exited);
}

// Between two looks at all members, of which there is one each 100 ms.
TEST_F(CoordinatorScaleTest, AMemberOfAQuietJobIsLookedAtWhenItIsDue) {
  const v1::JoinReply joined = Join(0);
  driver().Advance(absl::Milliseconds(137));
  const CallId call = driver().Begin(PeerId::Worker(0), FirstBeat(joined));
  EXPECT_GT(job_.core().next_tick(), driver().now() + absl::Milliseconds(10))
      << "nobody else is looked at for what it said";
  driver().Advance(absl::Milliseconds(999));
  EXPECT_FALSE(driver().answered(call));
  driver().Advance(absl::Milliseconds(1));
  EXPECT_TRUE(driver().answered(call));
}

TEST(ScaledLogTest, WhatTheLogHasIsFollowedAtOnce) {
  StartedCoordinator job(LargeJob());
  job.ReadLog();
  job.Append();
  EXPECT_EQ(job.driver().sends.size(), kServers);
}

TEST(ScaledInputTest, SomeServersAreToldOfTheInputInEachHeartbeat) {
  Coordinator::Options options = LargeJob();
  PartBench bench(options);
  for (int beat = 0; beat < 20; ++beat) {
    int told = 0;
    for (uint32_t s = 0; s < kServers; ++s) {
      told += IsToldInput(s, bench.now, bench.job);
    }
    EXPECT_EQ(told, 8);
    bench.now = bench.now + bench.job.heartbeat();
  }
  options.servers = 8;
  EXPECT_TRUE(IsToldInput(7, bench.now, PartBench(options).job))
      << "few are told always";
}

}  // namespace
}  // namespace paramd
