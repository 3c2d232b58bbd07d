#include "tests/sim/arbiter.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

absl::Duration At(int64_t seconds) { return absl::Seconds(seconds); }

TEST(SimArbiterTest, AKeyIsCreatedOnceAndGoesWithItsLease) {
  SimArbiter arbiter;
  const int64_t a = arbiter.Grant(At(10), At(0));
  const int64_t b = arbiter.Grant(At(10), At(2));
  const uint64_t first = arbiter.Create("a", a, At(3));
  EXPECT_GT(first, 0u);
  EXPECT_EQ(arbiter.Create("b", b, At(4)), 0u);
  EXPECT_EQ(arbiter.Get(At(9))->value, "a");
  EXPECT_FALSE(arbiter.Get(At(10)).has_value());
  const uint64_t second = arbiter.Create("b", b, At(11));
  EXPECT_GT(second, first);
  EXPECT_EQ(arbiter.LeaseOf(first), a);
  EXPECT_EQ(arbiter.LeaseOf(second), b);
  EXPECT_EQ(arbiter.elections(), 2u);
}

TEST(SimArbiterTest, ALeaseThatIsKeptAliveBeginsAgain) {
  SimArbiter arbiter;
  const int64_t a = arbiter.Grant(At(10), At(0));
  arbiter.Create("a", a, At(0));
  EXPECT_TRUE(arbiter.KeepAlive(a, At(9)));
  EXPECT_TRUE(arbiter.Get(At(18)).has_value());
  EXPECT_FALSE(arbiter.KeepAlive(a, At(19)));
  EXPECT_FALSE(arbiter.Get(At(19)).has_value());
}

TEST(SimArbiterTest, NoKeyIsBoundToALeaseThatHasEnded) {
  SimArbiter arbiter;
  const int64_t a = arbiter.Grant(At(10), At(0));
  arbiter.Revoke(a, At(1));
  EXPECT_EQ(arbiter.Create("a", a, At(1)), 0u);
}

TEST(SimArbiterTest, ARevokedLeaseTakesItsKeyAlong) {
  SimArbiter arbiter;
  const int64_t a = arbiter.Grant(At(10), At(0));
  arbiter.Create("a", a, At(0));
  arbiter.Revoke(a, At(1));
  EXPECT_FALSE(arbiter.Get(At(1)).has_value());
}

TEST(SimArbiterTest, OnlyTheKeyOfThatRevisionIsDeleted) {
  SimArbiter arbiter;
  const int64_t a = arbiter.Grant(At(10), At(0));
  const uint64_t key = arbiter.Create("a", a, At(0));
  arbiter.Delete(key + 1, At(1));
  EXPECT_TRUE(arbiter.Get(At(1)).has_value());
  arbiter.Delete(key, At(1));
  EXPECT_FALSE(arbiter.Get(At(1)).has_value());
}

}  // namespace
}  // namespace paramd
