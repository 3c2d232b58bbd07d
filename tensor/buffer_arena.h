#ifndef PARAMD_TENSOR_BUFFER_ARENA_H_
#define PARAMD_TENSOR_BUFFER_ARENA_H_

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/span.h"

#include "base/mutex.h"
#include "tensor/buffer.h"

namespace paramd {

// Buffers out of one piece of memory, which was made before and is not asked
// for again: what makes or frees memory of a device may wait for all it does.
// Bytes that come back are given to the next who wants as many; sizes are those
// of blocks, and come again.
//
// Thread-safe. Lives until the last buffer is dropped.
class BufferArena : public std::enable_shared_from_this<BufferArena> {
 public:
  // Each buffer begins with a page, of so many bytes. `owner` keeps the memory,
  // which begins with one.
  static std::shared_ptr<BufferArena> Create(absl::Span<std::byte> memory,
                                             size_t page,
                                             std::shared_ptr<void> owner);
  ~BufferArena();
  BufferArena(const BufferArena&) = delete;
  BufferArena& operator=(const BufferArena&) = delete;

  // Empty if there is no room.
  Buffer Allocate(size_t size) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Has(absl::Span<const std::byte> bytes) const;

 private:
  // A part that is, or was, a buffer's.
  struct Piece {
    std::shared_ptr<BufferArena> arena;  // Null while it is free.
    absl::Span<std::byte> bytes;         // Whole pages.
    Piece* next = nullptr;
  };

  BufferArena(absl::Span<std::byte> memory, size_t page,
              std::shared_ptr<void> owner)
      : memory_(memory), page_(page), owner_(std::move(owner)) {}

  // Of the last holder of a buffer, on any thread: takes no lock.
  static void Release(void* piece);
  void TakeReturned() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Span<std::byte> memory_;
  const size_t page_;
  const std::shared_ptr<void> owner_;
  // A list of pieces. Who adds one releases what it read and wrote there; who
  // takes all acquires it.
  std::atomic<Piece*> returned_{nullptr};
  Mutex mutex_;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<size_t, std::vector<std::unique_ptr<Piece>>> free_
      ABSL_GUARDED_BY(mutex_);  // By size.
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_BUFFER_ARENA_H_
