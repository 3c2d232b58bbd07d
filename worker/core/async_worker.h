#ifndef PARAMD_WORKER_CORE_ASYNC_WORKER_H_
#define PARAMD_WORKER_CORE_ASYNC_WORKER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "client/core/session.h"
#include "client/core/weights.h"
#include "proto/paramd/v1/cluster.pb.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/core.h"
#include "worker/core/clock_teller.h"
#include "worker/core/push_cut.h"
#include "worker/core/quarantine_watch.h"
#include "worker/core/sync_cursor.h"
#include "worker/core/training_figures.h"

namespace paramd {

// A worker in asynchronous mode: joins, takes portions of the input, and turns
// batches into pushes until the coordinator says that the job has ended.
//
//   joining ──► running ──► ending ──► (exit)
//      ▲           │  the coordinator knows no such session
//      └───────────┘
//
// With `pull_ahead` steps overlap, but only in one way. With step t's batch being
// computed on the weights of pull t:
//   - pull t+1 is sent when push t-1 is acknowledged, and not before;
//   - push t leaves when its gradient is ready and pull t+1 has come;
//   - step t+1 is computed when pull t+1 has come and push t has left.
// So pull t+1 always contains this worker's pushes up to t-1 and not t. Without,
// pull t+1 is sent when push t is acknowledged, or comes with the answers to push
// t where nobody may have to wait for others. Either way no timing changes the
// result of a job with one worker.
//
// A large gradient begins to leave when that of the last layers is there
// (TakeGradients), if the push may leave at all by then; what is computed later
// follows.
//
// In sync mode a step is: pull what the step before it left, compute this
// worker's share of the step's examples, push it; the next pull waits on the
// servers until all contributions are in. Other contributors make a step that is
// not decided begin anew. One that was decided without this worker is abandoned
// while it is computed, as soon as the worker hears of it.
//
// For a snapshot nothing stops: the worker says which push is its last in it, and
// stamps the later ones (see PushCut). Told to stop, it opens no push for as long
// as that is said.
//
// One that is told to drain waits for the push under way, drops what it
// computes, tells the coordinator how far it got with its input, and is gone.
//
// Weights lie in three buffers: 0 and 1 by turns for the steps, 2 for
// evaluations. Between StartIo(ComputeGradient or EvaluateWeights) and its
// Completed the buffer it names does not change.
//
// Not thread-safe: a core, except that weights() of a named buffer may be read
// elsewhere in that span.
class AsyncWorker : public Core {
 public:
  struct Options {
    uint32_t index = 0;
    uint64_t incarnation = 0;
    // The process of this task before this one, if it is known to have ended.
    uint64_t replaces = 0;
    std::string host;
    uint32_t pid = 0;
    v1::JobConfig job;  // Checked, with every default filled in.
    std::string job_digest;
    uint64_t examples = 0;  // In the training set; for sync mode.
    v1::DataSet data;       // The training set; the chief must have it too.
    // A push or pull that takes longer is given up.
    absl::Duration give_up_after = absl::Minutes(5);
    // A gradient of so many bytes leaves layer by layer as it is computed.
    uint64_t layers_from_bytes = uint64_t{2} << 20;
  };
  static constexpr int kEvaluationBuffer = 2;

  explicit AsyncWorker(const Options& options);

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  void Drain(Time now, Outbox* out) override;

  // REQUIRES: see the class comment.
  const Weights& weights(int buffer) const { return weights_[buffer]; }

  // Whom this worker waits for, and why; empty: nobody.
  std::string waiting_for() const;
  std::string overdue(Time now) const override;
  void FillStatus(v1::StatusReply* status) const;

 private:
  enum class Phase { kJoining, kRunning, kEnding };

