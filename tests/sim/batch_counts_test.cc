#include "tests/sim/batch_counts.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "tests/sim/fine_cut.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// Batches 0, 4 and 8 of the first epoch are pushed, the last after the cut of
// snapshot 1.5, whose one file has everything.
class BatchCountsTest : public ::testing::Test {
 protected:
  BatchCountsTest() {
    for (uint64_t n = 1; n <= 3; ++n) Push(n, n * 4 - 4, /*step=*/0);
    Seal();
    v1::ShardFile* const file = manifest_.add_files();
    for (const IntegerJob::SlicePlace& slice : job_.slices()) {
      v1::SavedSlice* const saved = file->add_slices();
      saved->set_variable(job_.variables()[slice.variable].name());
      saved->set_row_begin(slice.row_begin);
    }
    manifest_.mutable_snapshot()->set_term(1);
    manifest_.mutable_snapshot()->set_counter(5);
    manifest_.mutable_input()->set_next_epoch(1);
    manifest_.mutable_input()->set_next_offset(8);
  }

  void Push(uint64_t number, uint64_t begin, uint64_t step) {
    v1::PushRequest push;
    push.mutable_header()->mutable_generation()->set_term(1);
    push.mutable_header()->set_sequence(number);
    if (begin == 8) *push.mutable_header()->mutable_snapshot() = Snapshot();
    push.set_epoch(1);
    push.set_input_begin(begin);
    push.set_step(step);
    counts_.Sent(push);
  }
  static v1::SnapshotNumber Snapshot() {
    v1::SnapshotNumber snapshot;
    snapshot.set_term(1);
    snapshot.set_counter(5);
    return snapshot;
  }
  void Seal() {
    v1::SealRequest seal;
    *seal.mutable_header()->mutable_snapshot() = Snapshot();
    counts_.Sent(seal);
  }
  // Of a checkpoint whose blocks have so many batches.
  absl::Status Check(float batches) {
    std::vector<std::vector<float>> values(job_.variables().size());
    for (size_t v = 0; v < values.size(); ++v) {
      for (uint64_t e = 0; e < job_.elements(v); ++e) {
        values[v].push_back(job_.ValueOf(v, e, batches));
      }
    }
    return counts_.Check(manifest_, values);
  }

  const FineCut cut_{{.block_elements = 16, .slice_bytes = 128}};
  const IntegerJob job_{3, {.counted = true}};
  BatchCounts counts_{job_};
  v1::Manifest manifest_;
};

TEST_F(BatchCountsTest, WhatIsUsedIsInOnce) {
  EXPECT_TRUE(Check(2).ok());
  EXPECT_THAT(
      Check(1).message(),
      HasSubstr("block 0 has 1 batches; 2 are used, of which 0 are lost "
                "as told, and at most 2 can be in"));
  EXPECT_FALSE(Check(3).ok()) << "the third is behind the cut";
}

TEST_F(BatchCountsTest, WhatIsListedAsLostMayBeMissing) {
  v1::LostPushes* const lost = manifest_.mutable_files(0)->add_lost();
  lost->mutable_generation()->set_term(1);
  lost->set_from(2);
  lost->set_to(2);
  EXPECT_TRUE(Check(1).ok());
  EXPECT_TRUE(Check(2).ok());
  EXPECT_FALSE(Check(0).ok());
  EXPECT_EQ(BatchCounts::LostIn(manifest_), 1u);
  *manifest_.add_files()->add_lost() = *lost;
  EXPECT_EQ(BatchCounts::LostIn(manifest_), 1u) << "lost by two servers";
}

TEST_F(BatchCountsTest, APushOfAnEndedSessionMayBeInBesides) {
  manifest_.mutable_input()->set_next_offset(4);
  EXPECT_TRUE(Check(1).ok());
  EXPECT_TRUE(Check(2).ok());
  EXPECT_FALSE(Check(3).ok());
}

TEST(BatchCountsOfStepsTest, AStepThatIsComputedAgainIsInOnce) {
  const IntegerJob job(3, {.counted = true});
  BatchCounts counts(job);
  v1::PushRequest push;
  push.set_epoch(1);
  push.set_step(1);
  for (uint64_t n = 1; n <= 2; ++n) {
    push.mutable_header()->set_sequence(n);
    counts.Sent(push);
  }
  counts.Sent(v1::SealRequest());
  v1::Manifest manifest;
  manifest.mutable_input()->set_next_epoch(1);
  manifest.mutable_input()->set_next_offset(4);
  v1::SavedSlice* const saved = manifest.add_files()->add_slices();
  saved->set_variable("scalar");
  EXPECT_TRUE(counts.Check(manifest, {{job.ValueOf(0, 0, 1)}}).ok());
  EXPECT_FALSE(counts.Check(manifest, {{job.ValueOf(0, 0, 2)}}).ok());
}

}  // namespace
}  // namespace paramd
