#include "coordinator/core/spare_places.h"

#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/replicated_job.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::NoSnapshotCalls;
using ::paramd::testing::PartBench;

CoordinatorOptions JobOfThree() {
  CoordinatorOptions options = JobOptions();
  options.servers = 3;
  options.places = ScalablePlacesOf(/*tasks=*/3, /*shards=*/1);
  return options;
}

// Servers 0 to 2 are at home in places 0, 4 and 8, and away in 3, 7 and 2: 1, 5
// and 6 are spare. Their processes are 50 + the place.
class SparePlacesTest : public ::testing::Test {
 protected:
  SparePlacesTest() {
    for (uint32_t s = 0; s < 3; ++s) bench_.servers[s].peer = 4 * s;
    bench_.Do([&](Turn* turn) { watch_.Advance(turn); });
    std::map<uint32_t, CallId> calls;
    for (const Outbox::SendItem& sent : bench_.out.sends) {
      calls[sent.to.index] = sent.call;
    }
    for (const auto& [peer, call] : calls) {
      v1::WatchReply reply;
      reply.set_incarnation(50 + peer);
      Message message;
      message.from = PeerId::Ps(peer);
      message.is_reply = true;
      message.call = call;
      message.head = &reply;
      bench_.Do([&](Turn* turn) { watch_.OnReply(message, *turn); });
    }
    bench_.phase = JobPhase::kTellingEnd;
  }
  // Those that are told.
  std::set<uint32_t> Advance(bool everybody_knows) {
    bench_.Do([&](Turn* turn) { spares_.Advance(everybody_knows, turn); });
    std::set<uint32_t> told;
    for (Outbox::SendItem& sent : bench_.out.sends) {
      told.insert(sent.to.index);
      calls_[sent.to.index] = std::move(sent);
    }
    return told;
  }
  void Answer(uint32_t peer, const absl::Status& status) {
    v1::FinishReply reply;
    Message message;
    message.from = PeerId::Ps(peer);
    message.is_reply = true;
    message.call = calls_.at(peer).call;
    message.status = status;
    if (status.ok()) message.head = &reply;
    bench_.Do([&](Turn* turn) { spares_.OnReply(message, turn); });
  }

  PartBench bench_{JobOfThree()};
  NoSnapshotCalls snapshots_;
  PlaceWatch watch_{bench_.options};
  Replicas replicas_{bench_.options, snapshots_, &watch_};
  SparePlaces spares_{watch_, replicas_};
  std::map<uint32_t, Outbox::SendItem> calls_;
};

TEST_F(SparePlacesTest, TheyHearOfTheEndAndThenThatEverybodyKnows) {
  EXPECT_EQ(Advance(false), (std::set<uint32_t>{1, 5, 6}));
  EXPECT_FALSE(static_cast<const v1::FinishRequest&>(*calls_.at(5).head)
                   .everybody_knows());
  for (const uint32_t peer : {1, 5, 6}) Answer(peer, absl::OkStatus());
  bench_.now = bench_.now + absl::Seconds(1);
  EXPECT_EQ(Advance(false), std::set<uint32_t>());
  EXPECT_FALSE(spares_.all_know());
  EXPECT_EQ(Advance(true), (std::set<uint32_t>{1, 5, 6}));
  EXPECT_TRUE(static_cast<const v1::FinishRequest&>(*calls_.at(5).head)
                  .everybody_knows());
  for (const uint32_t peer : {1, 5, 6}) Answer(peer, absl::OkStatus());
  EXPECT_TRUE(spares_.all_know());
}

TEST_F(SparePlacesTest, OneThatHasHeardAndIsGoneIsNotWaitedFor) {
  Advance(false);
  for (const uint32_t peer : {1, 5, 6}) Answer(peer, absl::OkStatus());
  bench_.now = bench_.now + absl::Seconds(1);
  Advance(true);
  for (const uint32_t peer : {1, 5, 6}) {
    Answer(peer, absl::UnavailableError("connection lost"));
  }
  EXPECT_TRUE(spares_.all_know());
}

TEST_F(SparePlacesTest, OneThatDoesNotAnswerIsAskedAgain) {
  Advance(false);
  Answer(1, absl::DeadlineExceededError("no answer"));
  EXPECT_EQ(Advance(false), std::set<uint32_t>());
  bench_.now = bench_.now + absl::Seconds(1);
  EXPECT_EQ(Advance(false), std::set<uint32_t>{1});
}

TEST(NoSparePlacesTest, AServerWithTwoPlacesHasNone) {
  PartBench bench{testing::ReplicatedJob()};
  for (uint32_t s = 0; s < 2; ++s) bench.servers[s].peer = 2 * s;
  const NoSnapshotCalls snapshots;
  PlaceWatch watch(bench.options);
  const Replicas replicas(bench.options, snapshots, &watch);
  SparePlaces spares(watch, replicas);
  bench.phase = JobPhase::kTellingEnd;
  bench.Do([&](Turn* turn) { spares.Advance(true, turn); });
  EXPECT_TRUE(bench.out.sends.empty());
  EXPECT_TRUE(spares.all_know());
}

}  // namespace
}  // namespace paramd
