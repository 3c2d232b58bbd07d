#include "coordinator/election/candidacy.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(ElectedChiefTest, TheKeysTextIsReadBack) {
  const ElectedChief chief{"[::1]:7077", 0x12, 0xffffffffffffffff};
  EXPECT_EQ(chief.ToText(), "[::1]:7077 0000000000000012 ffffffffffffffff");
  const auto read = ElectedChief::FromText(chief.ToText());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->address, chief.address);
  EXPECT_EQ(read->incarnation, chief.incarnation);
  EXPECT_EQ(read->run, chief.run);
  for (const char* text : {"", "a:1", "a:1 1", " 1 1", "a:1 x 1", "a 1 1 1"}) {
    EXPECT_FALSE(ElectedChief::FromText(text).has_value()) << text;
  }
}

ChiefHolder ChiefOf(const std::string& address, uint64_t incarnation,
                    bool is_alive = true, uint64_t run = 2) {
  ChiefHolder holder;
  holder.text = ElectedChief{address, incarnation, run}.ToText();
  holder.is_alive = is_alive;
  return holder;
}

TEST(HolderOfTest, AKeyIsHeldByWhoeverHasItsLease) {
  EXPECT_FALSE(HolderOf(absl::nullopt, 30).has_value());
  const EtcdKey key{"a:1 07 02", 5, 30};
  const auto own = HolderOf(key, 30);
  ASSERT_TRUE(own.has_value());
  EXPECT_TRUE(own->is_self);
  EXPECT_TRUE(own->is_alive);
  EXPECT_EQ(own->token, 5u);
  EXPECT_EQ(own->text, "a:1 07 02");
  EXPECT_FALSE(HolderOf(key, 31)->is_self) << "an earlier lease of its own";
  EXPECT_FALSE(HolderOf(EtcdKey{"a:1 07 02", 5, 0}, 0)->is_self)
      << "neither has one";
}

TEST(CandidacyTest, WhatNobodyHoldsIsTaken) {
  EXPECT_EQ(NextMove({{"a:1", 7, 2}, 0}, absl::nullopt), CandidateMove::kTake);
}

TEST(CandidacyTest, WhoHoldsItIsElected) {
  ChiefHolder self = ChiefOf("a:1", 7);
  self.is_self = true;
  EXPECT_EQ(NextMove({{"a:1", 7, 2}, 0}, self), CandidateMove::kIsElected);
}

TEST(CandidacyTest, WhatItTookEarlierAndDoesNotHoldIsWaitedFor) {
  EXPECT_EQ(NextMove({{"a:1", 7, 2}, 0}, ChiefOf("a:1", 7)),
            CandidateMove::kStandBy);
}

TEST(CandidacyTest, OneThatHasEndedIsRemovedAndNoOther) {
  const Candidate candidate{{"a:1", 8, 2}, 7};
  EXPECT_EQ(NextMove(candidate, ChiefOf("a:1", 7)), CandidateMove::kRemove);
  EXPECT_EQ(NextMove(candidate, ChiefOf("b:1", 9)), CandidateMove::kStandBy);
}

TEST(CandidacyTest, OneOfAnotherRunOrOfNobodyKnownIsNotWaitedFor) {
  const Candidate candidate{{"a:1", 7, 2}, 0};
  EXPECT_EQ(NextMove(candidate, ChiefOf("b:1", 8, /*is_alive=*/true, 3)),
            CandidateMove::kOtherRun);
  EXPECT_EQ(NextMove(candidate, ChiefOf("b:1", 8, /*is_alive=*/false, 3)),
            CandidateMove::kStandBy);
  ChiefHolder other;
  other.text = "something";
  EXPECT_EQ(NextMove(candidate, other), CandidateMove::kNotOurs);
}

TEST(FollowedChiefTest, IsWhereTheRecordSaidLast) {
  FollowedChief chief("listed:1");
  EXPECT_FALSE(chief.Found(absl::nullopt));
  EXPECT_EQ(chief.address(), "listed:1");
  EXPECT_TRUE(chief.Found(ChiefOf("a:1", 7)));
  EXPECT_FALSE(chief.Found(ChiefOf("a:1", 8))) << "another process there";
  EXPECT_FALSE(chief.Found(absl::nullopt));
  EXPECT_EQ(chief.address(), "a:1") << "nobody is elected now";
  EXPECT_TRUE(chief.Found(ChiefOf("b:1", 9)));
  ChiefHolder other;
  other.text = "nonsense";
  EXPECT_FALSE(chief.Found(other));
  EXPECT_EQ(chief.address(), "b:1");
}

}  // namespace
}  // namespace paramd
