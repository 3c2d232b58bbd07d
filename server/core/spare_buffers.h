#ifndef PARAMD_SERVER_CORE_SPARE_BUFFERS_H_
#define PARAMD_SERVER_CORE_SPARE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

#include "base/time.h"
#include "server/core/memory_budget.h"
#include "tensor/buffer.h"
#include "tensor/disk_memory.h"
#include "tensor/unified_memory.h"

namespace paramd {

// Where blocks get their memory: buffers that blocks have replaced while a
// reply or a snapshot still read them are written to again once those are done.
// Such memory is mapped already, while a fresh megabyte costs a page fault for
// every 4 KiB. The buffer that was given back last is taken first, because it
// may still be in a cache, and after it those that were given back long ago.
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
  // room, in memory. Memory of a device, where there is one with room, is taken
  // first, and is not the budget's.
  explicit SpareBuffers(MemoryBudget* budget = nullptr,
                        DiskMemory* disk = nullptr,
                        UnifiedMemory* device = nullptr)
      : budget_(budget), disk_(disk), device_(device) {}

  // What a buffer of `size` bytes takes of the budget: where that nearly fills
  // half a huge page, or whole ones, as much as these have; of one that lies on
  // a disk in part, the rest.
  static size_t BudgetBytes(size_t size, const DiskRanges& on_disk = {});

  // `size` bytes that nobody else holds, of undefined content. Those of
  // `on_disk` may lie there, and are zero.
  Buffer Take(size_t size, const DiskRanges& on_disk = {});
  // A copy of such a buffer. What lies on a disk is not copied: before it is
  // written, in either, it is Separate.
  Buffer Copy(const Buffer& taken, const DiskRanges& on_disk);
  // What a buffer has on a disk is its own from now on. Where the disk has no
  // room for that, another one, in memory, takes its place.
  void Separate(const DiskRanges& on_disk, Buffer* taken);
  // A buffer of which others may still read. One that lies on a disk in part is
  // dropped: it may share that part.
  void Give(Buffer replaced, const DiskRanges& on_disk = {});
  // Drops them all.
  void Clear();

  // It is that late now: drops what was given before the last kKept and not
  // taken since.
  void Tick(Time now);
  Time next_tick() const { return drop_at_; }

  size_t count() const { return count_; }
  // What they take, as BudgetBytes says.
  uint64_t bytes() const { return bytes_; }

 private:
  struct Spare {
    Buffer buffer;
    Time given;
  };

  Buffer Hold(std::shared_ptr<DiskMemory::Mapping> mapping);
  Buffer TakeOnDisk(size_t size, const DiskRanges& on_disk);
  Buffer Allocate(size_t size);

  MemoryBudget* const budget_;
  DiskMemory* const disk_;
  UnifiedMemory* const device_;
  Time now_;
  Time drop_at_ = Time::Never();
  // By size, the oldest first.
  absl::flat_hash_map<size_t, std::deque<Spare>> spares_;
  size_t count_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SPARE_BUFFERS_H_
