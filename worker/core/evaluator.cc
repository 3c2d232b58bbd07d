#include "worker/core/evaluator.h"

#include <memory>

#include "proto/refusal.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void Evaluator::Start(Time /*now*/, Outbox* out) { Look(out); }

void Evaluator::Receive(Message message, Time /*now*/, Outbox* out) {
  if (message.is_reply) return;
  out->Refuse(message.call, Refuse(v1::Refusal::INVALID, "method",
                                   "an evaluator serves no method"));
}

void Evaluator::Completed(IoResult result, Time now, Outbox* out) {
  looking_ = false;
  const auto* looked =
      DynamicCastToGenerated<v1::EvaluateNewestResult>(result.head.get());
  if (!result.status.ok()) {
    out->Exit(result.status);
  } else if (draining_ || (looked != nullptr && looked->final())) {
    out->Exit(absl::OkStatus());
  } else {
    next_look_ = now + kPeriod;
  }
}

void Evaluator::Tick(Time now, Outbox* out) {
  if (!looking_ && now >= next_look_) Look(out);
}

void Evaluator::Drain(Time /*now*/, Outbox* out) {
  draining_ = true;
  if (!looking_) out->Exit(absl::OkStatus());
}

void Evaluator::Look(Outbox* out) {
  looking_ = true;
  next_look_ = Time::Never();
  out->StartIo(next_io_++, std::make_unique<v1::EvaluateNewest>());
}

}  // namespace paramd
