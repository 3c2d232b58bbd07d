#include "worker/stages/stage_conversation.h"

#include <utility>

#include "worker/stages/stage_calls.h"

namespace paramd {

StageExchange StageConversation::Begin(v1::StageOperation operation,
                                       const StageContent& content,
                                       const StageExchange::Result& result) {
  if (mini_batch_ != lane_.mini_batch) {
    mini_batch_ = lane_.mini_batch;
    operation_ = 0;
  }
  return StageExchange(lane_, task_, ++operation_, std::move(operation),
                       content, result);
}

absl::Status StageConversation::Run(
    v1::StageOperation operation, const StageContent& content,
    const StageArrays& expected, absl::Span<const absl::Span<std::byte>> to) {
  absl::Status status = absl::CancelledError("the step was abandoned");
  if (!lane_.IsAbandoned()) {
    StageExchange exchange =
        Begin(std::move(operation), content, {&expected, to});
    status = lane_.calls->CallEach(
        [&] { return exchange.Next(); },
        [&](size_t call, const StageCalls::Answer& answer) {
          return exchange.Take(call, answer);
        });
  }
  Ended(status);
  return status;
}

}  // namespace paramd
