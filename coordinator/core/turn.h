#ifndef PARAMD_COORDINATOR_CORE_TURN_H_
#define PARAMD_COORDINATOR_CORE_TURN_H_

#include <cstdint>
#include <string>
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

// What one part tells all others. The FactRouter delivers a fact when the part
// that raised it has returned, before any other part is asked.

// What is in the log, for as long as the event lasts.
struct LogRead {
  const v1::ReadLogResult* log;
};
// It says that the run has ended.
struct RunFinished {};
// What the storage has to begin with, for as long as the event lasts.
struct CheckpointFound {
  const v1::FindCheckpointResult* found;
};
// A checkpoint is the newest one.
struct CheckpointCommitted {
  bool final = false;
};
// A snapshot could not be written.
struct CheckpointFailed {
  bool final = false;
  absl::Status why;
  v1::SnapshotNumber snapshot;
};
// Somebody leaves, and takes a checkpoint before.
struct SnapshotToLeaveWith {};
// An operator stops the job, and the newest checkpoint has all there is.
struct AllIsSaved {};
// The log has a setting that an operator asked for, or a start found it there.
struct SettingChanged {
  v1::SettingChange setting;
};
// The log has the mode that an operator asked for.
struct ModeLogged {};
// A process gets a session.
struct Admitted {
  uint32_t worker = 0;
  v1::JoinRequest request;
};
// A session is to end: its process said so, another one takes its place, or
// others wait for it and its lease is over.
struct SessionOver {
  uint32_t worker = 0;
};
// A session's fence may be logged, unless something forbids that now.
struct SessionFenced {
  uint32_t worker = 0;
};
// A session has ended: its fence is in the log. `session` is what it was.
struct SessionEnded {
  uint32_t worker = 0;
  WorkerRecord session;
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
// A server has answered a call of another part, or not as it should.
struct ServerHeard {
  uint32_t server = 0;
  absl::Status status;
};
// What a server has answered, for as long as the event lasts.
struct ServerRecalled {
  uint32_t server = 0;
  const v1::RecallReply* reply;
};
struct ServerConfigured {
  uint32_t server = 0;
  const v1::ConfigureReply* reply;
};
struct SnapshotAnswered {
  uint32_t server = 0;
  const Message* answer;
};
// A server can't do its share of this snapshot.
struct SnapshotCallFailed {
  v1::SnapshotNumber snapshot;
  absl::Status why;
};
// A server has nothing of what it held.
struct ServerReborn {
  uint32_t server = 0;
  bool drained = false;  // It had left in good order.
};
// Where a server is, or who its backup is, has changed, and the log has it if
// it must.
struct ReplicaChanged {
  v1::ServerMember member;
  bool takes_over = false;  // It goes on in its other place.
  std::string note;         // For people.
};
// A server can't restore what it was told to.
struct NotRestored {
  uint32_t server = 0;
  bool is_damaged = false;
  bool may_pass = false;  // It may be read later.
  std::string why;
};
// All servers are to restore the newest checkpoint.
struct BackToCheckpoint {};
// A worker has used up these portions, or parts of them.
struct InputUsed {
  uint32_t worker = 0;
  std::vector<v1::Portion> portions;
};
// There is a new evaluation, of examples.
struct Evaluated {};
// The job has come this far.
struct Reached {
  JobPhase phase;
};
using Fact =
    std::variant<LogRead, RunFinished, CheckpointFound, CheckpointCommitted,
                 CheckpointFailed, SnapshotToLeaveWith, AllIsSaved,
                 SettingChanged, ModeLogged, Admitted, SessionOver,
                 SessionFenced, SessionEnded, WorkerHeard, HeardOfEnd,
                 FenceIsDue, HoldsUpStep, ServerHeard, ServerRecalled,
                 ServerConfigured, SnapshotAnswered, SnapshotCallFailed,
                 ServerReborn, ReplicaChanged, NotRestored, BackToCheckpoint,
                 InputUsed, Evaluated, Reached>;

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

  // The log was read: entries go on from this number, with this said in them.
  void BeginLog(uint64_t next_number, const std::string& run_id,
                const v1::JobRecord& job) {
    work_->LogRead(next_number, run_id, job);
  }
  // Work outside the cores; `handler` is called with what becomes of it.
  void StartIo(Outbox::Head head, IoHandler handler, BufferChain payload = {}) {
    work_->StartIo(std::move(head), std::move(payload), std::move(handler),
                   out);
  }
  // The same of an entry of the log, after those before it.
  void Append(v1::LogEntry entry, IoHandler handler) {
    work_->Append(std::move(entry), PendingWork::Haste::kPrompt,
                  std::move(handler), out);
  }
  // The same of one of which there may be many at a time, and for which nobody
  // waits: in a job of many members `handler` may be called later, and then
  // for all of them.
  void AppendPatiently(v1::LogEntry entry, IoHandler handler) {
    work_->Append(std::move(entry), PendingWork::Haste::kPatient,
                  std::move(handler), out);
  }
  // The number under which it is answered.
  CallId Send(PeerId to, Outbox::Head head, BufferChain payload,
              absl::Duration deadline) {
    const CallId call = work_->NewCall();
    out->Send(to, call, std::move(head), std::move(payload), deadline);
    return call;
  }
  // Whether a server that has `known` is told with the configuration what is
  // left of the input. Where nothing else is new to it, only in its turn.
  bool TellsInput(uint32_t server,
                  const v1::ConfigurationVersion& known) const {
    return !job.IsSync() && (!live->CanTellSince(known) ||
                             !live->HasOnlyNewsOfOthers(server, known) ||
                             IsToldInput(server, now, job));
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
