#ifndef PARAMD_SERVER_CORE_APPLIED_PUSHES_H_
#define PARAMD_SERVER_CORE_APPLIED_PUSHES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// One gradient of one worker: pushes of a (worker, generation) count from 1.
struct PushId {
  uint32_t worker = 0;
  v1::SessionId generation;
  uint64_t sequence = 0;
};

// Which gradients of which worker one slice contains. It lies beside the values
// it protects, so a snapshot, a move or a backup of the slice carries it along.
// At most one push per worker is open; `blocks_in` is empty unless one is.
//
// Memory, which the server's budget leaves out (memory_budget.h): 160 bytes for
// each worker that has pushed here, and of a slice of several blocks at most
// kMostPartial records of some 150.
//
// Not thread-safe: lives inside a Slice and is called from its shard's thread
// only.
class AppliedPushes {
 public:
  enum class Admission { kApply, kAlreadyApplied, kSuperseded };

  explicit AppliedPushes(int block_count) : block_count_(block_count) {}

  // Decides about block `block` of push `push`. kApply: the caller applies it
  // now and calls MarkApplied. kAlreadyApplied: acknowledge, change nothing.
  // kSuperseded: a later push of this session is known; not to be applied.
  // Refused as FENCED if a newer generation of the worker is known, as INVALID
  // if `block` is beyond the slice. Never changes state.
  absl::StatusOr<Admission> Admit(const PushId& push, int block) const;

  // The block is in. If this opens a later push, what is missing of the one
  // before is noted as partial. REQUIRES: Admit(push, block) said kApply.
  void MarkApplied(const PushId& push, int block);

  // Refuses all generations of `worker` below this one from now on. What is
  // missing of an open push of such a generation is noted as partial.
  void Fence(uint32_t worker, const v1::SessionId& generation);

  // Adds what a checkpoint says of a worker, unless something newer is known.
  // With `same_blocks` the record is of just these blocks and an open push
  // stays open; else its missing blocks cannot be told from the others, so the
  // push counts as in: at most once before exactly once.
  void Restore(const v1::PushRecord& record, bool same_blocks);

  // Adds a partial push that a checkpoint names.
  void RestorePartial(const v1::PushRecord& record);
  // Of another run, whose sessions mean nothing here: that the slice has what
  // the record says counts, and nothing else of it.
  void RestoreCount(const v1::PushRecord& record);

  // Writes `records` by worker, and `partial` from the oldest on.
  void Save(v1::SavedSlice* saved) const;

  // Partial pushes that were forgotten because kMostPartial newer ones came.
  uint64_t partial_dropped() const { return partial_dropped_; }

  static constexpr size_t kMostPartial = 1024;

 private:
  struct Entry {
    v1::SessionId generation;
    uint64_t sequence = 0;
    int missing = 0;              // 0: the push is wholly in.
    std::vector<bool> blocks_in;  // Empty unless missing > 0.
    uint64_t earlier = 0;         // Pushes before it that have a block in.
  };

  static v1::PushRecord Record(uint32_t worker, const Entry& entry);
  // Replaces an entry by a later one that is wholly in.
  void Overwrite(uint32_t worker, Entry* entry, const v1::SessionId& generation,
                 uint64_t sequence);
  void NotePartial(v1::PushRecord record);

  const int block_count_;
  std::map<uint32_t, Entry> entries_;   // Bound: workers of configurations.
  std::deque<v1::PushRecord> partial_;  // Bound: kMostPartial.
  uint64_t partial_dropped_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_APPLIED_PUSHES_H_
