#include "server/core/applied_pushes.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using Admission = AppliedPushes::Admission;

PushId Push(uint32_t worker, uint64_t generation, uint64_t sequence) {
  PushId push;
  push.worker = worker;
  push.sequence = sequence;
  push.generation.set_term(1);
  push.generation.set_counter(generation);
  return push;
}

void Apply(const PushId& push, int block, AppliedPushes* applied) {
  ASSERT_EQ(*applied->Admit(push, block), Admission::kApply);
  applied->MarkApplied(push, block);
}

std::string Saved(const AppliedPushes& applied) {
  v1::SavedSlice saved;
  applied.Save(&saved);
  const auto text = [](const v1::PushRecord& record) {
    std::string missing;
    for (const uint32_t block : record.missing_blocks()) {
      absl::StrAppend(&missing, "-", block);
    }
    return absl::StrCat(record.worker(), ":", record.generation().counter(),
                        ".", record.sequence(), missing, " ");
  };
  std::string all;
  for (const v1::PushRecord& record : saved.records()) all += text(record);
  all += "| ";
  for (const v1::PushRecord& record : saved.partial()) all += text(record);
  return all;
}

TEST(AppliedPushesTest, Promise1_AResentBlockIsAcknowledgedAndNotAppliedAgain) {
  AppliedPushes applied(/*block_count=*/4);
  const PushId push = Push(3, 1, 17);
  Apply(push, 2, &applied);
  EXPECT_EQ(*applied.Admit(push, 2), Admission::kAlreadyApplied);
  EXPECT_EQ(*applied.Admit(push, 3), Admission::kApply);
}

TEST(AppliedPushesTest, Promise1_AllBlocksOfAFinishedPushAreKnown) {
  AppliedPushes applied(3);
  const PushId push = Push(3, 1, 17);
  for (int block = 0; block < 3; ++block) Apply(push, block, &applied);
  for (int block = 0; block < 3; ++block) {
    EXPECT_EQ(*applied.Admit(push, block), Admission::kAlreadyApplied);
  }
  EXPECT_EQ(Saved(applied), "3:1.17 | ");
}

TEST(AppliedPushesTest, Promise1_AnEarlierPushIsSuperseded) {
  AppliedPushes applied(2);
  Apply(Push(3, 1, 17), 0, &applied);
  EXPECT_EQ(*applied.Admit(Push(3, 1, 16), 1), Admission::kSuperseded);
}

TEST(AppliedPushesTest, GapsInTheSequenceAreAdmitted) {
  AppliedPushes applied(1);
  Apply(Push(3, 1, 1), 0, &applied);
  Apply(Push(3, 1, 9), 0, &applied);
  EXPECT_EQ(Saved(applied), "3:1.9 | ");
}

TEST(AppliedPushesTest, WorkersDoNotDisturbEachOther) {
  AppliedPushes applied(1);
  Apply(Push(1, 1, 5), 0, &applied);
  Apply(Push(0, 1, 1), 0, &applied);
  EXPECT_EQ(*applied.Admit(Push(1, 1, 5), 0), Admission::kAlreadyApplied);
  EXPECT_EQ(Saved(applied), "0:1.1 1:1.5 | ");
}

TEST(AppliedPushesTest, AnOlderGenerationIsFenced) {
  AppliedPushes applied(1);
  Apply(Push(3, 2, 1), 0, &applied);
  const absl::Status refused = applied.Admit(Push(3, 1, 99), 0).status();
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::FENCED);
  EXPECT_EQ(refused.message(),
            "push of worker-3 generation 1.1; generation 1.2 is known");
}

TEST(AppliedPushesTest, AHigherTermIsANewerGeneration) {
  AppliedPushes applied(1);
  Apply(Push(3, 9, 50), 0, &applied);
  PushId push = Push(3, 1, 1);
  push.generation.set_term(2);
  EXPECT_EQ(*applied.Admit(push, 0), Admission::kApply);
}

TEST(AppliedPushesTest, ABlockBeyondTheSliceIsRefused) {
  AppliedPushes applied(2);
  const absl::Status refused = applied.Admit(Push(3, 1, 1), 2).status();
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(), "push names block 2; the slice has 2");
}

TEST(AppliedPushesTest, AdmitNeverChangesState) {
  AppliedPushes applied(2);
  EXPECT_EQ(*applied.Admit(Push(3, 1, 1), 0), Admission::kApply);
  EXPECT_EQ(Saved(applied), "| ");
}

TEST(AppliedPushesTest, Promise1_ALaterPushNotesWhatIsMissingOfTheOneBefore) {
  AppliedPushes applied(3);
  Apply(Push(3, 1, 1), 1, &applied);
  Apply(Push(3, 1, 2), 0, &applied);
  EXPECT_EQ(Saved(applied), "3:1.2-1-2 | 3:1.1-0-2 ");
}

TEST(AppliedPushesTest, Promise1_AFenceNotesWhatIsMissingAndRefusesTheRest) {
  AppliedPushes applied(2);
  const PushId push = Push(3, 1, 8);
  Apply(push, 1, &applied);
  applied.Fence(3, Push(3, 2, 0).generation);
  EXPECT_EQ(Saved(applied), "3:2.0 | 3:1.8-0 ");
  EXPECT_EQ(RefusalOf(applied.Admit(push, 0).status()).reason(),
            v1::Refusal::FENCED);
  EXPECT_EQ(*applied.Admit(Push(3, 2, 1), 0), Admission::kApply);
}

