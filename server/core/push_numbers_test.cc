#include "server/core/push_numbers.h"

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::Pair;

v1::Header Push(uint64_t sequence, uint64_t generation = 10) {
  v1::Header header;
  header.set_worker(1);
  *header.mutable_generation() = Pair(1, generation);
  header.set_sequence(sequence);
  return header;
}

class PushNumbersTest : public ::testing::Test {
 protected:
  PushNumbersTest() { numbers_.Begin(Pair(1, 5)); }

  PushNumbers numbers_;
};

TEST_F(PushNumbersTest, APushMayBeAsFarAheadAsPushesCanBeGivenUp) {
  EXPECT_TRUE(numbers_.Hear(Push(1)).ok());
  EXPECT_TRUE(numbers_.Hear(Push(1025)).ok());
  EXPECT_TRUE(numbers_.Hear(Push(3)).ok()) << "a late one";
  const absl::Status refused = numbers_.Hear(Push(2050));
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(),
            "push 2050 of worker-1 generation 1.10; the newest that came is "
            "1025, and at most 1024 can be missing");
  EXPECT_TRUE(numbers_.Hear(Push(2049)).ok()) << "nothing was noted";
}

TEST_F(PushNumbersTest, ASessionOfThisLifeBeginsNearOne) {
  EXPECT_FALSE(numbers_.Hear(Push(1025)).ok());
  EXPECT_TRUE(numbers_.Hear(Push(1024)).ok());
}

TEST_F(PushNumbersTest, ASessionThatIsOlderThanTheLifeMayBeAnywhereOnce) {
  EXPECT_TRUE(numbers_.Hear(Push(5000000, /*generation=*/4)).ok());
  EXPECT_FALSE(numbers_.Hear(Push(6000000, /*generation=*/4)).ok());
  // So in the next life.
  numbers_.Begin(Pair(1, 7));
  EXPECT_TRUE(numbers_.Hear(Push(6000000, /*generation=*/4)).ok());
}

TEST_F(PushNumbersTest, ASessionThatFollowsBeginsAnew) {
  ASSERT_TRUE(numbers_.Hear(Push(1000)).ok());
  numbers_.SetLiving({{1, Pair(1, 10)}});
  EXPECT_TRUE(numbers_.Hear(Push(2000)).ok());
  numbers_.SetLiving({{1, Pair(1, 11)}});
  EXPECT_FALSE(numbers_.Hear(Push(2001, /*generation=*/11)).ok());
  EXPECT_TRUE(numbers_.Hear(Push(1, /*generation=*/11)).ok());
}

}  // namespace
}  // namespace paramd
