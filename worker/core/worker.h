#ifndef PARAMD_WORKER_CORE_WORKER_H_
#define PARAMD_WORKER_CORE_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "client/core/session.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/core.h"
#include "worker/core/computation.h"
#include "worker/core/joining.h"
#include "worker/core/quarantine_watch.h"
#include "worker/core/session_state.h"
#include "worker/core/training_figures.h"
#include "worker/core/worker_evaluation.h"
#include "worker/core/worker_turn.h"
#include "worker/strategy/step_observer.h"

namespace paramd {

// A worker: joins, and trains until the coordinator says that the job has
// ended.
//
//   joining ──► running ──► ending ──► (exit)
//      ▲           │  the coordinator knows no such session
//      └───────────┘
//
// What it knows of a session is one SessionState, replaced whole by the next. A
// Plan decides what a step is (worker/strategy/); here are the session, the
// heartbeats, the cuts and the evaluations. Each event goes to the part it
// belongs to; then, in this order: finished pulls and pushes, an evaluation,
// the plan, a heartbeat, a request for input, the clock.
//
// For a snapshot nothing stops: the worker says which push is its last in it,
// and stamps the later ones (see PushCut). Told to stop, it opens no push for
// as long as that is said. One that is told to drain waits for the push under
// way, drops what it computes, tells the coordinator how far it got with its
// input, and is gone.
//
// Weights are handed out with the work that reads them, one buffer a variable
// as its payload. Whoever does the work drops them before it says that it is
// done.
//
// Not thread-safe: a core.
class Worker : public Core {
 public:
  struct Options {
    uint32_t index = 0;
    uint64_t incarnation = 0;
    // The process of this task before this one, if it is known to have ended.
    uint64_t replaces = 0;
    // No list names it: its index is the one that the chief gave it. And where
    // it listens, then; empty: nowhere.
    bool joined = false;
    std::string address;
    std::string host;
    uint32_t pid = 0;
    v1::JobConfig job;  // Checked, with every default filled in.
    std::string job_digest;
    uint64_t examples = 0;  // In the training set; for sync mode.
    v1::DataSet data;       // The training set; the chief must have it too.
    // The test set, as CoordinatorOptions has it; 0: it evaluates no part of
    // it.
    uint64_t test_set = 0;
    // Of the model; the chief's must be the same. Empty: not compared.
    std::vector<v1::Variable> variables;
    // A push or pull that takes longer is given up.
    absl::Duration give_up_after = absl::Minutes(5);
    // A gradient of so many bytes leaves layer by layer as it is computed.
    uint64_t layers_from_bytes = uint64_t{2} << 20;
    StepObserver* observer = nullptr;  // Outlives the worker; may be null.
    WeightMemory weight_memory;        // Of those that it trains on.
    // Weights travel, so blocks with many pruned ones come packed.
    bool packs_pulls = true;
    // Hears, when the job has ended, what all workers were trained on, by
    // epoch.
    std::function<void(const v1::HeartbeatReply&)> on_end;
  };

  explicit Worker(const Options& options);

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  void Drain(Time now, Outbox* out) override;

  // Whom this worker waits for, and why; empty: nobody.
  std::string waiting_for() const;
  std::string overdue(Time now) const override;
  void FillStatus(Time now, v1::StatusReply* status) const;

 private:
  void Advance(WorkerTurn* turn);
  void AdvanceSession(WorkerTurn* turn);
  bool MayJoin() const;
  void Join(WorkerTurn* turn);
  void BeginSession(const v1::JoinReply& reply, WorkerTurn* turn);
  void JoinAgain(Time now);
  void HearLogLevel(const v1::Configuration& told, WorkerTurn* turn);
  void OnHeartbeat(const Message& message, WorkerTurn* turn);
  // Ends the session or the process where the refusal says so.
  void OnCoordinatorRefused(const absl::Status& status, WorkerTurn* turn);
  void OnFinished(const Session::Finished& finished, WorkerTurn* turn);
  // A push has failed. False: it counts as ended all the same.
  bool OnPushFailed(const absl::Status& status, WorkerTurn* turn);
  void OnOperationFailed(const absl::Status& status, Outbox* out);
  void OnQuarantined(const absl::Status& status, Outbox* out);
  // Somebody else pushed as this session.
  void OnSpoiled(const absl::Status& status, WorkerTurn* turn);
  void OnGradient(const IoResult& result, WorkerTurn* turn);
  void OnFigures(const IoResult& result, Time now);
  // Null: not yet.
  void CountAcknowledged(const TrainingStep* step);
  // What people see.
  v1::WorkerStats MakeStats() const;
  bool WantsPortion() const;
  Plan::View MakeView() const;
  v1::HeartbeatRequest MakeHeartbeat() const;
  // Nothing of this worker is under way, and nothing will be.
  bool drained() const;
  // The coordinator may be told so.
  bool leaving() const;

  const Options options_;
  bool draining_ = false;
  WorkerNumbers numbers_;
  uint64_t sessions_ = 0;
  absl::optional<Joining> joining_;  // One of these two is set.
  std::unique_ptr<SessionState> session_;
  std::string log_level_;  // That an operator set; empty: none.
  absl::Status end_;       // Of a job that has failed, as a server says.
  Computation computation_;
  WorkerEvaluation evaluation_;

  // ---- figures for people, of the process
  TrainingFigures figures_;
  QuarantineWatch quarantine_;
  absl::optional<Time> first_push_;  // When it was acknowledged.
  uint32_t epoch_ = 0;
  uint64_t given_up_ = 0;
  uint64_t late_ = 0;
  uint64_t spoiled_sessions_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_WORKER_H_
