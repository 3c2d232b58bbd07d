#include "worker/rendezvous/rendezvous.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::BeatRequest Waiting(uint32_t worker, uint64_t incarnation) {
  v1::BeatRequest beat;
  beat.set_worker(worker);
  beat.set_incarnation(incarnation);
  beat.set_waits(true);
  return beat;
}

v1::BeatRequest WaitingAt(uint32_t worker, uint32_t epoch, uint64_t begin) {
  v1::BeatRequest beat = Waiting(worker, 10 + worker);
  beat.mutable_next()->set_epoch(epoch);
  beat.mutable_next()->set_begin(begin);
  return beat;
}

class RendezvousTest : public ::testing::Test {
 protected:
  explicit RendezvousTest(uint32_t fewest = 0)
      : rendezvous_({.workers = 3,
                     .lost_after = absl::Seconds(5),
                     .patience = absl::Minutes(1),
                     .fewest = fewest}) {}

  v1::BeatReply Beat(const v1::BeatRequest& beat) {
    return *rendezvous_.Beat(beat, now_);
  }
  // All three are in a round.
  v1::BeatReply FormRound() {
    Beat(WaitingAt(0, 1, 0));
    Beat(WaitingAt(1, 1, 0));
    return Beat(WaitingAt(2, 1, 0));
  }

  Time now_ = Time() + absl::Hours(1);
  Rendezvous rendezvous_;
};

TEST_F(RendezvousTest, ARoundBeginsWhenAllWait) {
  EXPECT_EQ(Beat(Waiting(1, 11)).round(), 0u);
  EXPECT_EQ(Beat(Waiting(0, 10)).round(), 0u);
  const v1::BeatReply reply = Beat(Waiting(2, 12));
  EXPECT_EQ(reply.round(), 1u);
  EXPECT_THAT(reply.workers(), ElementsAre(0, 1, 2));
  EXPECT_EQ(reply.source(), 0u);  // Nobody has any content: the chief's.
  EXPECT_FALSE(reply.has_next());
}

TEST_F(RendezvousTest, WhoIsMissingIsNamedAndSinceWhen) {
  Beat(Waiting(0, 10));
  now_ = now_ + absl::Seconds(3);
  const v1::BeatReply reply = Beat(Waiting(2, 12));
  ASSERT_EQ(reply.missing_size(), 1);
  EXPECT_EQ(reply.missing(0).worker(), 1u);
  EXPECT_EQ(reply.missing(0).since_ms(), 3000u);
  EXPECT_EQ(reply.missing(0).doing(), "");
}

TEST_F(RendezvousTest, TheFurthestIsTheSource) {
  Beat(WaitingAt(0, 1, 8));
  Beat(Waiting(1, 11));
  v1::BeatRequest furthest = WaitingAt(2, 1, 16);
  furthest.add_figures(7);
  const v1::BeatReply reply = Beat(furthest);
  EXPECT_EQ(reply.source(), 2u);
  EXPECT_EQ(reply.next().begin(), 16u);
  EXPECT_THAT(reply.figures(), ElementsAre(7));
}

TEST_F(RendezvousTest, LinksAreToldWhenAllHaveThem) {
  const uint64_t round = FormRound().round();
  for (uint32_t w = 0; w < 3; ++w) {
    v1::BeatRequest beat = WaitingAt(w, 1, 0);
    beat.set_waits(false);
    beat.set_linking(round);
    beat.add_links("to 0");
    const v1::BeatReply reply = Beat(beat);
    EXPECT_EQ(reply.links_size(), w == 2 ? 3 : 0);
    EXPECT_EQ(reply.missing_size(), w == 2 ? 0 : 2 - static_cast<int>(w));
  }
}

TEST_F(RendezvousTest, ARoundIsOverWhenOneHasLeftIt) {
  const uint64_t round = FormRound().round();
  v1::BeatRequest left = WaitingAt(1, 1, 0);
  left.set_left(round);
  EXPECT_EQ(Beat(left).round(), round + 1);  // The others wait still.
}

// None would follow it.
TEST_F(RendezvousTest, ANumberThatNoRoundHasIsRefused) {
  v1::BeatRequest left = WaitingAt(1, 1, 0);
  left.set_left(~uint64_t{0});
  EXPECT_EQ(rendezvous_.Beat(left, now_).status().message(),
            "worker-1 names round 18446744073709551615; there is none of that "
            "number");
  v1::BeatRequest linking = WaitingAt(1, 1, 0);
  linking.set_linking(~uint64_t{0});
  EXPECT_FALSE(rendezvous_.Beat(linking, now_).ok());
  EXPECT_EQ(FormRound().round(), 1u);
}

