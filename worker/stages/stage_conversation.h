#ifndef PARAMD_WORKER_STAGES_STAGE_CONVERSATION_H_
#define PARAMD_WORKER_STAGES_STAGE_CONVERSATION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/stage.pb.h"
#include "tensor/buffer.h"
#include "tensor/message.h"
#include "worker/stages/stage_calls.h"
#include "worker/stages/stage_content.h"

namespace paramd {

// A piece on its way, on a slow line; and an operation that is begun, of which
// the stage says after a while at the latest that it goes on.
inline constexpr absl::Duration kStageDeadline = absl::Seconds(30);

// What the conversations of one copy of the model share. The mini-batch changes
// while they are silent.
struct LaneState {
  // Of the worker and the lane.
  v1::StageHeader who;
  StageCalls* calls = nullptr;  // Outlives it.
  uint64_t mini_batch = 0;
  const std::atomic<bool>* abandoned = nullptr;  // May be null.
  // Of the tasks whose operations failed, one.
  std::atomic<uint32_t> failed{0};

  bool IsAbandoned() const {
    return abandoned != nullptr && abandoned->load(std::memory_order_relaxed);
  }
  v1::StageHeader Header() const;
};

// The operations of one device, which is a process, in their order.
//
// Not thread-safe: of the device's thread.
class StageConversation {
 public:
  // Both outlive it.
  StageConversation(LaneState* lane, PeerId task) : lane_(*lane), task_(task) {}

  // Has the operation done on `content`. Its result is written to `to`, one for
  // each of the `expected` arrays. The errors of calls; INTERNAL if the result
  // is another one.
  absl::Status Run(v1::StageOperation operation, const StageContent& content,
                   const StageArrays& expected,
                   absl::Span<const absl::Span<std::byte>> to);

 private:
  absl::Status RunAll(const v1::StageOperation& operation,
                      const StageContent& content, const StageArrays& expected,
                      absl::Span<const absl::Span<std::byte>> to);
  v1::StageHeader Header() const;
  absl::Status Put(const StageContent& content);
  // `content`: of the call itself.
  absl::StatusOr<StageCalls::Answer> Compute(
      const v1::StageOperation& operation, const BufferChain& content);
  absl::StatusOr<StageCalls::Answer> AskOnce(
      const v1::ComputeStageRequest& request, const BufferChain& content);
  absl::Status CheckResult(const v1::ComputeStageReply& reply,
                           const StageArrays& expected,
                           absl::Span<const absl::Span<std::byte>> to) const;
  absl::Status Fetch(uint64_t from, uint64_t end,
                     absl::Span<const absl::Span<std::byte>> to);

  LaneState& lane_;
  const PeerId task_;
  uint64_t mini_batch_ = 0;
  uint64_t operation_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_CONVERSATION_H_
