#ifndef PARAMD_WORKER_CORE_SESSION_STATE_H_
#define PARAMD_WORKER_CORE_SESSION_STATE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/core/session.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "tensor/core.h"
#include "worker/core/clock_teller.h"
#include "worker/core/computation.h"
#include "worker/core/heartbeats.h"
#include "worker/core/input_leases.h"
#include "worker/core/push_cut.h"
#include "worker/strategy/plan.h"
#include "worker/strategy/steps.h"

namespace paramd {

// All that a worker knows of one session, from the answer to its join until it
// joins again: its parts, and what only several of them together say. It is
// replaced whole, so nothing of one session is left in the next.
//
// Not thread-safe: part of a worker's core.
class SessionState {
 public:
  struct Options {
    Session::Options session;
    Plan::Options plan;
    uint64_t incarnation = 0;
    uint64_t test_set = 0;
    uint64_t layers_from_bytes = 0;
    StepObserver* observer = nullptr;
    // Of the weights that are trained on.
    const WeightMemory* weight_memory = nullptr;  // Or null.
  };

  // kInvalidArgument if the layout is broken. `computation` outlives it.
  static absl::StatusOr<std::unique_ptr<SessionState>> Create(
      const Options& options, const v1::JoinReply& reply,
      Computation* computation, Time now);

  // A newer configuration, or what has changed since the present one: if not
  // of that, it is told whole later. kInvalidArgument if it has another layout.
  absl::Status Configure(const v1::Configuration& told);
  // The newest one that was told, whole.
  const v1::Configuration& configuration() const { return configuration_; }

  const v1::SessionId& generation() const { return generation_; }
  // Its start clock and its pushes: what the mode BOUNDED compares.
  uint64_t clock() const { return start_clock_ + steps.pushes_ended(); }
  v1::Header MakeHeader() const;
  // People wait for the first push where a process was lost.
  void NoteFirstPush(Outbox* out);

  // ---- cuts
  // The coordinator's answer may ask for a cut: it is made before the next
  // push.
  void CutIfAsked();
  // What is to be said: of the snapshot that is open, or of the pushes so far
  // where the worker leaves or is told to stop.
  v1::WorkerCut MakeCut(bool leaving) const;

  // ---- heartbeats
  v1::HeartbeatRequest MakeHeartbeat(const v1::Evaluation& evaluation,
                                     bool leaving) const;
  // That says what was not said before.
  bool HasNewsToTell(const v1::Evaluation& evaluation, bool leaving) const;
  // Tells the servers the clock, where one is due.
  void TellClock(bool draining, WorkerTurn* turn);
  bool is_ending() const {
    return heartbeats.last_reply().state() == v1::FINISHED;
  }

  Session session;
  InputLeases input;
  Heartbeats heartbeats;
  PushCut cut;
  ClockTeller clock_teller;
  Steps steps;
  std::unique_ptr<Plan> plan;

 private:
  SessionState(const Options& options, const v1::JoinReply& reply,
               Session session, Computation* computation, Time now);

  // As far as the pushes begun: what remains of the input after them.
  v1::WorkerCut PresentCut() const;
  void TakeMode(const v1::Configuration& configuration);

  const Options options_;
  const v1::SessionId generation_;
  v1::Configuration configuration_;
  bool takes_changes_ = true;
  uint64_t start_clock_ = 0;
  bool first_push_noted_ = false;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_SESSION_STATE_H_
