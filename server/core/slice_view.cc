#include "server/core/slice_view.h"

namespace paramd {

void SliceView::Save(v1::SavedSlice* saved) const {
  saved->set_variable(slice.variable().name());
  saved->set_row_begin(slice.rows().begin);
  saved->set_row_end(slice.rows().end);
  v1::AppliedRun* run = nullptr;
  for (int b = 0; b < slice.block_count(); ++b) {
    const uint64_t applied = block(b).applied();
    if (run == nullptr || run->applied() != applied) {
      run = saved->add_applied();
      run->set_applied(applied);
    }
    run->set_blocks(run->blocks() + 1);
  }
  const AppliedPushes& record =
      fork == nullptr ? slice.applied() : fork->record(slice);
  record.Save(saved);
}

void SliceView::AddPart(size_t part, int begin, int end,
                        BufferChain* bytes) const {
  for (int b = begin; b < end; ++b) {
    if (part == 0) {
      bytes->push_back(block(b).values());
      continue;
    }
    const Slice::SlotPlace place = slice.PlaceOfSlot(b, part - 1);
    bytes->push_back(block(b).slots().Part(place.begin * sizeof(float),
                                           place.words * sizeof(float)));
  }
}

uint64_t AppliedTo(const v1::SavedSlice& saved, uint64_t block) {
  for (const v1::AppliedRun& run : saved.applied()) {
    if (block < run.blocks()) return run.applied();
    block -= run.blocks();
  }
  return 0;
}

}  // namespace paramd
