#ifndef PARAMD_CHECKPOINT_READ_BUFFERS_H_
#define PARAMD_CHECKPOINT_READ_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "tensor/buffer.h"

namespace paramd {

// Memory into which a large file is read a piece at a time, used again as soon
// as nobody holds the piece any more: into fresh memory, whose pages the kernel
// clears one by one, reading is a third slower.
//
//   Buffer piece = buffers.Take(size);
//   ... fill piece.mutable_bytes() ...
//   buffers.Keep(piece);
//
// Bound: `most_bytes` of pieces that nobody else need hold.
//
// Not thread-safe; pieces may be dropped on any thread, also when this is gone.
class ReadBuffers {
 public:
  // Three windows of 16 MiB of a server that restores, and what is between
  // them.
  static constexpr uint64_t kRestoreBytes = uint64_t{64} << 20;

  explicit ReadBuffers(uint64_t most_bytes = kRestoreBytes)
      : most_bytes_(most_bytes) {}

  // The single holder of so many bytes, of which nothing is known.
  Buffer Take(size_t size);
  // To be used again when its other holders have dropped it. What is small is
  // left alone.
  void Keep(const Buffer& piece);

  uint64_t bytes() const { return bytes_; }

 private:
  const uint64_t most_bytes_;
  std::deque<Buffer> kept_;  // Oldest first.
  uint64_t bytes_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_READ_BUFFERS_H_
