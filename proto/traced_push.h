#ifndef PARAMD_PROTO_TRACED_PUSH_H_
#define PARAMD_PROTO_TRACED_PUSH_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "google/protobuf/message.h"

namespace paramd {

// What a trace says of a chunk of a push, at either end.
struct TracedPush {
  // Its request_id: the same in both processes, and when it is sent again.
  uint64_t flow = 0;
  // "worker", "term" and "session" (its generation), "push" (its sequence),
  // "step" in sync mode, "block_count"; then "slice" and "block" of each, in
  // turn, kMostBlocks of them at most. Names are constants.
  std::vector<std::pair<const char*, uint64_t>> numbers;

  static constexpr int kMostBlocks = 8;
};

// Unset if it is another message than a PushRequest.
absl::optional<TracedPush> TracedPushOf(
    const google::protobuf::Message& request);

}  // namespace paramd

#endif  // PARAMD_PROTO_TRACED_PUSH_H_
