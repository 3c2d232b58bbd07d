#include "coordinator/core/pings.h"

#include <map>
#include <set>

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::PartBench;

CoordinatorOptions PingedJob() {
  CoordinatorOptions options = JobOptions();
  options.places = PlacesOf(/*tasks=*/2, /*shards=*/1);
  return options;
}

class PingsTest : public ::testing::Test {
 protected:
  // Those that it asks.
  std::set<uint32_t> Advance() {
    bench_.Do([&](Turn* turn) { pings_.Advance(turn); });
    std::set<uint32_t> asked;
    for (const Outbox::SendItem& sent : bench_.out.sends) {
      asked.insert(sent.to.index);
      calls_[sent.to.index] = sent.call;
    }
    return asked;
  }
  Pings::Answer Answer(uint32_t peer, const absl::Status& status) {
    Message message;
    message.is_reply = true;
    message.from = PeerId::Ps(peer);
    message.call = calls_[peer];
    message.status = status;
    Pings::Answer answer = Pings::Answer::kNone;
    bench_.Do([&](Turn* turn) { answer = pings_.OnReply(message, *turn); });
    return answer;
  }

  PartBench bench_{PingedJob()};
  Pings pings_{bench_.options};
  std::map<uint32_t, CallId> calls_;
};

TEST_F(PingsTest, AllPlacesAreAskedAsOftenAsTheyAnswer) {
  bench_.phase = JobPhase::kRunning;
  EXPECT_EQ(Advance(), (std::set<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Advance(), std::set<uint32_t>()) << "calls are under way";
  const absl::Status refused =
      Refuse(v1::Refusal::INVALID, "encoding", "no encoding");
  EXPECT_EQ(Answer(2, refused), Pings::Answer::kSomebody);
  EXPECT_EQ(Answer(2, refused), Pings::Answer::kNone) << "it is no call of it";
  EXPECT_EQ(pings_.next_tick(bench_.job), bench_.now + Pings::kEvery);
  bench_.now = bench_.now + Pings::kEvery;
  EXPECT_EQ(Advance(), std::set<uint32_t>{2});
}

TEST_F(PingsTest, WhereNobodyAnswersThatIsSaid) {
  bench_.phase = JobPhase::kRunning;
  Advance();
  EXPECT_EQ(Answer(3, absl::UnavailableError("connection lost")),
            Pings::Answer::kNobody);
}

TEST_F(PingsTest, NobodyIsAskedBeforeTheJobRunsOrWithoutReplication) {
  bench_.phase = JobPhase::kFilling;
  EXPECT_EQ(Advance(), std::set<uint32_t>());
  EXPECT_EQ(pings_.next_tick(bench_.job), Time::Never());
  bench_.phase = JobPhase::kRunning;
  Pings without{JobOptions()};
  bench_.Do([&](Turn* turn) { without.Advance(turn); });
  EXPECT_TRUE(bench_.out.sends.empty());
  EXPECT_EQ(without.next_tick(bench_.job), Time::Never());
}

}  // namespace
}  // namespace paramd
