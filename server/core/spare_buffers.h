#ifndef PARAMD_SERVER_CORE_SPARE_BUFFERS_H_
#define PARAMD_SERVER_CORE_SPARE_BUFFERS_H_

#include <cstddef>
#include <deque>

#include "tensor/buffer.h"

namespace paramd {

// Buffers that blocks have replaced while a reply or a snapshot still read
// them, to be written to again once those are done: memory that is already
// mapped, where a fresh megabyte costs a page fault for every 4 KiB.
//
// Invariant: holds at most `most_buffers`; the oldest is given back to the
// system first. Not thread-safe: belongs to one shard.
class SpareBuffers {
 public:
  explicit SpareBuffers(size_t most_buffers = 32) : most_(most_buffers) {}

  // `size` bytes that nobody else holds, of undefined content.
  Buffer Take(size_t size);
  // A buffer made by Buffer::Allocate that others may still read.
  void Give(Buffer replaced);

  size_t count() const { return buffers_.size(); }

 private:
  const size_t most_;
  std::deque<Buffer> buffers_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SPARE_BUFFERS_H_
