#include "tests/sim/scale_operator.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kScaleDeadline = absl::Seconds(5);
constexpr absl::Duration kScaleRetry = absl::Milliseconds(300);
// In a row: then there is nobody left to ask.
constexpr int kMostScaleFailures = 200;

}  // namespace

void ScaleOperator::Start(Time now, Outbox* out) {
  started_ = now;
  if (steps_.empty()) return out->Exit(absl::OkStatus());
  next_ = now + steps_[0].first;
}

void ScaleOperator::Tick(Time now, Outbox* out) {
  if (now < next_) return;
  if (IsNextDue(now)) {
    ++step_;
    was_heard_ = false;
    // Nothing keeps another number from taking the place of this one.
    if (has_asked_) asked_(steps_[step_].second);
  }
  if (!has_asked_ && !may_begin_()) {
    next_ = now + kScaleRetry;
    return;
  }
  next_ = Time::Never();
  if (!has_asked_) asked_(steps_[step_].second);
  has_asked_ = true;
  auto scale = std::make_unique<v1::ScaleRequest>();
  scale->set_servers(steps_[step_].second);
  scale->set_nonce(step_ + 1);
  call_ = ++calls_;
  out->Send(PeerId::Coordinator(), call_, std::move(scale), {}, kScaleDeadline);
}

void ScaleOperator::GoOn(Time now, Outbox* out) {
  has_done_(steps_[step_].second);
  if (++step_ == steps_.size()) return out->Exit(absl::OkStatus());
  has_asked_ = was_heard_ = false;
  next_ = std::max(now, started_ + steps_[step_].first);
}

void ScaleOperator::Receive(Message message, Time now, Outbox* out) {
  if (!message.is_reply || call_ == 0 || message.call != call_) return;
  call_ = 0;  // A second answer counts no more.
  next_ = now + kScaleRetry;
  if (message.status.ok()) {
    failures_ = 0;
    was_heard_ = true;
    const auto* reply = dynamic_cast<const v1::ScaleReply*>(message.head);
    if (reply != nullptr && reply->done()) GoOn(now, out);
    return;
  }
  const v1::Refusal::Reason reason = RefusalOf(message.status).reason();
  if (reason == v1::Refusal::JOB_FINISHED ||
      ++failures_ == kMostScaleFailures) {
    out->Exit(absl::OkStatus());
  } else if (reason == v1::Refusal::INVALID) {
    out->Exit(message.status);
  }
}

}  // namespace paramd
