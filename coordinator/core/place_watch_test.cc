#include "coordinator/core/place_watch.h"

#include <map>
#include <set>
#include <utility>

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;
using Answer = PlaceWatch::Answer;

CoordinatorOptions WatchedJob() {
  CoordinatorOptions options = JobOptions();
  options.places = PlacesOf(/*tasks=*/2, /*shards=*/1);
  return options;
}

class PlaceWatchTest : public ::testing::Test {
 protected:
  // Those that it asks.
  std::set<uint32_t> Advance() {
    bench_.Do([&](Turn* turn) { watch_.Advance(turn); });
    std::set<uint32_t> asked;
    for (Outbox::SendItem& sent : bench_.out.sends) {
      asked.insert(sent.to.index);
      calls_[sent.to.index] = std::move(sent);
    }
    return asked;
  }
  // What it has asked last.
  const v1::WatchRequest& Asked(uint32_t peer) {
    return static_cast<const v1::WatchRequest&>(*calls_.at(peer).head);
  }
  Answer Refuse(uint32_t peer, const absl::Status& status) {
    Message message;
    message.status = status;
    return Reply(peer, std::move(message));
  }
  Answer Say(uint32_t peer, uint64_t process, bool leaving,
             const v1::ConfigurationVersion& stopped = {}) {
    v1::WatchReply reply;
    reply.set_incarnation(process);
    reply.set_leaving(leaving);
    *reply.mutable_stopped() = stopped;
    Message message;
    message.head = &reply;
    return Reply(peer, std::move(message));
  }
  Answer Reply(uint32_t peer, Message message) {
    message.is_reply = true;
    message.from = PeerId::Ps(peer);
    message.call = calls_.at(peer).call;
    Answer answer = Answer::kNone;
    bench_.Do([&](Turn* turn) { answer = watch_.OnReply(message, *turn); });
    return answer;
  }

  PartBench bench_{WatchedJob()};
  PlaceWatch watch_{bench_.options};
  std::map<uint32_t, Outbox::SendItem> calls_;
};

TEST_F(PlaceWatchTest, WhoSaysAgainThatItStaysHasNoNewsUnlessSomebodyLeaves) {
  // The next time of all of them, in which place 2 leaves or stays.
  const auto say_all = [&](bool leaves) {
    bench_.now = bench_.now + PlaceWatch::kEvery;
    Advance();
    for (uint32_t peer = 0; peer < 4; ++peer) {
      Say(peer, 7 + peer / 2, peer == 2 && leaves);
    }
  };
  EXPECT_TRUE(watch_.HasNews(0)) << "nobody has said anything";
  say_all(false);
  for (uint32_t peer = 0; peer < 4; ++peer) EXPECT_TRUE(watch_.HasNews(peer));
  say_all(false);
  for (uint32_t peer = 0; peer < 4; ++peer) EXPECT_FALSE(watch_.HasNews(peer));
  say_all(true);
  EXPECT_FALSE(watch_.HasNews(1)) << "nobody had left yet";
  EXPECT_TRUE(watch_.HasNews(2));
  EXPECT_TRUE(watch_.HasNews(3));
  say_all(true);
  for (uint32_t peer = 0; peer < 4; ++peer) EXPECT_TRUE(watch_.HasNews(peer));
  say_all(false);
  say_all(false);
  EXPECT_FALSE(watch_.HasNews(1));
  EXPECT_TRUE(watch_.HasNews(9)) << "it is no place that is watched";
  bench_.now = bench_.now + PlaceWatch::kEvery;
  Advance();
  Refuse(1, absl::UnavailableError("did not answer"));
  EXPECT_TRUE(watch_.HasNews(1));
}

TEST_F(PlaceWatchTest, ACallWaitsAtEachPlaceAsSoonAsItIsKnownWhoIsThere) {
  EXPECT_EQ(Advance(), (std::set<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Asked(2).wait_ms(), 0u);
  EXPECT_EQ(Advance(), std::set<uint32_t>()) << "calls are under way";
  EXPECT_EQ(Say(2, 7, false), Answer::kSomebody);
  EXPECT_EQ(Say(2, 7, false), Answer::kNone) << "it is no call of it";
  EXPECT_EQ(watch_.ProcessAt(2), 7u);
  EXPECT_EQ(Advance(), std::set<uint32_t>{2});
  EXPECT_EQ(Asked(2).wait_ms(), 100u);
  EXPECT_EQ(Asked(2).header().server_incarnation(), 7u);
  // One that answers sooner than it should is not asked at once again.
  Say(2, 7, false);
  EXPECT_EQ(Advance(), std::set<uint32_t>());
  EXPECT_EQ(watch_.next_tick(bench_.job), bench_.now + PlaceWatch::kEvery);
  bench_.now = bench_.now + PlaceWatch::kEvery;
  EXPECT_EQ(Advance(), std::set<uint32_t>{2});
}

TEST_F(PlaceWatchTest, WhereNobodyAnswersThatIsSaid) {
  Advance();
  Say(3, 9, true);
  Advance();
  EXPECT_EQ(Refuse(3, absl::UnavailableError("connection lost")),
            Answer::kNobody);
  EXPECT_TRUE(watch_.IsLeaving(3, 9)) << "it may be there";
  bench_.now = bench_.now + PlaceWatch::kEvery;
  Advance();
  absl::Status ended = absl::UnavailableError("connection refused");
  MarkEnded(&ended);
  EXPECT_EQ(Refuse(3, ended), Answer::kNobody);
  EXPECT_FALSE(watch_.IsLeaving(3, 9));
  EXPECT_EQ(watch_.ProcessAt(3), 0u);
}

TEST_F(PlaceWatchTest, WhatAProcessIsToldItsSuccessorIsNot) {
  Advance();
  Say(0, 5, true);
  EXPECT_TRUE(watch_.IsLeaving(0, 5));
  EXPECT_FALSE(watch_.IsLeaving(0, 6));
  watch_.Drain(0, 5);
  watch_.HandOver(0, Pair(1, 4));
  watch_.LetGo(0);
  Advance();
  EXPECT_TRUE(Asked(0).leaving());
  EXPECT_TRUE(Asked(0).leave());
  EXPECT_TRUE(Asked(0).may_leave());
  EXPECT_TRUE(watch_.IsLetGo(0));
  EXPECT_TRUE(Asked(0).hand_over() == v1::ConfigurationVersion(Pair(1, 4)));
  EXPECT_EQ(Refuse(0, RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                                   absl::Milliseconds(20), "another process")),
            Answer::kSomebody);
  bench_.now = bench_.now + PlaceWatch::kEvery;
  watch_.Drain(0, 5);
  Advance();
  EXPECT_EQ(Asked(0).header().server_incarnation(), 0u);
  EXPECT_FALSE(Asked(0).leave() || Asked(0).may_leave() || Asked(0).leaving());
  EXPECT_TRUE(IsZero(Asked(0).hand_over()));
}

