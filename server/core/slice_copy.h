#ifndef PARAMD_SERVER_CORE_SLICE_COPY_H_
#define PARAMD_SERVER_CORE_SLICE_COPY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/data.pb.h"
#include "server/core/slice.h"
#include "tensor/buffer.h"

namespace paramd {

// A part of a slice on its way to a backup.
struct SlicePiece {
  v1::ReplicateRequest::Piece head;
  BufferChain payload;
};

// The slice as it is now, the `index`-th that the server owns: values, slots,
// counts and record. The pieces refer to the blocks' bytes without copying one;
// pushes that come later are written elsewhere as long as they exist.
std::vector<SlicePiece> CutSlice(uint32_t index, const Slice& slice);

// The other end: puts a slice together again, piece by piece, so that what it
// does from then on it does with the same bits.
//
// Bound: one slice.
//
// Not thread-safe: belongs to a BackupIntake.
class SliceCopy {
 public:
  // The slice that the next piece is of.
  uint32_t next() const { return slice_; }
  // Adds a piece of `slice`, the next one; true if that makes it whole, and it
  // is filled. INVALID, with nothing changed, if it can't be of it.
  absl::StatusOr<bool> Add(const v1::ReplicateRequest::Piece& piece,
                           const BufferChain& payload, Slice* slice);

 private:
  void Fill(Slice* slice);

  uint32_t slice_ = 0;
  v1::ReplicateRequest::Piece first_;
  BufferChain bytes_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SLICE_COPY_H_
