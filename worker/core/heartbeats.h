#ifndef PARAMD_WORKER_CORE_HEARTBEATS_H_
#define PARAMD_WORKER_CORE_HEARTBEATS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "tensor/core.h"
#include "worker/core/worker_turn.h"

namespace paramd {

// What the coordinator and a worker tell each other in one session: the worker
// its state, repeated as it changes, the coordinator its newest answer.
//
// Invariant: requests are numbered, and only the answer to the newest one
// counts; an answer from before a newer coordinator's first one changes
// nothing. A call that is sent, or comes back, long after it is due says that
// this process stood still (SIGSTOP, a machine that was paused): the silence
// until then was not the coordinator's.
//
// Not thread-safe: part of a worker's core.
class Heartbeats {
 public:
  // `term`: of the coordinator that gave the session.
  Heartbeats(uint64_t term, Time now)
      : retry_at_(now), last_heard_(now), term_(term) {}

  // The next one is due.
  bool is_due(Time now) const { return call_ == 0 && now >= retry_at_; }
  bool is_open() const { return call_ != 0; }
  Time next_tick() const { return call_ == 0 ? retry_at_ : Time::Never(); }

  // Tells the worker's state and figures, which do not count as news.
  void Send(const v1::HeartbeatRequest& state, const v1::WorkerStats& stats,
            absl::Duration every, WorkerTurn* turn);
  bool IsAnswer(const Message& message) const {
    return call_ != 0 && message.call == call_;
  }
  // Takes what came back. False if it is no answer of a present coordinator.
  bool Take(const Message& message, Time now);
  // The coordinator cannot be reached, or said what means nothing here.
  void Unanswered(const absl::Status& status) {
    why_silent_ = std::string(status.message());
  }

  // Without the figures, which are last_stats().
  const v1::HeartbeatRequest& last_request() const { return last_request_; }
  const v1::WorkerStats& last_stats() const { return last_stats_; }
  const v1::HeartbeatReply& last_reply() const { return last_reply_; }
  uint64_t term() const { return term_; }
  // When the coordinator last answered, or this process went on after it stood
  // still; and why it has not answered since (empty: it has).
  Time last_heard() const { return last_heard_; }
  const std::string& why_silent() const { return why_silent_; }

 private:
  CallId call_ = 0;  // 0: none under way.
  Time ends_at_;     // When that comes back at the latest.
  Time retry_at_;
  uint64_t number_ = 0;
  v1::HeartbeatRequest last_request_;
  v1::WorkerStats last_stats_;
  v1::HeartbeatReply last_reply_;
  Time last_heard_;
  std::string why_silent_;
  uint64_t term_ = 0;  // The newest of which a coordinator answered.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_HEARTBEATS_H_