TEST_F(PlaceWatchTest, APlaceThatNobodyNeedsIsToldSoAndAskedSeldom) {
  Advance();
  watch_.SetSpare(1, true);
  Say(1, 7, false);
  Advance();
  EXPECT_TRUE(Asked(1).spare());
  EXPECT_TRUE(Asked(1).header().configuration() ==
              bench_.configuration.get().version());
  Say(1, 7, false);
  bench_.now = bench_.now + PlaceWatch::kEvery;
  EXPECT_EQ(Advance(), std::set<uint32_t>());
  watch_.Drain(1, 7);
  EXPECT_EQ(Advance(), std::set<uint32_t>{1}) << "it hears that at once";
  EXPECT_TRUE(Asked(1).leave());
  watch_.SetSpare(1, false);
  Say(1, 7, true);
  Advance();
  EXPECT_FALSE(Asked(1).spare());
}

TEST_F(PlaceWatchTest, OneThatSaysNothingIsSilentUntilItDoes) {
  Advance();
  EXPECT_FALSE(watch_.IsSilent(2, bench_.now, absl::Seconds(5))) << "nobody";
  Say(2, 7, false);
  bench_.now = bench_.now + absl::Seconds(5);
  EXPECT_FALSE(watch_.IsSilent(2, bench_.now, absl::Seconds(5)));
  bench_.now = bench_.now + absl::Milliseconds(1);
  EXPECT_TRUE(watch_.IsSilent(2, bench_.now, absl::Seconds(5)));
  Advance();
  Refuse(2, absl::DeadlineExceededError("too late"));
  EXPECT_TRUE(watch_.IsSilent(2, bench_.now, absl::Seconds(5)));
  bench_.now = bench_.now + PlaceWatch::kEvery;
  Advance();
  Say(2, 7, false);
  EXPECT_FALSE(watch_.IsSilent(2, bench_.now, absl::Seconds(5)));
}

TEST_F(PlaceWatchTest, OnlyWhatIsAskedAfterSomebodyLeavesTellsWhoIsThere) {
  Advance();
  Say(0, 5, false);
  Advance();
  bench_.now = bench_.now + PlaceWatch::kEvery;
  Say(3, 7, true);
  EXPECT_FALSE(watch_.IsThereSince(0, 5, 3));
  Say(0, 5, false);
  EXPECT_FALSE(watch_.IsThereSince(0, 5, 3)) << "it was asked before";
  bench_.now = bench_.now + PlaceWatch::kEvery;
  Advance();
  EXPECT_FALSE(watch_.IsThereSince(0, 5, 3)) << "it has not answered";
  Say(0, 5, false);
  EXPECT_TRUE(watch_.IsThereSince(0, 5, 3));
  EXPECT_FALSE(watch_.IsThereSince(0, 6, 3));
  // Saying so again begins nothing anew.
  Advance();
  Say(3, 7, true);
  EXPECT_TRUE(watch_.IsThereSince(0, 5, 3));
}

TEST_F(PlaceWatchTest, WhatHasStoppedIsOfOneProcessAndOneBackup) {
  Advance();
  Say(0, 5, true, Pair(1, 4));
  EXPECT_TRUE(watch_.HasStopped(0, 5, Pair(1, 4)));
  EXPECT_FALSE(watch_.HasStopped(0, 5, Pair(1, 3)));
  EXPECT_FALSE(watch_.HasStopped(0, 6, Pair(1, 4)));
  EXPECT_FALSE(watch_.HasStopped(1, 0, {}));
  Advance();
  EXPECT_TRUE(Asked(0).stopped() == v1::ConfigurationVersion(Pair(1, 4)));
}

TEST_F(PlaceWatchTest, NobodyIsAskedBeforeTheJobRunsOrWithoutReplication) {
  bench_.phase = JobPhase::kFilling;
  EXPECT_EQ(Advance(), std::set<uint32_t>());
  EXPECT_EQ(watch_.next_tick(bench_.job), Time::Never());
  bench_.phase = JobPhase::kRunning;
  PlaceWatch without{JobOptions()};
  bench_.Do([&](Turn* turn) { without.Advance(turn); });
  EXPECT_TRUE(bench_.out.sends.empty());
  EXPECT_EQ(without.next_tick(bench_.job), Time::Never());
}

}  // namespace
}  // namespace paramd
