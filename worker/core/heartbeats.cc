#include "worker/core/heartbeats.h"

#include <memory>
#include <utility>

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// Short: see InputLeases.
constexpr absl::Duration kHeartbeatDeadline = absl::Seconds(1);
constexpr absl::Duration kHeartbeatRetry = absl::Milliseconds(200);
// What is so late says that this process stood still meanwhile.
constexpr absl::Duration kStoodStill = absl::Seconds(5);

}  // namespace

void Heartbeats::Send(const v1::HeartbeatRequest& state,
                      const v1::WorkerStats& stats, absl::Duration every,
                      WorkerTurn* turn) {
  if (call_ == 0 && turn->now > retry_at_ + kStoodStill) {
    last_heard_ = turn->now;
  }
  last_request_ = state;
  last_request_.set_number(++number_);
  auto request = std::make_unique<v1::HeartbeatRequest>(last_request_);
  last_stats_ = stats;
  *request->mutable_stats() = stats;
  call_ = turn->Call(std::move(request), kHeartbeatDeadline + every);
  ends_at_ = turn->now + kHeartbeatDeadline + every;
}

bool Heartbeats::Take(const Message& message, Time now) {
  call_ = 0;
  retry_at_ = now;
  if (now > ends_at_ + kStoodStill) last_heard_ = now;
  const auto* reply = DynamicCastToGenerated<v1::HeartbeatReply>(message.head);
  if (!message.status.ok() || reply == nullptr || reply->term() < term_) {
    retry_at_ = now + kHeartbeatRetry;
    return false;
  }
  last_heard_ = now;
  why_silent_.clear();
  term_ = reply->term();
  last_reply_ = *reply;
  return true;
}

}  // namespace paramd