  // A portion of the input that this worker has.
  struct Leased {
    v1::Portion portion;
    uint64_t computed = 0;      // Offset up to which gradients were started,
    uint64_t acknowledged = 0;  // and up to which pushes were acknowledged.
  };
  // A gradient on its way: being computed, waiting to leave, or pushed.
  struct Step {
    uint64_t portion = 0;
    uint32_t epoch = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t number = 0;    // Sync mode: of the job's step,
    uint64_t examples = 0;  // and of how many examples this is.
    IoId io = 0;            // Of its computation,
    uint64_t computed_examples = 0;  // and what came of it.
    double loss = 0;
    bool computed = false;
    // Until they are pushed; empty ones are still computed.
    std::vector<Buffer> gradients;

    bool has_gradients() const { return computed || !gradients.empty(); }
  };
  // One call to the coordinator that is repeated until it is answered.
  struct CoordinatorCall {
    CallId call = 0;  // 0: none under way.
    Time retry_at = Time::Never();
  };

  void Advance(Time now, Outbox* out);
  void AdvancePipeline(Time now, Outbox* out);
  void AdvanceSync(Time now, Outbox* out);
  bool HoldsShare() const;
  bool HasWeights() const;
  bool IsBetweenShares() const;
  bool MayPullStep() const;
  bool MayComputeStep() const;
  void StartShare(Outbox* out);
  void PushShare(Time now, Outbox* out);
  void OnConfiguration(const v1::Configuration& configuration);
  void OnLate(uint64_t decided, Outbox* out);
  void OnLeftOut(uint64_t step, Outbox* out);
  void StartEvaluation(Time now, Outbox* out);
  void AdvanceCoordinator(Time now, Outbox* out);
  void OnFinished(const Session::Finished& finished, Time now, Outbox* out);
  // Somebody else pushed as this session.
  void OnSpoiled(const absl::Status& status, Time now, Outbox* out);
  void OnOperationFailed(const absl::Status& status, Outbox* out);
  // True if the worker goes on: the push is given up.
  bool OnQuarantined(const absl::Status& status, Outbox* out);
  // People wait for it where a process was lost.
  void NoteFirstPush(Outbox* out);
  void OnPushEnded();
  bool MayPull() const;
  // Whether a push may ask for the weights of the step after it.
  bool MayPullBehind() const;
  bool MayPush() const;
  bool MayCompute() const;
  bool MayEvaluate() const;
  bool MayJoin() const;
  bool WantsPortion() const;
  void StartPush(Time now, Outbox* out);
  void StartCompute(Outbox* out);
  void StartComputing(std::unique_ptr<v1::ComputeGradient> compute,
                      Outbox* out);
  void AbandonComputing(Outbox* out);
  void OnGradient(const IoResult& result, Time now, Outbox* out);
  absl::Status CheckGradient(const IoResult& result) const;
  void TakeGradients(Outbox* out);
  void OnTaken(const IoResult& result, Time now, Outbox* out);
  void OnEvaluated(const IoResult& result, Outbox* out);
  void OnFigures(IoId io, const v1::ComputeGradientResult& result, Time now);
  // What people see.
  v1::WorkerStats MakeStats() const;

  void SendJoin(Outbox* out);
  void OnJoined(const v1::JoinReply& reply, Time now, Outbox* out);
  void OnJoinFailed(const absl::Status& status, Time now, Outbox* out);
  void JoinAgain(Time now);
  void TakePortion(Outbox* out);
  void OnPortion(const Message& message, Time now, Outbox* out);
  void SendHeartbeat(Time now, Outbox* out);
  void OnHeartbeat(const Message& message, Time now, Outbox* out);
  // Ends the session or the process where the refusal says so.
  void OnCoordinatorRefused(const absl::Status& status, Time now, Outbox* out);
  v1::HeartbeatRequest MakeHeartbeat() const;
  // Of the input, for a coordinator that has taken this session over.
  v1::HeldInput MakeHeld() const;
  bool HasNewsToTell() const;
  // As far as the pushes begun: what remains of the input behind them.
  v1::WorkerCut PresentCut() const;
  // What is to be said: of the snapshot that is open, or of the pushes so far
  // where the worker leaves or is told to stop.
  v1::WorkerCut MakeCut() const;
  bool HasCutToTell() const;
  v1::Header MakeHeader() const;
  // Its start clock and its pushes: what the mode BOUNDED compares.
  uint64_t clock() const { return start_clock_ + pushes_acknowledged_; }
  ClockTeller::State MakeClockState() const;
  // Takes over the start clock of this session, if it rose.
  void RaiseClock(const v1::Configuration& configuration);
  bool idle() const;
  // Nothing of this worker is under way, and nothing will be.
  bool drained() const;
  // The coordinator may be told so.
  bool leaving() const { return drained() && cut_.is_heard(); }
  uint64_t batches_left() const;

