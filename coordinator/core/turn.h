#ifndef PARAMD_COORDINATOR_CORE_TURN_H_
#define PARAMD_COORDINATOR_CORE_TURN_H_

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/time.h"
#include "coordinator/core/job_view.h"
#include "coordinator/core/live_configuration.h"
#include "coordinator/core/pending_work.h"
#include "tensor/core.h"

namespace paramd {

// What one part tells all others. The dispatcher delivers a fact when the part
// that raised it has returned, before any other part is asked.

// Others wait for a worker that has been silent for longer than its lease.
struct WorkerSilent {
  uint32_t worker = 0;
};
// A checkpoint is the newest one.
struct CheckpointCommitted {
  bool final = false;
};
// A snapshot could not be written.
struct CheckpointFailed {
  bool final = false;
  absl::Status why;
};
// Somebody leaves, and takes a checkpoint before.
struct SnapshotToLeaveWith {};
// The log has the mode that an operator asked for.
struct ModeLogged {};
// A process gets a session.
struct Admitted {
  uint32_t worker = 0;
  v1::JoinRequest request;
};
// A session is to end: its process said so, or another one takes its place.
struct SessionOver {
  uint32_t worker = 0;
};
// A worker's process has asked, or been told of the end without a session.
struct WorkerHeard {
  uint32_t worker = 0;
};
struct HeardOfEnd {
  uint32_t worker = 0;
};
// A session is to end, which waited for its step.
struct FenceIsDue {
  uint32_t worker = 0;
};
// A worker is heard, and others wait for its contribution for too long.
struct HoldsUpStep {
  uint32_t worker = 0;
};
// A server has answered, or not as it should.
struct ServerHeard {
  uint32_t server = 0;
};
struct ServerFailed {
  uint32_t server = 0;
  absl::Status why;
};
// All servers are to restore the newest checkpoint.
struct BackToCheckpoint {};
// A worker has used up these portions, or parts of them.
struct InputUsed {
  uint32_t worker = 0;
  std::vector<v1::Portion> portions;
};
// The job has come this far.
struct Reached {
  JobPhase phase;
};
using Fact =
    std::variant<WorkerSilent, CheckpointCommitted, CheckpointFailed,
                 SnapshotToLeaveWith, ModeLogged, Admitted, SessionOver,
                 WorkerHeard, HeardOfEnd, FenceIsDue, HoldsUpStep, ServerHeard,
                 ServerFailed, BackToCheckpoint, InputUsed, Reached>;

// What the dispatcher lends its parts for one event: the time, the way out, the
// log, the configuration, and what they may read of each other.
//
// Not thread-safe: lives for one call of the core.
class Turn {
 public:
  Turn(Time now, Outbox* out, const JobView& job,
       LiveConfiguration* configuration, PendingWork* work)
      : now(now), out(out), job(job), live(configuration), work_(work) {}

  const Time now;
  Outbox* const out;
  const JobView& job;
  LiveConfiguration* const live;

  // Work outside the cores; `handler` is called with what becomes of it.
  void StartIo(Outbox::Head head, IoHandler handler, BufferChain payload = {}) {
    work_->StartIo(std::move(head), std::move(payload), std::move(handler),
                   out);
  }
  // The same of an entry of the log, behind those before it.
  void Append(v1::LogEntry entry, IoHandler handler) {
    work_->Append(std::move(entry), std::move(handler), out);
  }
  // The number under which it is answered.
  CallId Send(PeerId to, Outbox::Head head, BufferChain payload,
              absl::Duration deadline) {
    const CallId call = work_->NewCall();
    out->Send(to, call, std::move(head), std::move(payload), deadline);
    return call;
  }
  // What entries and manifests say of the job.
  const v1::JobRecord& job_record() const { return work_->job(); }

  void Raise(Fact fact) { facts_.push_back(std::move(fact)); }
  // Those raised since, in their order.
  std::vector<Fact> TakeFacts() { return std::exchange(facts_, {}); }

 private:
  PendingWork* const work_;
  std::vector<Fact> facts_;
};

// A method as a handler.
template <typename Part>
IoHandler Then(Part* part, void (Part::*method)(const IoResult&, Turn*)) {
  return [part, method](const IoResult& result, Turn* turn) {
    (part->*method)(result, turn);
  };
}

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_TURN_H_
