#include "coordinator/core/push_audit.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

// A checkpoint of one slice of three blocks.
class PushAuditTest : public ::testing::Test {
 protected:
  PushAuditTest() {
    v1::ShardFile* const file = manifest_.add_files();
    file->set_name("ps-0");
    slice_ = file->add_slices();
    slice_->set_values_tensor("w[0:4]");
  }

  void AddRun(uint64_t applied, uint32_t blocks) {
    v1::AppliedRun* const run = slice_->add_applied();
    run->set_applied(applied);
    run->set_blocks(blocks);
  }
  v1::PushRecord* AddRecord(uint32_t worker, uint64_t sequence,
                            uint64_t earlier) {
    v1::PushRecord* const record = slice_->add_records();
    record->set_worker(worker);
    record->set_sequence(sequence);
    record->set_earlier(earlier);
    return record;
  }
  void Expect(uint64_t doubled, uint64_t missing, bool sync = false) {
    const PushAudit audit(manifest_, sync);
    EXPECT_EQ(audit.doubled(), doubled);
    EXPECT_EQ(audit.missing(), missing);
    EXPECT_EQ(audit.sentence().empty(), doubled + missing == 0)
        << audit.sentence();
  }

  v1::Manifest manifest_;
  v1::SavedSlice* slice_;
};

TEST_F(PushAuditTest, EveryPushOfARecordIsAppliedOnce) {
  AddRun(13, 3);
  AddRecord(0, 5, 4);
  AddRecord(1, 3, 7);
  Expect(0, 0);
}

// Pushes 2 to 5 were given up, or lost and reported: the slice never had them.
TEST_F(PushAuditTest, AGapOfASessionIsNoLoss) {
  AddRun(2, 3);
  AddRecord(0, 6, 1);
  Expect(0, 0);
}

TEST_F(PushAuditTest, ARecordThatOnlyFencesIsNoPush) {
  AddRun(4, 3);
  AddRecord(0, 0, 4);
  Expect(0, 0);
}

TEST_F(PushAuditTest, Promise1_AnApplicationTooManyIsDoubled) {
  AddRun(4, 1);
  AddRun(6, 1);
  AddRun(5, 1);
  AddRecord(0, 4, 3);
  Expect(2, 0);
  EXPECT_EQ(PushAudit(manifest_, false).sentence(),
            "block 1 of 'w[0:4]' in 'ps-0' has taken 6 pushes; by its records "
            "it has 4");
}

TEST_F(PushAuditTest, Promise1_AnApplicationTooFewIsMissing) {
  AddRun(4, 2);
  AddRun(1, 1);
  AddRecord(0, 4, 3);
  Expect(0, 3);
}

TEST_F(PushAuditTest, BlocksThatAnUnfinishedPushHasNotReachedHaveOneLess) {
  AddRun(4, 1);
  AddRun(3, 1);
  AddRun(4, 1);
  AddRecord(0, 4, 3)->add_missing_blocks(1);
  Expect(0, 0);
}

TEST_F(PushAuditTest, BlocksThatAPartialPushNeverReachedHaveOneLess) {
  AddRun(2, 1);
  AddRun(3, 1);
  AddRun(4, 1);
  AddRecord(0, 4, 3);
  v1::PushRecord* partial = slice_->add_partial();
  partial->add_missing_blocks(0);
  partial->add_missing_blocks(1);
  slice_->add_partial()->add_missing_blocks(0);
  Expect(0, 0);
}

TEST_F(PushAuditTest, ASliceThatMayHaveHadMorePartialPushesIsPassedOver) {
  AddRun(9, 3);
  AddRecord(0, 4, 3);
  for (int i = 0; i < PushAudit::kMostPartial; ++i) slice_->add_partial();
  Expect(0, 0);
}

TEST_F(PushAuditTest, InSyncModeEveryBlockHasEveryStep) {
  manifest_.set_global_step(7);
  AddRun(7, 3);
  AddRecord(0, 7, 6);
  AddRecord(1, 7, 6);
  Expect(0, 0, /*sync=*/true);
  manifest_.set_global_step(6);
  Expect(1, 0, /*sync=*/true);
  manifest_.set_global_step(9);
  Expect(0, 2, /*sync=*/true);
}

// Blocks that count 100 steps and pushes together.
TEST_F(PushAuditTest, BesideAnEarlierCheckpointWhatCameSinceCounts) {
  AddRun(100, 2);
  AddRun(99, 1);
  AddRecord(0, 40, 39)->add_missing_blocks(2);
  const v1::Manifest base = manifest_;
  slice_->mutable_applied(0)->set_applied(103);
  slice_->mutable_applied(1)->set_applied(103);
  slice_->clear_records();
  AddRecord(0, 43, 42);
  EXPECT_EQ(PushAudit(manifest_, false, &base).sentence(), "");
  slice_->mutable_applied(0)->set_applied(105);
  slice_->mutable_applied(1)->set_applied(102);
  const PushAudit wrong(manifest_, false, &base);
  EXPECT_EQ(wrong.doubled(), 2u);
  EXPECT_EQ(wrong.missing(), 1u);
  EXPECT_EQ(wrong.sentence(),
            "block 0 of 'w[0:4]' in 'ps-0' has taken 5 pushes; by its records "
            "it has 3");
}

TEST_F(PushAuditTest, WhatTheEarlierCheckpointDoesNotHaveIsPassedOver) {
  AddRun(9, 3);
  AddRecord(0, 4, 3);
  v1::Manifest base = manifest_;
  EXPECT_TRUE(PushAudit::HaveSameSlices(base, manifest_));
  base.mutable_files(0)->mutable_slices(0)->set_row_end(2);
  EXPECT_FALSE(PushAudit::HaveSameSlices(base, manifest_));
  EXPECT_EQ(PushAudit(manifest_, false, &base).sentence(), "");
}

TEST_F(PushAuditTest, AnEmptyCheckpointHasNothingWrong) { Expect(0, 0); }

}  // namespace
}  // namespace paramd
