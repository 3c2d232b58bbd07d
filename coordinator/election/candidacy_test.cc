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

LeaderKey KeyOf(const std::string& address, uint64_t incarnation, int64_t lease,
                uint64_t run = 2) {
  return {ElectedChief{address, incarnation, run}.ToText(), 5, lease};
}

TEST(CandidacyTest, WhereThereIsNoKeyOneIsCreated) {
  const Candidate candidate{{"a:1", 7, 2}, 0, 0};
  EXPECT_EQ(NextMove(candidate, absl::nullopt), CandidateMove::kCreate);
}

TEST(CandidacyTest, AKeyOfItsOwnLeaseIsItsOwn) {
  const Candidate candidate{{"a:1", 7, 2}, 0, 30};
  EXPECT_EQ(NextMove(candidate, KeyOf("a:1", 7, 30)),
            CandidateMove::kIsElected);
}

TEST(CandidacyTest, AKeyOfAnEarlierLeaseOfItsOwnIsWaitedFor) {
  const Candidate candidate{{"a:1", 7, 2}, 0, 30};
  EXPECT_EQ(NextMove(candidate, KeyOf("a:1", 7, 29)), CandidateMove::kStandBy);
  // Without one, no key without one is its own.
  const Candidate without{{"a:1", 7, 2}, 0, 0};
  EXPECT_EQ(NextMove(without, KeyOf("a:1", 7, 0)), CandidateMove::kStandBy);
}

TEST(CandidacyTest, TheKeyOfOneThatHasEndedIsRemovedAndNoOther) {
  const Candidate candidate{{"a:1", 8, 2}, 7, 30};
  EXPECT_EQ(NextMove(candidate, KeyOf("a:1", 7, 29)), CandidateMove::kRemove);
  EXPECT_EQ(NextMove(candidate, KeyOf("b:1", 9, 29)), CandidateMove::kStandBy);
}

TEST(CandidacyTest, AKeyOfAnotherRunOrOfNobodyKnownIsNotWaitedFor) {
  const Candidate candidate{{"a:1", 7, 2}, 0, 0};
  EXPECT_EQ(NextMove(candidate, KeyOf("b:1", 8, 29, /*run=*/3)),
            CandidateMove::kOtherRun);
  EXPECT_EQ(NextMove(candidate, LeaderKey{"something", 5, 29}),
            CandidateMove::kNotOurs);
}

TEST(FollowedChiefTest, IsWhereTheKeySaidLast) {
  FollowedChief chief("listed:1");
  EXPECT_FALSE(chief.Found(absl::nullopt));
  EXPECT_EQ(chief.address(), "listed:1");
  EXPECT_TRUE(chief.Found(KeyOf("a:1", 7, 1)));
  EXPECT_FALSE(chief.Found(KeyOf("a:1", 8, 2))) << "another process there";
  EXPECT_FALSE(chief.Found(absl::nullopt));
  EXPECT_EQ(chief.address(), "a:1") << "nobody is elected now";
  EXPECT_TRUE(chief.Found(KeyOf("b:1", 9, 3)));
  EXPECT_FALSE(chief.Found(LeaderKey{"nonsense", 9, 4}));
  EXPECT_EQ(chief.address(), "b:1");
  // An etcd that has lost its data begins again with low revisions.
  EXPECT_TRUE(chief.Found(LeaderKey{"c:1 09 02", 1, 1}));
  EXPECT_EQ(chief.address(), "c:1");
}

}  // namespace
}  // namespace paramd