TEST_F(RendezvousTest, ARoundIsOverWhenOneIsSilent) {
  const uint64_t round = FormRound().round();
  now_ = now_ + absl::Seconds(6);
  const v1::BeatReply reply = Beat(WaitingAt(0, 1, 0));
  EXPECT_EQ(reply.round(), 0u);
  EXPECT_EQ(reply.missing_size(), 2);
  EXPECT_EQ(round, 1u);
}

TEST_F(RendezvousTest, ARoundIsOverWhenOneIsAnotherProcess) {
  const uint64_t round = FormRound().round();
  v1::BeatRequest computing = WaitingAt(0, 1, 0);
  computing.set_waits(false);
  EXPECT_EQ(Beat(computing).round(), round);
  Beat(Waiting(1, 99));
  EXPECT_EQ(Beat(computing).round(), 0u);
}

TEST_F(RendezvousTest, AProcessThatWasReplacedIsTold) {
  Beat(Waiting(1, 11));
  Beat(Waiting(1, 12));
  const auto reply = rendezvous_.Beat(Waiting(1, 11), now_);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("worker-1"));
}

TEST_F(RendezvousTest, WhoDoesNotSayWhichProcessItIsTakesNobodysPlace) {
  const uint64_t round = FormRound().round();
  const auto reply = rendezvous_.Beat(Waiting(1, 0), now_);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("worker-1"));
  EXPECT_EQ(Beat(WaitingAt(1, 1, 0)).round(), round);
}

TEST_F(RendezvousTest, AnotherModelIsRefused) {
  Beat(Waiting(0, 10));
  v1::BeatRequest other = Waiting(1, 11);
  other.set_model_crc32c(5);
  const auto reply = rendezvous_.Beat(other, now_);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(reply.status().message()),
              HasSubstr("worker-1 has another model"));
}

TEST_F(RendezvousTest, AWorkerThatIsNoneIsRefused) {
  EXPECT_EQ(rendezvous_.Beat(Waiting(3, 13), now_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RendezvousTest, ANewChiefGivesLargerNumbers) {
  v1::BeatRequest left = WaitingAt(2, 1, 8);
  left.set_left(41);
  Beat(left);
  Beat(WaitingAt(1, 1, 8));
  EXPECT_EQ(Beat(Waiting(0, 10)).round(), 42u);
}

TEST_F(RendezvousTest, WithoutEnoughWorkersItGivesUpBehindThePatience) {
  Beat(Waiting(0, 10));
  now_ = now_ + absl::Seconds(59);
  EXPECT_EQ(Beat(Waiting(0, 10)).gave_up(), "");
  now_ = now_ + absl::Seconds(1);
  EXPECT_THAT(Beat(Waiting(0, 10)).gave_up(),
              HasSubstr("worker-1, worker-2 did not come within 1m"));
}

TEST_F(RendezvousTest, TheEndIsKnownWhenAllHaveBeenTold) {
  Beat(Waiting(1, 11));
  Beat(Waiting(0, 10));
  rendezvous_.Finish();
  EXPECT_FALSE(rendezvous_.AllKnowTheEnd(now_));
  EXPECT_TRUE(Beat(Waiting(1, 11)).finished());
  EXPECT_TRUE(Beat(Waiting(0, 10)).finished());
  EXPECT_TRUE(rendezvous_.AllKnowTheEnd(now_));  // Worker 2 was never there.
  EXPECT_FALSE(rendezvous_.EverybodyKnowsTheEnd());
  Beat(Waiting(2, 12));
  EXPECT_TRUE(rendezvous_.EverybodyKnowsTheEnd());
}

class FewerTest : public RendezvousTest {
 protected:
  FewerTest() : RendezvousTest(/*fewest=*/2) {}
};

TEST_F(FewerTest, TheOthersGoOnBehindThePatienceAndTakeTheLostOneBack) {
  Beat(WaitingAt(0, 1, 8));
  Beat(WaitingAt(2, 1, 8));
  now_ = now_ + absl::Minutes(1);
  Beat(WaitingAt(0, 1, 8));
  v1::BeatReply reply = Beat(WaitingAt(2, 1, 8));
  EXPECT_EQ(reply.round(), 1u);
  EXPECT_THAT(reply.workers(), ElementsAre(0, 2));
  v1::BeatRequest computing = WaitingAt(0, 1, 8);
  computing.set_waits(false);
  EXPECT_EQ(Beat(computing).round(), 1u);
  Beat(Waiting(1, 11));
  EXPECT_EQ(Beat(computing).round(), 0u);
}

TEST_F(FewerTest, NotWithoutTheChief) {
  Beat(WaitingAt(1, 1, 8));
  Beat(WaitingAt(2, 1, 8));
  now_ = now_ + absl::Minutes(1);
  Beat(WaitingAt(1, 1, 8));
  EXPECT_THAT(Beat(WaitingAt(2, 1, 8)).gave_up(), HasSubstr("worker-0"));
}

}  // namespace
}  // namespace paramd
