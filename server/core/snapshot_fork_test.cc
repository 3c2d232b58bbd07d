#include "server/core/snapshot_fork.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/optimizer.h"
#include "server/core/spare_buffers.h"
#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::MakeAdamConfiguration;
using testing::Pair;
using testing::Payload;
using testing::Zeros;

constexpr uint64_t kElements = 300000;  // Two blocks.
constexpr uint64_t kBlockBytes = 3 * 37856 * sizeof(float);

// Slices "a" and "b" of two blocks each, trained with Adam by gradients of
// ones.
class SnapshotForkTest : public ::testing::Test {
 protected:
  SnapshotForkTest()
      : optimizer_(*Optimizer::Create(
            MakeAdamConfiguration({Zeros("a", {1})}).optimizer(), 0)),
        a_(Zeros("a", {kElements}), 1, {0, kElements}, &spare_),
        b_(Zeros("b", {kElements}), 1, {0, kElements}, &spare_) {
    for (Slice* const slice : {&a_, &b_}) {
      slice->SetTraining({}, optimizer_.slots(), /*seed=*/1);
      slice->CreateBlocks(/*life=*/7);
      for (int b = 0; b < 2; ++b) Zero(&slice->block(b));
    }
  }

  static void Zero(Block* block) {
    const auto fill = [](absl::Span<float> numbers) {
      std::fill(numbers.begin(), numbers.end(), 0.0f);
    };
    fill(block->mutable_values());
    fill(block->mutable_slots());
  }

  // Worker `worker` pushes, as a ShardContent takes it.
  void Push(uint32_t worker, uint64_t sequence, const v1::SnapshotNumber& stamp,
            Slice* slice, int block) {
    const PushId push{worker, Pair(1, 1), sequence};
    ASSERT_EQ(*slice->applied().Admit(push, block),
              AppliedPushes::Admission::kApply);
    fork_.Hear(stamp);
    const SnapshotFork::Twin twin = fork_.BeforeChange(stamp, *slice, block);
    for (Block* const copy : {twin.block, &slice->block(block)}) {
      if (copy == nullptr) continue;
      const BufferChain ones = Payload(std::vector<float>(copy->elements(), 1));
      ChainReader gradient(ones);
      copy->Apply(optimizer_, &gradient, &spare_);
    }
    slice->applied().MarkApplied(push, block);
    if (twin.record != nullptr) twin.record->MarkApplied(push, block);
  }
  void Push(uint32_t worker, uint64_t sequence, const v1::SnapshotNumber& stamp,
            int block) {
    Push(worker, sequence, stamp, &a_, block);
  }
  void Seal(const v1::SnapshotNumber& number) {
    fork_.Seal(number, {&a_, &b_});
  }

  // Pushes in a block of "a", by the count; checked against values and slots.
  static uint64_t In(const Block& block) {
    const auto first = [](const Buffer& buffer) {
      return *reinterpret_cast<const float*>(buffer.bytes().data());
    };
    const bool changed = block.applied() > 0;
    EXPECT_EQ(first(block.values()) != 0, changed);
    // The momentum after n gradients of 1 is 1 - 0.9^n.
    EXPECT_NEAR(first(block.slots()), 1 - PowerOf(0.9, block.applied()), 1e-5);
    return block.applied();
  }
  // The newest push of `worker` that the sealed record of "a" has.
  uint64_t Recorded(uint32_t worker) const {
    v1::SavedSlice saved;
    fork_.record(a_).Save(&saved);
    for (const v1::PushRecord& record : saved.records()) {
      if (record.worker() == worker) return record.sequence();
    }
    return 0;
  }

  const Optimizer optimizer_;
  SpareBuffers spare_;
  Slice a_;
  Slice b_;
  SnapshotFork fork_;
};

TEST_F(SnapshotForkTest, Promise3_AStampedPushIsNotInTheSnapshot) {
  Push(1, 1, {}, 0);
  Push(1, 2, Pair(1, 1), 0);
  Push(1, 2, Pair(1, 1), 1);
  Seal(Pair(1, 1));
  EXPECT_EQ(In(fork_.block(a_, 0)), 1u);
  EXPECT_EQ(In(fork_.block(a_, 1)), 0u);
  EXPECT_EQ(Recorded(1), 1u);
  EXPECT_EQ(In(a_.block(0)), 2u);
  EXPECT_EQ(In(a_.block(1)), 1u);
}

TEST_F(SnapshotForkTest, Promise3_ALatePushBeforeTheCutIsInBothCopies) {
  Push(1, 1, Pair(1, 1), 1);
  Push(2, 1, {}, 1);
  EXPECT_EQ(In(a_.block(1)), 2u);
  Seal(Pair(1, 1));
  EXPECT_EQ(In(fork_.block(a_, 1)), 1u);
  EXPECT_EQ(Recorded(1), 0u);
  EXPECT_EQ(Recorded(2), 1u);
}

