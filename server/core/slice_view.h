#ifndef PARAMD_SERVER_CORE_SLICE_VIEW_H_
#define PARAMD_SERVER_CORE_SLICE_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "proto/paramd/v1/snapshot.pb.h"
#include "server/core/slice.h"
#include "server/core/snapshot_fork.h"
#include "tensor/buffer.h"

namespace paramd {

// A slice to be written down, for a file or for another place: as it is now, or
// as a snapshot holds it. Whatever its variable is, these are numbers in parts,
// counts of pushes and a record.
//
// A view of both: it does not outlive the call that made it.
struct SliceView {
  const Slice& slice;
  const SnapshotFork* fork = nullptr;  // Sealed. Null: as it is now.

  const Block& block(int block) const {
    return fork == nullptr ? slice.block(block) : fork->block(slice, block);
  }
  // Which rows these are, how many pushes each block contains, and which.
  void Save(v1::SavedSlice* saved) const;
  // Adds references to the bytes of a part of blocks from `begin` to `end`.
  void AddPart(size_t part, int begin, int end, BufferChain* bytes) const;
};

// Pushes that block `block` of a saved slice contains.
uint64_t AppliedTo(const v1::SavedSlice& saved, uint64_t block);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SLICE_VIEW_H_
