#ifndef PARAMD_WORKER_STRATEGY_STEPS_H_
#define PARAMD_WORKER_STRATEGY_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "client/core/session.h"
#include "client/core/sparse_rows.h"
#include "client/core/weights.h"
#include "proto/metric_values.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/core.h"
#include "worker/core/computation.h"
#include "worker/core/input_leases.h"
#include "worker/core/worker_turn.h"
#include "worker/strategy/step_observer.h"
#include "worker/strategy/weight_copies.h"

namespace paramd {

// One step of a worker: examples, and the gradient that becomes of them.
struct TrainingStep {
  InputLeases::Range input;
  uint64_t number = 0;             // Sync mode: of the job's step.
  uint64_t examples = 0;           // In its range.
  uint64_t ordinal = 0;            // Among those of its session, from 1.
  size_t copy = 0;                 // Of the weights that it is computed on.
  IoId io = 0;                     // Of its computation,
  uint64_t computed_examples = 0;  // and what came of it.
  uint64_t left_out = 0;  // Of `examples`: its gradient is of the others.
  double loss = 0;
  MetricSums metrics;
  bool computed = false;
  bool noted = false;  // Its figures have come.
  // Until they are pushed; empty ones are still computed.
  std::vector<Buffer> gradients;
  // Of sparse variables, once they are known; null where there is none.
  std::unique_ptr<SparseRows> rows;

  bool has_gradients() const { return computed || !gradients.empty(); }
};

// The steps of a worker's session: what is pulled, computed and pushed. At most
// one is pulled for, and one pushed; gradients of several may be computed,
// which are pushed in the order in which they were begun. A plan decides what
// comes next; here is how it is done.
//
// Where the model has sparse variables, computing begins with the question
// which of their rows the examples read, and a lookup of these.
//
// Invariant: pulls, computations and pushes count from 1 in each session. Where
// several are computed each is on a pull of its own, and the model has no
// sparse variables.
//
// Not thread-safe: part of a worker's core.
class Steps {
 public:
  // `session`, which is configured, `computation` and `observer`, which may be
  // null, outlive this. `layers_from_bytes`: a gradient of so many leaves layer
  // by layer, if one is computed at a time. `memory`: where the weights lie, by
  // the copy's number. `concurrent`: steps that may be computed at a time,
  // those that wait to be pushed included.
  Steps(Session* session, Computation* computation, uint64_t layers_from_bytes,
        StepObserver* observer = nullptr, const WeightMemory& memory = {},
        size_t concurrent = 1);

  // ---- pulls
  bool pulling() const { return pulls_started_ != pulls_done_; }
  uint64_t pulls() const { return pulls_done_; }
  const WeightCopies& weights() const { return weights_; }
  // Those of the last pull have been computed on; there was none.
  bool are_weights_used() const { return used_; }
  // After this step of sync mode; 0: what there is.
  void StartPull(uint64_t clock, uint64_t after_step, WorkerTurn* turn);
  void Pulled(bool given_up, Time now);
  void CancelPull();

  // ---- computing
  size_t concurrent() const { return concurrent_; }
  // The one that was begun first, of those that are not pushed; null: none.
  const TrainingStep* computing() const {
    return computing_.empty() ? nullptr : &computing_.front();
  }
  // What is computed is of no step of this session any more.
  bool computes_in_vain() const;
  // One more, beside fewer than `concurrent`.
  bool may_compute(size_t concurrent = 1) const {
    return computing_.size() < concurrent &&
           computation_->under_way() < concurrent;
  }
  uint64_t computed() const { return steps_started_; }
  // On the weights of the last pull. Without `compute` it has no examples.
  // REQUIRES: may_compute(concurrent()), !pulling(), there was a pull.
  void StartComputing(TrainingStep step,
                      std::unique_ptr<v1::ComputeGradient> compute,
                      WorkerTurn* turn);
  // The rows of what is computed have been looked up.
  void LookedUp(bool given_up, WorkerTurn* turn);
  void DropComputing();
  void AbandonComputing(WorkerTurn* turn) { computation_->Abandon(turn); }
  // Figures that came with a computation; the step, if its push was
  // acknowledged before they came: all gradients may leave in parts, ahead of
  // the result.
  const TrainingStep* Note(IoId io, const v1::ComputeGradientResult& result);
  // Gradients of the last layers; all of them. An error if there is none, or a
  // loss that is not finite: nothing was pushed.
  void TakePart(const IoResult& part, WorkerTurn* turn);
  absl::Status TakeResult(const IoResult& result, uint32_t worker,
                          WorkerTurn* turn);

  // ---- pushes
  const absl::optional<TrainingStep>& pushing() const { return pushing_; }
  uint64_t pushes_started() const { return pushes_started_; }
  // Acknowledged or given up.
  uint64_t pushes_ended() const { return pushes_ended_; }
  // Of what is computed, with what `info` says beside its number and its input.
  // `pull_behind`: asks for the weights of the step after it.
  // REQUIRES: *computing() has gradients, nothing is pushed.
  void StartPush(Session::PushInfo info, bool pull_behind, WorkerTurn* turn);
  // What is pushed is acknowledged: the step, or null if its figures have not
  // come; then Note gives it.
  const TrainingStep* Acknowledged();
  // `pulled`: with the weights that were asked for.
  TrainingStep PushEnded(bool pulled, Time now);
  // Somebody else computes it again.
  void DropPush() { pushing_.reset(); }
  void CancelPush();

  // Steps that are computed, wait to be pushed, or are pushed.
  size_t under_way() const {
    return computing_.size() + (pushing_.has_value() ? 1 : 0);
  }
  bool at_rest() const { return under_way() == 0; }

 private:
  void Add(const std::vector<Buffer>& gradients, TrainingStep* step,
           WorkerTurn* turn);
  void StartLookup(WorkerTurn* turn);
  absl::Status TakeRows(const IoResult& result, WorkerTurn* turn);
  // That of this computation; null: it is of no use any more.
  TrainingStep* ComputingBy(IoId io);
  void Compute(BufferChain weights, WorkerTurn* turn);

  Session* const session_;
  Computation* const computation_;
  StepObserver* const observer_;
  const size_t concurrent_;
  bool by_layers_ = false;
  WeightCopies weights_;
  bool used_ = true;
  // What a pull asks for.
  struct Terms {
    uint64_t clock = 0;
    uint64_t after_step = 0;
  };
  Terms asked_;     // The last one.
  Terms obtained_;  // That of the weights.
  // What will be computed when its rows are there.
  std::unique_ptr<v1::ComputeGradient> compute_;
  uint64_t pulls_started_ = 0;
  uint64_t pulls_done_ = 0;
  uint64_t steps_started_ = 0;  // Whose computation was started.
  uint64_t pushes_started_ = 0;
  uint64_t pushes_ended_ = 0;
  std::deque<TrainingStep> computing_;  // Or waiting to leave.
  absl::optional<TrainingStep> pushing_;
  absl::optional<TrainingStep> acknowledged_;  // Whose figures have not come.
  Time pull_began_;                            // The last of each.
  Time push_began_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STRATEGY_STEPS_H_
