#include "tests/sim/key_story.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMixed[] = {uint64_t{1} << 60, uint64_t{2} << 60,
                               uint64_t{3} << 60, uint64_t{4} << 60};

KeyStory::Named Push(size_t first, size_t count, uint64_t now,
                     KeyStory* story) {
  return story->Push({kMixed + first, count}, first, now);
}

TEST(KeyStoryTest, TheKeyUnusedForLongestLosesItsRow) {
  KeyStory story(v1::Variable(), 2);
  EXPECT_THAT(Push(0, 2, 1, &story).created, ElementsAre(0, 1));
  EXPECT_THAT(Push(1, 1, 2, &story).kept, ElementsAre(1));
  const KeyStory::Named named = Push(2, 1, 3, &story);
  EXPECT_THAT(named.created, ElementsAre(2));
  EXPECT_THAT(named.lost, ElementsAre(0));
  EXPECT_EQ(named.evicted, 1u);
  EXPECT_EQ(Push(0, 3, 4, &story).ignored, 1u) << "the others are used now";
}

TEST(KeyStoryTest, AnotherJobBeginsWithTheKeysInTheOrderOfTheirLastUse) {
  KeyStory trained(v1::Variable(), 3);
  Push(0, 2, 1, &trained);
  Push(0, 1, 2, &trained);
  KeyStory story(v1::Variable(), 3);
  story.BeginWith(trained);
  EXPECT_THAT(Push(2, 2, 1, &story).created, ElementsAre(2))
      << "the others count as used by the first push";
  EXPECT_THAT(Push(3, 1, 2, &story).lost, ElementsAre(1));
  EXPECT_THAT(Push(1, 1, 3, &story).lost, ElementsAre(0));
}

TEST(KeyStoryTest, OrNewKeysGetNone) {
  v1::Variable variable;
  variable.set_when_full(v1::Variable::IGNORE);
  KeyStory story(variable, 2);
  Push(0, 2, 1, &story);
  const KeyStory::Named named = Push(1, 2, 2, &story);
  EXPECT_EQ(named.ignored, 1u);
  EXPECT_THAT(named.lost, IsEmpty());
  EXPECT_THAT(named.kept, ElementsAre(1));
}

TEST(KeyStoryTest, AKeyGetsARowWhenItWasNamedSoOften) {
  v1::Variable variable;
  variable.set_admit_after(2);
  KeyStory story(variable, 4);
  EXPECT_EQ(Push(0, 1, 1, &story).not_admitted, 1u);
  const KeyStory::Named named = Push(0, 2, 2, &story);
  EXPECT_THAT(named.created, ElementsAre(0));
  EXPECT_EQ(named.not_admitted, 1u);
}

TEST(KeyStoryTest, ARowExpiresWhenItIsLookedAt) {
  v1::Variable variable;
  variable.set_expire_after(3);
  KeyStory story(variable, 4);
  Push(0, 2, 1, &story);
  EXPECT_THAT(Push(0, 1, 4, &story).lost, IsEmpty()) << "row 0 is used now";
  EXPECT_THAT(Push(0, 1, 5, &story).lost, ElementsAre(1));
  EXPECT_THAT(Push(1, 1, 8, &story).lost, IsEmpty());
  EXPECT_THAT(Push(1, 1, 12, &story).lost, ElementsAre(0));
}

}  // namespace
}  // namespace paramd
