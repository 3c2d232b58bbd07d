#include "worker/core/push_cut.h"

#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

v1::SnapshotNumber Snapshot(uint64_t term, uint64_t counter) {
  return MakeNumber<v1::SnapshotNumber>(term, counter);
}

v1::WorkerCut CutOf(const v1::SnapshotNumber& snapshot, uint64_t sequence) {
  v1::WorkerCut cut;
  *cut.mutable_snapshot() = snapshot;
  cut.set_sequence(sequence);
  return cut;
}

TEST(PushCutTest, BeforeTheFirstSnapshotThereIsNoStamp) {
  PushCut cut;
  EXPECT_TRUE(IsZero(cut.stamp()));
  EXPECT_FALSE(cut.IsAsked({}));
  EXPECT_TRUE(cut.is_heard()) << "there is nothing to hear of";
}

TEST(PushCutTest, ASnapshotIsCutOnceAndAnEarlierOneNeverAfterIt) {
  PushCut cut;
  ASSERT_TRUE(cut.IsAsked(Snapshot(1, 2)));
  cut.Make(CutOf(Snapshot(1, 2), 5));
  EXPECT_EQ(cut.stamp(), Snapshot(1, 2));
  EXPECT_FALSE(cut.IsAsked(Snapshot(1, 2)));
  EXPECT_FALSE(cut.IsAsked(Snapshot(1, 1)));
  EXPECT_FALSE(cut.IsAsked({}));
  EXPECT_TRUE(cut.IsAsked(Snapshot(2, 1)));
}

TEST(PushCutTest, Promise3_ItIsAcknowledgedWithThePushesUpToIt) {
  PushCut cut;
  cut.Make(CutOf(Snapshot(1, 1), 5));
  EXPECT_FALSE(cut.Said(4).acknowledged());
  EXPECT_TRUE(cut.Said(5).acknowledged());
  EXPECT_EQ(cut.Said(7).sequence(), 5u);
}

TEST(PushCutTest, OnlyItselfMakesItHeard) {
  PushCut cut;
  cut.Make(CutOf(Snapshot(1, 2), 5));
  EXPECT_FALSE(cut.is_heard());
  cut.Heard({});
  cut.Heard(CutOf(Snapshot(1, 1), 3));
  EXPECT_FALSE(cut.is_heard());
  cut.Heard(cut.Said(4));
  EXPECT_TRUE(cut.is_heard());
  cut.Make(CutOf(Snapshot(1, 3), 6));
  EXPECT_FALSE(cut.is_heard());
}

TEST(PushCutTest, ANewSessionHasNoStamp) {
  PushCut cut;
  cut.Make(CutOf(Snapshot(1, 2), 5));
  cut.BeginSession();
  EXPECT_TRUE(IsZero(cut.stamp()));
  EXPECT_TRUE(cut.is_heard());
}

}  // namespace
}  // namespace paramd
