#include "tests/sim/operator_core.h"

#include <algorithm>
#include <memory>

#include "proto/paramd/v1/cluster.pb.h"
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
  auto set = std::make_unique<v1::SetRequest>();
  set->set_key("staleness");
  set->set_value(settings_[done_].second);
  out->Send(PeerId::Coordinator(), ++call_, std::move(set), {}, kDeadline);
}

void OperatorCore::Receive(Message message, Time now, Outbox* out) {
  if (!message.is_reply || message.call != call_) return;
  if (message.status.ok()) {
    ++done_;
    PlanNext(out);
    return;
  }
  const v1::Refusal::Reason reason = RefusalOf(message.status).reason();
  if (reason == v1::Refusal::JOB_FINISHED || ++failures_ == kMostFailures) {
    out->Exit(absl::OkStatus());
  } else if (reason == v1::Refusal::INVALID) {
    out->Exit(message.status);
  } else {
    next_ = now + kRetry;
  }
}

}  // namespace paramd
