#include "server/core/slice_copy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "proto/refusal.h"
#include "server/core/slice_view.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// Slices of values alone come in so many pieces, of 1 MiB.
constexpr size_t kSlicePieces = 4;

// Nothing, if none is kept.
void AddGradientRms(const Slice& slice, v1::ReplicateRequest::Piece* piece) {
  bool any = false;
  for (int b = 0; b < slice.block_count(); ++b) {
    const GradientRms& rms = slice.block(b).gradient_rms();
    any = any || rms.gradients() > 0;
    piece->add_gradient_rms(rms.value());
    piece->add_gradients(rms.gradients());
  }
  if (any) return;
  piece->clear_gradient_rms();
  piece->clear_gradients();
}

}  // namespace

std::vector<SlicePiece> CutSlice(uint32_t index, const Slice& slice) {
  v1::ReplicateRequest::Piece first;
  first.set_slice(index);
  first.set_total(slice.BytesOf(slice.elements()));
  first.set_life(slice.block(0).life());
  const SliceView view = {slice};
  view.Save(first.mutable_saved());
  AddGradientRms(slice, &first);
  BufferChain bytes;
  for (size_t part = 0; part < slice.part_count(); ++part) {
    view.AddPart(part, 0, slice.block_count(), &bytes);
  }
  ChainReader reader(bytes);
  const size_t most = kSliceBytes / kSlicePieces;
  std::vector<SlicePiece> pieces;
  for (uint64_t offset = 0; offset < first.total();) {
    SlicePiece& piece = pieces.emplace_back();
    if (offset == 0) piece.head = first;
    piece.head.set_slice(index);
    piece.head.set_total(first.total());
    piece.head.set_offset(offset);
    const size_t length = std::min(most, reader.remaining());
    piece.payload = reader.Take(length);
    offset += length;
  }
  return pieces;
}

absl::StatusOr<bool> SliceCopy::Add(const v1::ReplicateRequest::Piece& piece,
                                    const BufferChain& payload, Slice* slice) {
  const uint64_t total = slice->BytesOf(slice->elements());
  const uint64_t had = ChainSize(bytes_);
  const uint64_t bytes = ChainSize(payload);
  const v1::SavedSlice& saved = piece.saved();
  const bool is_it =
      had > 0 || (saved.variable() == slice->variable().name() &&
                  saved.row_begin() == slice->rows().begin &&
                  saved.row_end() == slice->rows().end && piece.life() != 0);
  if (piece.slice() != slice_ || piece.offset() != had ||
      piece.total() != total || bytes == 0 || bytes > total - had || !is_it) {
    return Invalid(absl::StrCat("slice ", piece.slice()),
                   absl::StrCat(bytes, " bytes from ", piece.offset(), " of ",
                                piece.total(), " of slice ", piece.slice(),
                                "; wanted are those from ", had, " of ", total,
                                " of slice ", slice_));
  }
  if (had == 0) first_ = piece;
  bytes_.insert(bytes_.end(), payload.begin(), payload.end());
  if (had + bytes < total) return false;
  Fill(slice);
  bytes_.clear();
  ++slice_;
  return true;
}

void SliceCopy::Fill(Slice* slice) {
  slice->CreateBlocks(first_.life());
  ChainReader reader(bytes_);
  for (size_t part = 0; part < slice->part_count(); ++part) {
    for (int b = 0; b < slice->block_count(); ++b) {
      CHECK(reader.Read(slice->MutablePart(b, part)),
            "the pieces have as many bytes as the slice");
    }
  }
  int b = 0;
  for (const v1::AppliedRun& run : first_.saved().applied()) {
    for (uint32_t i = 0; i < run.blocks() && b < slice->block_count(); ++i) {
      slice->block(b++).set_applied(run.applied());
    }
  }
  const int known = std::min({slice->block_count(), first_.gradient_rms_size(),
                              first_.gradients_size()});
  for (b = 0; b < known; ++b) {
    slice->block(b).gradient_rms().Set(first_.gradient_rms(b),
                                       first_.gradients(b));
  }
  for (const v1::PushRecord& record : first_.saved().records()) {
    slice->applied().Restore(record, /*same_blocks=*/true);
  }
  for (const v1::PushRecord& record : first_.saved().partial()) {
    slice->applied().RestorePartial(record);
  }
}

}  // namespace paramd
