#include "worker/rendezvous/round_member.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Verdict = RoundMember::Verdict;

v1::StepPosition Step(uint32_t epoch, uint64_t begin) {
  v1::StepPosition step;
  step.set_epoch(epoch);
  step.set_begin(begin);
  return step;
}

v1::BeatReply RoundAt(uint64_t number, const v1::StepPosition& next) {
  v1::BeatReply round;
  round.set_round(number);
  round.add_workers(0);
  round.add_workers(2);
  *round.mutable_next() = next;
  return round;
}

TEST(CheckReplyTest, ARoundIsOfWorkersOfTheJob) {
  const v1::BeatReply good = RoundAt(3, Step(1, 0));
  EXPECT_TRUE(CheckReply(v1::BeatReply(), 2, 3).ok());
  EXPECT_TRUE(CheckReply(good, 2, 3).ok());
  EXPECT_FALSE(CheckReply(good, 1, 3).ok());
  EXPECT_FALSE(CheckReply(good, 0, 2).ok());
  v1::BeatReply links = good;
  links.add_links();
  EXPECT_FALSE(CheckReply(links, 2, 3).ok());
  links.add_links();
  EXPECT_TRUE(CheckReply(links, 2, 3).ok());
  v1::BeatReply source = good;
  source.set_source(99);
  EXPECT_EQ(CheckReply(source, 2, 3),
            absl::InvalidArgumentError(
                "the chief names round 3 of workers 0, 2 with the content of "
                "99 and 0 links, in which worker-2 of 3 has no place: give all "
                "processes the same TF_CONFIG"));
}

class RoundMemberTest : public ::testing::Test {
 protected:
  RoundMemberTest() { member_.StandBefore(Step(2, 8)); }

  RoundMember member_{/*worker=*/2, /*incarnation=*/7};
};

TEST_F(RoundMemberTest, IsInTheRoundThatItHears) {
  EXPECT_FALSE(member_.Hear(RoundAt(3, Step(2, 8))));
  EXPECT_TRUE(member_.is_in_one());
  EXPECT_EQ(member_.rank(), 1u);
  EXPECT_TRUE(member_.CheckPlace().ok());
}

TEST_F(RoundMemberTest, HearsThatItsRoundIsOver) {
  member_.Hear(RoundAt(3, Step(2, 8)));
  member_.Link({"a", ""});
  EXPECT_TRUE(member_.Hear(v1::BeatReply()));
  EXPECT_FALSE(member_.is_in_one());
  EXPECT_EQ(member_.said().left(), 3u);
  EXPECT_EQ(member_.said().linking(), 0u);
  EXPECT_EQ(member_.said().links_size(), 0);
}

TEST_F(RoundMemberTest, ARoundThatItHasLeftIsNotItsAgain) {
  member_.Hear(RoundAt(3, Step(2, 8)));
  member_.Leave();
  member_.Hear(RoundAt(3, Step(2, 8)));  // Was on its way.
  EXPECT_FALSE(member_.is_in_one());
  member_.Hear(RoundAt(4, Step(2, 8)));
  EXPECT_TRUE(member_.is_in_one());
}

TEST_F(RoundMemberTest, AStepThatFailedIsMadeAgainBeforeWhichTheRoundStands) {
  member_.Hear(RoundAt(3, Step(2, 8)));
  EXPECT_EQ(member_.VerdictOf(/*has_sums=*/true), Verdict::kMakeAgain);
  EXPECT_EQ(member_.VerdictOf(/*has_sums=*/false), Verdict::kMakeAgain);
}

TEST_F(RoundMemberTest, AStepIsMadeThatAnotherOneHasMadeIfTheSumsAreHere) {
  v1::BeatReply round = RoundAt(3, Step(2, 16));
  round.add_figures(1);
  member_.Hear(round);
  EXPECT_EQ(member_.VerdictOf(/*has_sums=*/true), Verdict::kIsMade);
  EXPECT_EQ(member_.VerdictOf(/*has_sums=*/false), Verdict::kElsewhere);
  EXPECT_THAT(std::string(member_.CheckPlace().message()),
              HasSubstr("this worker stands at example 8 of epoch 2, worker-0 "
                        "at example 16 of epoch 2"));
}

TEST_F(RoundMemberTest, BehindTheLastStepIsElsewhereToo) {
  v1::BeatReply round = RoundAt(3, Step(2, 8));
  round.clear_next();
  round.set_ended(true);
  member_.Hear(round);
  EXPECT_EQ(member_.CheckPlace().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace paramd
