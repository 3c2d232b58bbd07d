#ifndef PARAMD_WORKER_CORE_JOINING_H_
#define PARAMD_WORKER_CORE_JOINING_H_

#include <string>

#include "absl/status/status.h"

#include "proto/paramd/v1/control.pb.h"
#include "tensor/core.h"
#include "worker/core/worker_turn.h"

namespace paramd {

// Asks the coordinator for a session until it gives one, or says why it never
// will.
//
// Invariant: one request is under way at a time; one that is not answered is
// repeated after a while.
//
// Not thread-safe: part of a worker's core.
class Joining {
 public:
  explicit Joining(Time now) : since_(now), ask_at_(now) {}

  bool may_ask() const { return call_ == 0; }
  Time ask_at() const { return ask_at_; }
  Time since() const { return since_; }
  // REQUIRES: may_ask().
  void Ask(const v1::JoinRequest& request, WorkerTurn* turn);
  bool IsAnswer(const Message& message) const {
    return call_ != 0 && message.call == call_;
  }
  // The session that came; null if none did: the process ends where the refusal
  // says so, else asks again.
  const v1::JoinReply* Take(const Message& message, WorkerTurn* turn);

  // Why there is no session yet; empty: nobody has said.
  const std::string& why() const { return why_; }

 private:
  void OnRefused(const absl::Status& status, WorkerTurn* turn);

  const Time since_;
  CallId call_ = 0;  // 0: none under way.
  Time ask_at_;
  std::string why_;
  std::string last_wait_;  // Whom the coordinator last said it waits for.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_JOINING_H_