  const Options options_;
  Phase phase_ = Phase::kJoining;
  bool draining_ = false;
  Time started_;
  absl::optional<Session> session_;  // Set while running.
  uint64_t sessions_ = 0;
  v1::Version generation_;
  Weights weights_[3];

  // ---- the pipeline; numbers of steps count from 1 in each generation
  uint64_t pulls_started_ = 0;
  uint64_t pulls_done_ = 0;
  uint64_t steps_started_ = 0;  // Whose gradient computation was started.
  uint64_t pushes_started_ = 0;
  uint64_t pushes_acknowledged_ = 0;
  bool first_push_noted_ = false;
  uint64_t start_clock_ = 0;
  ClockTeller clock_teller_;
  PushCut cut_;
  absl::optional<Step> computing_;  // Or waiting to leave.
  absl::optional<Step> pushing_;
  bool async_ = false;  // Nobody waits for others.
  IoId compute_io_ = 0;  // 0: none.
  IoId take_io_ = 0;     // Of TakeGradients,
  IoId taken_from_ = 0;  // and the computation whose they are.

  // ---- the steps of sync mode
  bool sync_ = false;
  SyncCursor cursor_;
  uint64_t pulling_step_ = 0;  // After which the pull under way reads.
  uint64_t pushed_step_ = 0;   // That the servers hold this worker's share of.
  // After which step the weights are; unset: none were pulled in this session.
  absl::optional<uint64_t> pulled_step_;
  uint64_t late_ = 0;

  // ---- the input
  std::deque<Leased> portions_;  // Bound: three portions.
  CoordinatorCall portion_call_;
  uint64_t portion_number_ = 0;
  uint64_t portions_finished_ = 0;  // Id up to which all are acknowledged.
  uint64_t last_portion_ = 0;       // Newest id known.
  bool portion_answered_ = true;    // The request of that number.
  bool no_more_ = false;
  bool none_now_ = false;  // The last answer was that there is none now.

  // ---- what the coordinator and this worker tell each other
  CoordinatorCall join_call_;
  std::string join_why_;
  std::string last_wait_;  // Whom the coordinator last said it waits for.
  CoordinatorCall heartbeat_call_;
  Time heard_;  // When the coordinator last answered.
  std::string silent_why_;  // Why it has not since; empty: it has.
  uint64_t term_ = 0;  // The newest of which a coordinator answered.
  uint64_t heartbeat_number_ = 0;
  v1::HeartbeatRequest told_;  // The newest heartbeat sent.
  v1::HeartbeatReply news_;    // The newest answer.
  v1::Evaluation evaluation_;
  bool evaluating_ = false;
  IoId evaluate_io_ = 0;
  bool evaluating_final_ = false;
  uint32_t evaluating_epoch_ = 0;
  uint64_t evaluations_ = 0;

  // ---- figures for people
  TrainingFigures figures_;
  uint32_t epoch_ = 0;
  uint64_t given_up_ = 0;
  uint64_t spoiled_sessions_ = 0;
  QuarantineWatch quarantine_;

  CallId next_call_ = 1;
  IoId next_io_ = 1;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_ASYNC_WORKER_H_
