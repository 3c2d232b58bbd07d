#ifndef PARAMD_CHECKPOINT_BLOCKS_TARGET_H_
#define PARAMD_CHECKPOINT_BLOCKS_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/read_target.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// What is asked for by a v1::ReadSlices goes straight to where a server will
// have it: into the memory of its blocks, so that nothing is copied once more.
//
// That memory is, for each wanted slice in order, for each of its blocks: its
// values, then, if it wants slots, one buffer of all of them, one after
// another.
//
// Not thread-safe. The memory outlives it.
class BlocksTarget : public ReadTarget {
 public:
  // INVALID_ARGUMENT if the memory has another size, or is not its holder's to
  // write to.
  static absl::StatusOr<BlocksTarget> Create(const v1::ReadSlices& request,
                                             BufferChain* memory);

  absl::Span<std::byte> Next(uint64_t most) override;
  // All of it was handed out.
  bool full() const { return next_ == places_.size(); }

 private:
  BlocksTarget() = default;

  std::vector<absl::Span<std::byte>> places_;  // In the order of reading.
  size_t next_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_BLOCKS_TARGET_H_
