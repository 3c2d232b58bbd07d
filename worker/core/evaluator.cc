#include "worker/core/evaluator.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void Evaluator::Start(Time now, Outbox* out) {
  since_ = now;
  Look(out);
}

void Evaluator::Receive(Message message, Time /*now*/, Outbox* out) {
  if (message.is_reply) return;
  out->Refuse(message.call, Refuse(v1::Refusal::INVALID, "method",
                                   "an evaluator serves no method"));
}

void Evaluator::Completed(IoResult result, Time now, Outbox* out) {
  looking_ = false;
  const auto* looked =
      DynamicCastToGenerated<v1::EvaluateNewestResult>(result.head.get());
  const bool found_nothing =
      absl::IsNotFound(result.status) || absl::IsUnavailable(result.status);
  if (found_nothing && !draining_) {
    FoundNothing(result.status, now, out);
  } else if (!result.status.ok() && !found_nothing) {
    out->Exit(result.status);
  } else if (draining_ || (looked != nullptr && looked->final())) {
    out->Exit(absl::OkStatus());
  } else {
    since_ = now;
    waiting_for_.clear();
    next_look_ = now + kPeriod;
  }
}

void Evaluator::FoundNothing(const absl::Status& why, Time now, Outbox* out) {
  waiting_for_ = std::string(why.message());
  if (absl::IsUnavailable(why)) since_ = now;
  if (now - since_ >= start_timeout_) {
    out->Exit(absl::UnavailableError(
        absl::StrCat("waited ", absl::FormatDuration(start_timeout_),
                     " (start_timeout_ms) for ", waiting_for_)));
    return;
  }
  next_look_ = std::min(now + kPeriod, since_ + start_timeout_);
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
