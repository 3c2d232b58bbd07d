#ifndef PARAMD_WORKER_STAGES_STAGE_CONVERSATION_H_
#define PARAMD_WORKER_STAGES_STAGE_CONVERSATION_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/stage.pb.h"
#include "tensor/message.h"
#include "worker/stages/stage_content.h"
#include "worker/stages/stage_exchange.h"

namespace paramd {

// The operations of one device, which is a process, in their order.
//
// Not thread-safe: of the device's thread.
class StageConversation {
 public:
  // Both outlive it.
  StageConversation(LaneState* lane, PeerId task) : lane_(*lane), task_(task) {}

  // The next operation of the lane's mini-batch. See StageExchange.
  StageExchange Begin(v1::StageOperation operation, const StageContent& content,
                      const StageExchange::Result& result);
  // What came of it.
  void Ended(const absl::Status& status) {
    if (status.ok() || lane_.has_failed.exchange(true)) return;
    lane_.failed = task_.index;
  }
  // Has it done, and waits. Its result is written to `to`, one for each of the
  // `expected` arrays. The errors of calls, and of StageExchange::Take.
  absl::Status Run(v1::StageOperation operation, const StageContent& content,
                   const StageArrays& expected,
                   absl::Span<const absl::Span<std::byte>> to);

 private:
  LaneState& lane_;
  const PeerId task_;
  uint64_t mini_batch_ = 0;
  uint64_t operation_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_CONVERSATION_H_
