#include "coordinator/core/job_audit.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

// One block of one slice that has taken so much, of which `pushes` are pushes
// of worker 0.
v1::Manifest Checkpoint(uint64_t applied, uint64_t pushes, uint64_t step,
                        uint64_t rows = 4) {
  v1::Manifest manifest;
  manifest.set_global_step(step);
  v1::SavedSlice* const slice = manifest.add_files()->add_slices();
  slice->set_row_end(rows);
  v1::AppliedRun* const run = slice->add_applied();
  run->set_applied(applied);
  run->set_blocks(1);
  v1::PushRecord* const record = slice->add_records();
  record->set_sequence(1);
  record->set_earlier(pushes - 1);
  return manifest;
}

class JobAuditTest : public ::testing::Test {
 protected:
  void Commit(const v1::Manifest& manifest, bool sync = false) {
    audit_.Committing(manifest, sync);
    audit_.Committed();
  }
  JobAudit audit_;
};

TEST_F(JobAuditTest, TheNewestCheckpointCounts) {
  audit_.Found(Checkpoint(9, 7, 9), false);
  EXPECT_EQ(audit_.doubled(), 2u);
  audit_.Committing(Checkpoint(9, 10, 9), false);
  EXPECT_EQ(audit_.doubled(), 2u) << "it is not committed";
  audit_.Committed();
  EXPECT_EQ(audit_.doubled(), 0u);
  EXPECT_EQ(audit_.missing(), 1u);
  EXPECT_NE(audit_.sentence(), "");
}

TEST_F(JobAuditTest, BehindAChangeOfModeWhatCameSinceCounts) {
  Commit(Checkpoint(10, 10, 10));
  audit_.ModeChanged();
  Commit(Checkpoint(15, 10, 15), /*sync=*/true);
  EXPECT_EQ(audit_.doubled(), 0u);
  Commit(Checkpoint(18, 10, 17), /*sync=*/true);
  EXPECT_EQ(audit_.doubled(), 1u);
  // And back.
  audit_.ModeChanged();
  Commit(Checkpoint(20, 12, 20));
  Commit(Checkpoint(25, 17, 25));
  EXPECT_EQ(audit_.sentence(), "");
  EXPECT_EQ(audit_.doubled(), 1u) << "it stays";
  Commit(Checkpoint(25, 18, 26));
  EXPECT_EQ(audit_.missing(), 1u);
  audit_.ModeChanged();
  EXPECT_EQ(audit_.doubled(), 1u) << "of the first change, still";
}

TEST_F(JobAuditTest, WhatWasWrongBeforeStaysSaid) {
  Commit(Checkpoint(12, 10, 10));
  audit_.ModeChanged();
  Commit(Checkpoint(15, 10, 15), /*sync=*/true);
  audit_.ModeChanged();
  Commit(Checkpoint(18, 10, 18), /*sync=*/true);
  EXPECT_EQ(audit_.doubled(), 2u);
  EXPECT_EQ(audit_.sentence(), "") << "of the newest";
}

TEST_F(JobAuditTest, OneThatWasBegunBeforeTheChangeIsNoBase) {
  audit_.ModeChanged();
  audit_.Committing(Checkpoint(10, 10, 10), false);
  audit_.ModeChanged();
  audit_.Committed();
  Commit(Checkpoint(15, 10, 15), /*sync=*/true);
  EXPECT_EQ(audit_.doubled() + audit_.missing(), 0u);
  Commit(Checkpoint(17, 10, 16), /*sync=*/true);
  EXPECT_EQ(audit_.doubled(), 1u);
}

TEST_F(JobAuditTest, WithOtherSlicesTheNextOneIsTheBase) {
  audit_.ModeChanged();
  audit_.Found(Checkpoint(10, 4, 10), false);
  Commit(Checkpoint(13, 7, 13, /*rows=*/2));
  EXPECT_EQ(audit_.doubled() + audit_.missing(), 0u);
  Commit(Checkpoint(15, 8, 14, /*rows=*/2));
  EXPECT_EQ(audit_.doubled(), 1u);
  Commit(Checkpoint(16, 9, 15, /*rows=*/4));
  EXPECT_EQ(audit_.doubled(), 1u) << "it stays";
}

}  // namespace
}  // namespace paramd
