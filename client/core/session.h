#ifndef PARAMD_CLIENT_CORE_SESSION_H_
#define PARAMD_CLIENT_CORE_SESSION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "client/core/placement.h"
#include "client/core/session_calls.h"
#include "client/core/session_operation.h"
#include "client/core/sparse_rows.h"
#include "client/core/weights.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/core.h"

namespace paramd {

// One worker's conversation with all servers of a job, for one generation:
// pulls variables into Weights and pushes gradients, cut into chunks, resent
// until every block has been answered for. An operation is a SessionOperation,
// its calls are counted by SessionCalls, and TakeAnswer reads what servers say.
//
// Invariant: a push is finished only when each of its blocks was acknowledged
// by the present life of the server that owns it, was superseded, or was given
// up. A resent block keeps its push number and stamp, so the server applies it
// at most once. At most one push is open at a time. What another process than
// the one of the configuration answers is not taken.
//
// Not thread-safe: part of a core, called from the core's thread only.
class Session {
 public:
  using OpId = uint64_t;
  using Options = SessionOptions;
  using PushInfo = SessionOperation::PushInfo;

  // An operation that has ended. Not OK: FENCED, QUARANTINED, JOB_FINISHED and
  // other refusals that no retry mends, with the server's sentence; SUPERSEDED
  // if a server holds what it cannot have from here, so that somebody else
  // pushes as this session; DEADLINE_EXCEEDED if it was given up.
  struct Finished {
    OpId op = 0;
    absl::Status status;
    // Of a push: `pull_into` has every block as it was after it. Otherwise it
    // has some of them.
    bool pulled = false;
  };

  explicit Session(const Options& options) : calls_(options) {
    terms_.options = options;
  }

  // Takes over a configuration that is newer than the one it has (an older one
  // changes nothing). Open chunks to a server whose generation grew are resent
  // whole. kInvalidArgument, with nothing changed, if there are no servers, or
  // the layout is broken or differs from the one at hand.
  absl::Status Configure(const v1::Configuration& configuration,
                         const v1::SessionId& generation);
  bool configured() const { return !terms_.peers.empty(); }
  const Placement& placement() const { return terms_.placement; }
  const v1::ConfigurationVersion& configuration_version() const {
    return terms_.version;
  }

  // Pulls all blocks that changed of the variables that `into` has; it stays
  // valid and untouched until the operation is finished. `clock` unset: a pull
  // that never waits. One that does because the mode wants it asks again until
  // it is let, and says so once.
  void StartPull(OpId op, Weights* into, absl::optional<uint64_t> clock,
                 Time now, Outbox* out) {
    StartPull(op, into, clock, /*after_step=*/0, now, out);
  }
  // The same in sync mode: not before this step is applied.
  void StartPull(OpId op, Weights* into, absl::optional<uint64_t> clock,
                 uint64_t after_step, Time now, Outbox* out);
  // Looks those rows up, as such a pull.
  void StartLookup(OpId op, SparseRows* rows, absl::optional<uint64_t> clock,
                   uint64_t after_step, Time now, Outbox* out);
  // Pushes one gradient for each variable, float, row-major, of a sparse one of
  // the rows in `info`; none if the push is empty. A gradient without bytes is
  // still being computed and follows by AddGradients; what waits for it leaves
  // then. UntouchedGradient (untouched.h) stands for one of a variable that the
  // push leaves as it is; a sparse one without rows is left anyway.
  // REQUIRES: configured(), no push is open, sizes match the placement.
  void StartPush(OpId op, const PushInfo& info, std::vector<Buffer> gradients,
                 Time now, Outbox* out);
  // Those of them that the push does not have yet and that are not empty here.
  // No change if it has ended. REQUIRES: as above.
  void AddGradients(OpId op, const std::vector<Buffer>& gradients, Time now,
                    Outbox* out);
  // Forgets an operation: its answers change nothing, it is never finished.
  void Cancel(OpId op) { operations_.erase(op); }

  // True if the message was the reply to a call of this session.
  bool Receive(const Message& message, Time now, Outbox* out);
  void Tick(Time now, Outbox* out);
  Time next_tick() const;
  absl::optional<Finished> TakeFinished();

  // For people: whom the oldest open operation waits for; empty if nobody.
  std::string waiting_for() const;
  // The same, if that operation is open for longer than `patience`.
  std::string overdue(Time now, absl::Duration patience) const;
  uint64_t chunks_resent() const { return chunks_resent_; }
  // Median of the last calls to `server` that brought weights; zero if there
  // was none.
  absl::Duration PullLatency(uint32_t server) const {
    return calls_.PullLatency(server);
  }

 private:
  using Operation = SessionOperation;
  using Chunk = SessionOperation::Chunk;

  void StartOperation(OpId op, Operation operation, Time now, Outbox* out);
  void SendWhatMay(Time now, Outbox* out);
  void SendChunk(OpId op, Operation* operation, size_t chunk, Time now,
                 Outbox* out);
  void LeavePlace(uint32_t server);
  void HandleFailure(OpId op, Chunk* chunk, const absl::Status& status,
                     Time now, Outbox* out);
  void HandleWait(Operation* operation, Chunk* chunk,
                  const absl::Status& status, Time now, Outbox* out);
  void MarkDone(OpId op, Operation* operation, Chunk* chunk);
  void End(OpId op, absl::Status status, bool pulled = false);
  std::string WaitingFor(const Operation& operation) const;

  SessionTerms terms_;
  SessionCalls calls_;
  std::map<OpId, Operation> operations_;  // Bound: the caller's, at most three.
  std::deque<Finished> finished_;
  uint64_t next_request_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t chunks_resent_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_SESSION_H_
