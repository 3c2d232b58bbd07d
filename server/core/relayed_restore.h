#ifndef PARAMD_SERVER_CORE_RELAYED_RESTORE_H_
#define PARAMD_SERVER_CORE_RELAYED_RESTORE_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "server/core/shard_content.h"
#include "tensor/buffer.h"
#include "tensor/message.h"

namespace paramd {

// The slices that a coordinator hands to a server which does not see the
// checkpoint, or the file that initial values come out of, on their way in: one
// after the other, each in pieces.
//
// Bound: one slice.
//
// Not thread-safe: lives inside a Shard. The content outlives it.
class RelayedRestore {
 public:
  enum class Content { kCheckpoint, kInitialValues };
  explicit RelayedRestore(const ShardContent* content,
                          Content brought = Content::kCheckpoint)
      : content_(content), brought_(brought) {}

  // What is to come next; the number of slices if nothing is.
  v1::FillReply next() const;

  // Takes a piece; true if that makes a slice whole, which Take then hands out
  // before the next piece. What is not next changes nothing and is no mistake:
  // it was sent again. Refused as INVALID, with nothing changed, if it can't be
  // of that slice.
  absl::StatusOr<bool> Add(const v1::FillRequest& request,
                           const BufferChain& payload);

  // The slice as if it had been read here. A server without slices gets one
  // answer without any. REQUIRES: Add said true.
  IoResult Take();

 private:
  // Of the slice that comes next: Slice::initial_bytes, or its read_bytes.
  uint64_t total() const;

  const ShardContent* const content_;
  const Content brought_;
  uint32_t slice_ = 0;
  bool took_nothing_ = false;  // There are no slices, and that was said.
  v1::ReadSlicesResult read_;
  BufferChain bytes_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_RELAYED_RESTORE_H_