TEST(AppliedPushesTest, AFenceThatIsKnownChangesNothing) {
  AppliedPushes applied(2);
  Apply(Push(3, 2, 8), 1, &applied);
  applied.Fence(3, Push(3, 2, 0).generation);
  applied.Fence(3, Push(3, 1, 0).generation);
  EXPECT_EQ(Saved(applied), "3:2.8-0 | ");
}

TEST(AppliedPushesTest, Promise8_PartialPushesAreBoundedAndDroppedOnesCounted) {
  AppliedPushes applied(2);
  const uint64_t pushes = AppliedPushes::kMostPartial + 11;
  for (uint64_t n = 1; n <= pushes; ++n) Apply(Push(3, 1, n), 0, &applied);
  v1::SavedSlice saved;
  applied.Save(&saved);
  EXPECT_EQ(saved.partial_size(),
            static_cast<int>(AppliedPushes::kMostPartial));
  EXPECT_EQ(applied.partial_dropped(), 10u);
  EXPECT_EQ(saved.partial(0).sequence(), 11u);
}

TEST(AppliedPushesTest, Promise3_WhatIsSavedIsRestored) {
  AppliedPushes applied(3);
  Apply(Push(3, 1, 7), 1, &applied);
  Apply(Push(4, 1, 2), 0, &applied);
  Apply(Push(4, 1, 2), 1, &applied);
  Apply(Push(4, 1, 2), 2, &applied);
  v1::SavedSlice saved;
  applied.Save(&saved);
  AppliedPushes restored(3);
  for (const auto& record : saved.records()) restored.Restore(record, true);
  EXPECT_EQ(Saved(restored), Saved(applied));
  EXPECT_EQ(*restored.Admit(Push(3, 1, 7), 1), Admission::kAlreadyApplied);
  EXPECT_EQ(*restored.Admit(Push(3, 1, 7), 2), Admission::kApply);
}

// What the records of all workers say that the slice has: of each the pushes
// before the newest one, and that.
std::string Earlier(const AppliedPushes& applied) {
  v1::SavedSlice saved;
  applied.Save(&saved);
  std::string all;
  for (const v1::PushRecord& record : saved.records()) {
    absl::StrAppend(&all, record.worker(), ":", record.earlier(), "+",
                    record.sequence() > 0 ? 1 : 0, " ");
  }
  return all;
}

TEST(AppliedPushesTest, PushesBeforeTheNewestOneAreCountedOverGenerations) {
  AppliedPushes applied(2);
  Apply(Push(3, 1, 1), 0, &applied);
  Apply(Push(3, 1, 1), 1, &applied);
  EXPECT_EQ(Earlier(applied), "3:0+1 ");
  // Of those in between none came here.
  Apply(Push(3, 1, 9), 0, &applied);
  EXPECT_EQ(Earlier(applied), "3:1+1 ");
  applied.Fence(3, Push(3, 2, 0).generation);
  EXPECT_EQ(Earlier(applied), "3:2+0 ");
  applied.Fence(3, Push(3, 3, 0).generation);
  Apply(Push(3, 3, 4), 1, &applied);
  Apply(Push(5, 3, 4), 1, &applied);
  EXPECT_EQ(Earlier(applied), "3:2+1 5:0+1 ");
}

TEST(AppliedPushesTest, Promise3_CountsAndPartialPushesAreRestored) {
  AppliedPushes applied(2);
  Apply(Push(3, 1, 1), 0, &applied);
  Apply(Push(3, 1, 2), 0, &applied);
  v1::SavedSlice saved;
  applied.Save(&saved);
  AppliedPushes restored(2);
  restored.Restore(saved.records(0), true);
  restored.RestorePartial(saved.partial(0));
  EXPECT_EQ(Saved(restored), "3:1.2-1 | 3:1.1-1 ");
  EXPECT_EQ(Earlier(restored), "3:1+1 ");
}

TEST(AppliedPushesTest, OfAnotherRunOnlyTheCountIsRestored) {
  v1::PushRecord record;
  record.set_worker(3);
  *record.mutable_generation() = Push(3, 9, 0).generation;
  record.set_sequence(5);
  record.set_earlier(2);
  record.add_missing_blocks(1);
  AppliedPushes applied(2);
  applied.RestoreCount(record);
  EXPECT_EQ(Saved(applied), "3:0.0 | 3:9.5-1 ");
  EXPECT_EQ(Earlier(applied), "3:3+0 ");
  EXPECT_EQ(*applied.Admit(Push(3, 1, 1), 0), Admission::kApply);
  // And so it is restored again.
  v1::SavedSlice saved;
  applied.Save(&saved);
  AppliedPushes again(2);
  again.Restore(saved.records(0), true);
  EXPECT_EQ(Earlier(again), "3:3+0 ");
}

TEST(AppliedPushesTest, OfSeveralRestoredRecordsTheNewestStays) {
  AppliedPushes applied(1);
  v1::PushRecord record;
  record.set_worker(3);
  record.mutable_generation()->set_term(1);
  for (const uint64_t sequence : {4, 6, 5}) {
    record.set_sequence(sequence);
    applied.Restore(record, true);
  }
  v1::SavedSlice saved;
  applied.Save(&saved);
  EXPECT_EQ(saved.records(0).sequence(), 6u);
}

TEST(AppliedPushesTest, AnOpenPushOfOtherBlocksCountsAsInWhenRestored) {
  v1::PushRecord record;
  record.set_worker(3);
  *record.mutable_generation() = Push(3, 1, 0).generation;
  record.set_sequence(5);
  record.add_missing_blocks(1);
  AppliedPushes applied(2);
  applied.Restore(record, /*same_blocks=*/false);
  EXPECT_EQ(*applied.Admit(Push(3, 1, 5), 1), Admission::kAlreadyApplied);
}

}  // namespace
}  // namespace paramd