TEST_F(SnapshotForkTest, Promise3_TheRecordForksWithTheFirstBlockOfItsSlice) {
  Push(1, 1, Pair(1, 1), 1);
  Push(2, 1, {}, 0);  // A block that is not forked.
  Push(2, 1, Pair(0, 1), &b_, 0);
  Seal(Pair(1, 1));
  EXPECT_EQ(In(fork_.block(a_, 0)), 1u);
  EXPECT_EQ(In(fork_.block(b_, 0)), 1u);
  EXPECT_EQ(Recorded(1), 0u);
  EXPECT_EQ(Recorded(2), 1u);
}

TEST_F(SnapshotForkTest, Promise3_APushOfNoExamplesForksTheRecordAlone) {
  const PushId push{1, Pair(1, 1), 1};
  fork_.Hear(Pair(1, 1));
  EXPECT_EQ(fork_.BeforeRecord(Pair(1, 1), a_), nullptr);
  a_.applied().MarkApplied(push, 0);
  Push(2, 1, {}, 0);
  const PushId late{3, Pair(1, 1), 1};
  AppliedPushes* const forked = fork_.BeforeRecord({}, a_);
  ASSERT_NE(forked, nullptr);
  a_.applied().MarkApplied(late, 0);
  forked->MarkApplied(late, 0);
  Seal(Pair(1, 1));
  EXPECT_EQ(fork_.bytes(), 0u);
  EXPECT_EQ(In(fork_.block(a_, 0)), 1u);
  EXPECT_EQ(Recorded(1), 0u);
  EXPECT_EQ(Recorded(2), 1u);
  EXPECT_EQ(Recorded(3), 1u);
}

TEST_F(SnapshotForkTest, WhatNobodyStampedForksAtTheSeal) {
  Push(1, 1, {}, 0);
  Seal(Pair(1, 1));
  Push(1, 2, {}, 0);
  EXPECT_EQ(In(fork_.block(a_, 0)), 1u);
  EXPECT_EQ(Recorded(1), 1u);
  EXPECT_EQ(In(a_.block(0)), 2u);
}

TEST_F(SnapshotForkTest, Promise3_TheStampOfASealedSnapshotForksNothing) {
  Push(1, 1, Pair(1, 1), 0);
  Seal(Pair(1, 1));
  fork_.Release();
  Push(1, 2, Pair(1, 1), 0);
  EXPECT_FALSE(fork_.MaySeal(Pair(1, 1)));
  EXPECT_EQ(fork_.bytes(), 0u);
  Push(1, 3, {}, 0);
  Seal(Pair(1, 2));
  EXPECT_EQ(In(fork_.block(a_, 0)), 3u);
}

TEST_F(SnapshotForkTest, AHigherSnapshotEndsALowerOne) {
  Push(1, 1, Pair(1, 1), 1);
  Push(2, 1, Pair(1, 2), 1);
  EXPECT_EQ(fork_.number(), Pair(1, 2));
  EXPECT_FALSE(fork_.MaySeal(Pair(1, 1)));
  Push(3, 1, Pair(1, 1), 1);  // Before the cut of the second.
  Seal(Pair(1, 2));
  EXPECT_EQ(In(fork_.block(a_, 1)), 2u);
  EXPECT_EQ(Recorded(1), 1u);
  EXPECT_EQ(Recorded(2), 0u);
  EXPECT_EQ(Recorded(3), 1u);
}

TEST_F(SnapshotForkTest, OneThatWasHeardOfForksWithItsFirstStamp) {
  fork_.Hear(Pair(1, 4));
  Push(1, 1, Pair(1, 3), 1);
  EXPECT_EQ(fork_.bytes(), 0u);
  Push(1, 2, Pair(1, 4), 1);
  EXPECT_EQ(fork_.bytes(), kBlockBytes);
}

TEST_F(SnapshotForkTest, OneThatHasEndedForksNeverMore) {
  Push(1, 1, Pair(1, 1), 1);
  fork_.End(Pair(1, 1));
  EXPECT_EQ(fork_.bytes(), 0u);
  EXPECT_FALSE(fork_.MaySeal(Pair(1, 1)));
  Push(1, 2, Pair(1, 1), 1);
  EXPECT_EQ(fork_.bytes(), 0u);
  fork_.End(Pair(1, 0));
  EXPECT_EQ(fork_.number(), Pair(1, 1));
}

TEST_F(SnapshotForkTest, Promise8_OnlyWhatWasWrittenExistsTwice) {
  Push(1, 1, Pair(1, 1), 1);
  EXPECT_EQ(fork_.bytes(), kBlockBytes) << "values and two slots";
  Seal(Pair(1, 1));
  EXPECT_EQ(fork_.bytes(), kBlockBytes);
  Push(1, 1, Pair(1, 1), &b_, 1);
  EXPECT_EQ(fork_.bytes(), 2 * kBlockBytes);
  fork_.Release();
  EXPECT_EQ(fork_.bytes(), 0u);
}

}  // namespace
}  // namespace paramd
