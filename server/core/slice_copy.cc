#include "server/core/slice_copy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "proto/refusal.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// Slices of values alone come in so many pieces, of 1 MiB.
constexpr size_t kSlicePieces = 4;

void AddCountsOf(const Slice& slice, v1::ReplicateRequest::Piece* piece) {
  v1::SavedSlice* const saved = piece->mutable_saved();
  v1::AppliedRun* run = nullptr;
  bool any = false;
  for (int b = 0; b < slice.block_count(); ++b) {
    const Block& block = slice.block(b);
    if (run == nullptr || run->applied() != block.applied()) {
      run = saved->add_applied();
      run->set_applied(block.applied());
    }
    run->set_blocks(run->blocks() + 1);
    const GradientRms& rms = block.gradient_rms();
    any = any || rms.gradients() > 0;
    piece->add_gradient_rms(rms.value());
    piece->add_gradients(rms.gradients());
  }
  if (any) return;
  piece->clear_gradient_rms();
  piece->clear_gradients();
}

// Values of all blocks, and then each slot.
BufferChain SliceBytes(const Slice& slice) {
  BufferChain bytes;
  for (int b = 0; b < slice.block_count(); ++b) {
    bytes.push_back(slice.block(b).values());
  }
  for (size_t s = 0; s < slice.slots().size(); ++s) {
    for (int b = 0; b < slice.block_count(); ++b) {
      const Slice::SlotPlace place = slice.PlaceOfSlot(b, s);
      bytes.push_back(slice.block(b).slots().Part(place.begin * sizeof(float),
                                                  place.words * sizeof(float)));
    }
  }
  return bytes;
}

void ReadNumbers(ChainReader* reader, absl::Span<float> out) {
  CHECK(reader->Read(AsWritableBytes(out)),
        "the pieces have as many bytes as the slice");
}

}  // namespace

std::vector<SlicePiece> CutSlice(uint32_t index, const Slice& slice) {
  v1::ReplicateRequest::Piece first;
  first.set_slice(index);
  first.set_total(slice.BytesOf(slice.elements()));
  first.set_life(slice.block(0).life());
  first.mutable_saved()->set_variable(slice.variable().name());
  first.mutable_saved()->set_row_begin(slice.rows().begin);
  first.mutable_saved()->set_row_end(slice.rows().end);
  AddCountsOf(slice, &first);
  slice.applied().Save(first.mutable_saved());
  const BufferChain bytes = SliceBytes(slice);
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
  for (int b = 0; b < slice->block_count(); ++b) {
    CHECK(reader.Read(slice->block(b).mutable_value_bytes()),
          "the pieces have as many bytes as the slice");
  }
  for (size_t s = 0; s < slice->slots().size(); ++s) {
    for (int b = 0; b < slice->block_count(); ++b) {
      const Slice::SlotPlace place = slice->PlaceOfSlot(b, s);
      ReadNumbers(&reader, slice->block(b).mutable_slots().subspan(
                               place.begin, place.words));
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
