#include "server/core/push_decision.h"

namespace paramd {

void PushDecision::Answer(v1::PushedBlock::Result result,
                          v1::PushReply* reply) const {
  if (slice->sparse()) return reply->add_row_results(result);
  v1::PushedBlock* const pushed = reply->add_blocks();
  pushed->set_slice(place);
  pushed->set_block(static_cast<uint32_t>(block));
  pushed->set_result(result);
  // What is held has no version yet.
  if (result == v1::PushedBlock::HELD) return;
  *pushed->mutable_version() = slice->block(block).version();
}

size_t IdBytes(const std::vector<PushDecision>& decisions) {
  size_t bytes = 0;
  for (const PushDecision& decision : decisions) bytes += decision.id_bytes();
  return bytes;
}

v1::PushedBlock::Result ResultOf(AppliedPushes::Admission admission) {
  switch (admission) {
    case AppliedPushes::Admission::kApply:
      return v1::PushedBlock::APPLIED;
    case AppliedPushes::Admission::kAlreadyApplied:
      return v1::PushedBlock::ALREADY_APPLIED;
    case AppliedPushes::Admission::kSuperseded:
      return v1::PushedBlock::SUPERSEDED;
  }
  return v1::PushedBlock::RESULT_UNSPECIFIED;
}

}  // namespace paramd
