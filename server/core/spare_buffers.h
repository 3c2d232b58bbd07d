#ifndef PARAMD_SERVER_CORE_SPARE_BUFFERS_H_
#define PARAMD_SERVER_CORE_SPARE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

#include "base/time.h"
#include "server/core/memory_budget.h"
#include "tensor/buffer.h"
#include "tensor/disk_memory.h"

namespace paramd {

// Where blocks get their memory, and buffers that they have replaced while a
// reply or a snapshot still read them, to be written to again once those are
// done: memory that is already mapped, where a fresh megabyte costs a page
// fault for every 4 KiB. What was given last is taken first, as it may still be in
// a cache, then what was given long ago.
//
// Bound: as many as were ever in use at once; what is not used for kKept goes
// back to the system, and all of it where the budget wants the room.
//
// Not thread-safe: belongs to one shard.
class SpareBuffers {
 public:
  static constexpr absl::Duration kKept = absl::Seconds(60);

  // With a budget, which outlives this, memory comes from its account. What may
  // lie on a disk does so on this one, or, without one or where it has no more
  // room, in memory.
  explicit SpareBuffers(MemoryBudget* budget = nullptr,
                        DiskMemory* disk = nullptr)
      : budget_(budget), disk_(disk) {}

  // `size` bytes that nobody else holds, of undefined content. Those of
  // `on_disk`, which outlives this, may lie there: they are zero if they never
  // were of another buffer.
  Buffer Take(size_t size, const DiskRanges* on_disk = nullptr);
  // A buffer of which others may still read, as it was taken.
  void Give(Buffer replaced, const DiskRanges* on_disk = nullptr);
  // Drops them all.
  void Clear();

  // It is that late now: drops what was given before the last kKept and not
  // taken since.
  void Tick(Time now);
  Time next_tick() const { return drop_at_; }

  size_t count() const { return count_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Spare {
    Buffer buffer;
    Time given;
  };

  // Buffers that may take each other's place.
  using Kind = std::pair<size_t, const DiskRanges*>;

  static Kind KindOf(size_t size, const DiskRanges* on_disk) {
    const bool in_memory = on_disk == nullptr || on_disk->empty();
    return {size, in_memory ? nullptr : on_disk};
  }
  Buffer Allocate(const Kind& kind);
  Buffer AllocateInMemory(size_t size);

  MemoryBudget* const budget_;
  DiskMemory* const disk_;
  Time now_;
  Time drop_at_ = Time::Never();
  // The oldest first.
  absl::flat_hash_map<Kind, std::deque<Spare>> spares_;
  size_t count_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SPARE_BUFFERS_H_
