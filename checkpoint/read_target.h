#ifndef PARAMD_CHECKPOINT_READ_TARGET_H_
#define PARAMD_CHECKPOINT_READ_TARGET_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "checkpoint/read_buffers.h"
#include "tensor/buffer.h"

namespace paramd {

// Where the bytes that a checkpoint is asked for go, in the order in which they
// were asked for.
class ReadTarget {
 public:
  virtual ~ReadTarget() = default;

  // Memory for the next of them, at least one byte and at most `most`, which
  // whoever reads fills wholly before the next call. Empty: there is no more.
  // REQUIRES: most > 0.
  virtual absl::Span<std::byte> Next(uint64_t most) = 0;
};

// Memory of somebody else, in one piece.
class SpanTarget : public ReadTarget {
 public:
  explicit SpanTarget(absl::Span<std::byte> memory) : left_(memory) {}

  absl::Span<std::byte> Next(uint64_t most) override {
    const absl::Span<std::byte> taken = left_.subspan(0, most);
    left_.remove_prefix(taken.size());
    return taken;
  }

 private:
  absl::Span<std::byte> left_;
};

// Appends them to a chain, in pieces of at most 4 MiB of memory that is used
// again when the chain is gone.
//
// Not thread-safe. Both outlive it.
class ChainTarget : public ReadTarget {
 public:
  ChainTarget(ReadBuffers* buffers, BufferChain* chain)
      : buffers_(buffers), chain_(chain) {}

  absl::Span<std::byte> Next(uint64_t most) override;

 private:
  ReadBuffers* const buffers_;
  BufferChain* const chain_;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_READ_TARGET_H_
