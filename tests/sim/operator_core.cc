#include "tests/sim/operator_core.h"

#include <algorithm>
#include <memory>

#include "proto/job_end.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(5);
constexpr absl::Duration kRetry = absl::Milliseconds(300);
// In a row, of one setting: then there is nobody left to ask.
constexpr int kMostFailures = 200;

}  // namespace

void OperatorCore::Start(Time now, Outbox* out) {
  started_ = now;
  PlanNext(out);
}

void OperatorCore::PlanNext(Outbox* out) {
  failures_ = 0;
  if (done_ == settings_.size()) {
    next_ = Time::Never();
    out->Exit(absl::OkStatus());
  } else {
    next_ = started_ + settings_[done_].first;
  }
}

void OperatorCore::Tick(Time now, Outbox* out) {
  if (now < next_) return;
  next_ = Time::Never();
  out->Send(PeerId::Coordinator(), ++call_, NextRequest(), {}, kDeadline);
}

Outbox::Head OperatorCore::NextRequest() {
  if (settings_[done_].second == kCheckpoint) {
    if (IsZero(number_) && step_) asked_at_ = step_();
    auto checkpoint = std::make_unique<v1::CheckpointRequest>();
    *checkpoint->mutable_snapshot() = number_;
    return checkpoint;
  }
  const bool now = settings_[done_].second == kStopNow;
  if (now || settings_[done_].second == kStop) {
    auto stop = std::make_unique<v1::StopJobRequest>();
    stop->set_now(now);
    stop->set_nonce(done_ + 1);
    return stop;
  }
  auto set = std::make_unique<v1::SetRequest>();
  set->set_key("staleness");
  set->set_value(settings_[done_].second);
  return set;
}

bool OperatorCore::Take(const v1::CheckpointReply& reply) {
  number_ = reply.snapshot();
  if (reply.path().empty()) return false;
  checkpoints_.push_back({reply, asked_at_});
  number_.Clear();
  return true;
}

void OperatorCore::Receive(Message message, Time now, Outbox* out) {
  if (!message.is_reply || message.call != call_) return;
  if (message.status.ok()) {
    const auto* checkpoint =
        dynamic_cast<const v1::CheckpointReply*>(message.head);
    const bool is_being_stopped =
        dynamic_cast<const v1::StopJobReply*>(message.head) != nullptr;
    if (is_being_stopped || (checkpoint != nullptr && !Take(*checkpoint))) {
      next_ = now + kRetry;
      return;
    }
    ++done_;
    PlanNext(out);
    return;
  }
  const v1::Refusal::Reason reason = RefusalOf(message.status).reason();
  // Storage fails now and then: another one.
  if (reason == v1::Refusal::NOT_READY) number_.Clear();
  if (reason == v1::Refusal::JOB_FINISHED) stopped_ = EndFor(message.status);
  if (reason == v1::Refusal::JOB_FINISHED || ++failures_ == kMostFailures) {
    out->Exit(absl::OkStatus());
  } else if (reason == v1::Refusal::INVALID) {
    out->Exit(message.status);
  } else {
    next_ = now + kRetry;
  }
}

}  // namespace paramd
