#ifndef PARAMD_SERVER_CORE_SNAPSHOT_FORK_H_
#define PARAMD_SERVER_CORE_SNAPSHOT_FORK_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/types.pb.h"
#include "server/core/applied_pushes.h"
#include "server/core/block.h"
#include "server/core/slice.h"

namespace paramd {

// What a snapshot holds of a server's content while pushes after its cut go on
// changing the content itself:
//
//   heard of ──a push after the cut, or the seal──► forked ──seal──► sealed
//       ▲                                                                │
//       └───────────── a snapshot of a higher number is heard of ◄───────┘
//
// A block is forked when the first push after the cut is about to change it, a
// slice's record with the first block of the slice. From then on a push before
// the cut that comes late changes both copies. What is not forked yet at the
// seal is forked then. The two copies of a block share their memory until one
// of them is written.
//
// Invariant: every block forked contains just the pushes before the cut that
// the content has, and so says its slice's forked record.
//
// Bound: one snapshot; at most as much memory as the content has.
//
// Not thread-safe: lives inside a ShardContent, whose slices outlive it.
class SnapshotFork {
 public:
  // A snapshot of this number was opened. One below it that is not sealed never
  // will be: its copies are dropped. A lower or the same number: no change.
  void Hear(const v1::SnapshotNumber& number);
  // Those up to this number have ended: no push is after their cuts any more.
  void End(const v1::SnapshotNumber& number);
  // The newest heard of; zero: none was.
  const v1::SnapshotNumber& number() const { return number_; }

  // What else a push changes beside the content: nulls, or the copies of the
  // same block and record that are forked.
  struct Twin {
    Block* block = nullptr;
    AppliedPushes* record = nullptr;
  };
  // A push with this stamp is about to change the block: forks it if the push
  // is after the cut. REQUIRES: it was admitted, Hear(stamp).
  Twin BeforeChange(const v1::SnapshotNumber& stamp, const Slice& slice,
                    int block);
  // The same of a push that changes no block of the slice, only its record: the
  // record that is forked, or null.
  AppliedPushes* BeforeRecord(const v1::SnapshotNumber& stamp,
                              const Slice& slice);
  // So much memory the block takes at most, and its copy, when a push with this
  // stamp changes them now. Not counted is a copy that is due since a push
  // after the cut that changed no number.
  uint64_t BytesToChange(const v1::SnapshotNumber& stamp, const Slice& slice,
                         int block) const;

  // False if a higher number was heard of, or the snapshot has ended.
  bool MaySeal(const v1::SnapshotNumber& number) const;
  // Forks what is not forked yet. From here on no push changes the copies.
  // REQUIRES: MaySeal(number).
  void Seal(const v1::SnapshotNumber& number,
            const std::vector<Slice*>& slices);
  // The copies. REQUIRES: sealed and not released.
  const Block& block(const Slice& slice, int block) const;
  const AppliedPushes& record(const Slice& slice) const;
  // The snapshot is written, or is not going to be. Not sealed: no change.
  void Release();

  // Bytes of values and slots that exist twice because of it.
  uint64_t bytes() const;

 private:
  enum class State { kHeard, kForked, kSealed };
  struct FrozenSlice {
    explicit FrozenSlice(const Slice& slice)
        : record(slice.applied()), blocks(slice.block_count()) {}
    AppliedPushes record;
    std::vector<absl::optional<Block>> blocks;
  };

  FrozenSlice& Fork(const Slice& slice);

  v1::SnapshotNumber number_;
  State state_ = State::kHeard;
  absl::flat_hash_map<const Slice*, FrozenSlice> slices_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SNAPSHOT_FORK_H_
