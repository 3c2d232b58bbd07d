#ifndef PARAMD_WORKER_GRADIENT_STEP_H_
#define PARAMD_WORKER_GRADIENT_STEP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "compute/model/trained_model.h"
#include "input/batch.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"
#include "worker/gradient_clip.h"

namespace paramd {

// What a step is computed on: of a sparse variable some rows.
struct StepWeights {
  std::vector<absl::Span<const float>> values;  // By variable.
  // By sparse variable, the numbers of its rows: see TrainedModel::StepOptions.
  std::vector<absl::Span<const uint64_t>> rows;
};

// What came with a ComputeGradient, which outlives the result.
StepWeights ReadWeights(const BufferChain& handed_out,
                        absl::Span<const v1::Variable> variables);
// What CollectRows is answered with: the rows of each sparse variable, sorted,
// each once.
BufferChain PackRows(std::vector<std::vector<uint64_t>> rows);
size_t CountSparse(absl::Span<const v1::Variable> variables);

// What one push is computed of: gradients of `accumulate` batches each, and
// where the mode has no steps `push_every` such gradients.
//
// A gradient is of the sum of its examples' losses divided by their number, in
// sync mode by that of the whole step: so `accumulate` batches give what one
// batch of all their examples gives, up to rounding, the short one at the end
// included. Examples that the input left out, or whose labels are all ignored,
// count in neither; in sync mode, where a worker knows its own alone, servers
// correct for them: see left_out.
//
// With `push_every` a push is the sum of its gradients. The first is computed
// on the weights that were pulled; behind each the worker moves its own copy of
// the weights by a plain step, w -= optimizer.learning_rate x gradient, without
// schedule, momentum or decay, and computes the next one there. What is
// untrained moves by what the model says. So one worker that trains with plain
// SGD at a constant rate does what it does without `push_every`, up to
// rounding; with other optimizers servers see one gradient where there were
// several. With optimizer.clip_global_norm each of several is clipped here; one
// that is a push by itself is not, as others may be added to it.
//
// Not thread-safe: of the computing thread. Keeps the memory of a step for the
// next.
class GradientStep {
 public:
  // `model` outlives it.
  GradientStep(const v1::JobConfig& job, TrainedModel* model);

  // The ranges whose batches Compute asks for, in order.
  std::vector<Portion> BatchesOf(const v1::ComputeGradient& request) const;

  // The batch of a range of the input. Valid until the next call.
  using NextBatch =
      absl::FunctionRef<absl::StatusOr<const Batch*>(const Portion&)>;

  // Overwrites the gradients with those of request's examples on `weights`, and
  // says what their losses were. `ready` hears of each variable whose gradient
  // is final before the step has ended. CANCELLED once *abandoned; the errors
  // of `next_batch` and of the model; then gradients are of no use. REQUIRES:
  // spans have the sizes of the model's variables.
  absl::StatusOr<Metrics> Compute(const v1::ComputeGradient& request,
                                  const StepWeights& weights,
                                  NextBatch next_batch,
                                  const std::atomic<bool>* abandoned,
                                  GradientSpans gradients,
                                  TrainedModel::Ready ready);

  // What becomes of the gradients from now on. REQUIRES: kAlone, or each step
  // is of one batch.
  void SetSharing(Sharing sharing) { sharing_ = sharing; }
  // See TrainedModel::StepOptions; may be null.
  void SetNext(std::function<const Batch*()> next) { next_ = std::move(next); }
  // See TrainedModel::StepOptions; may be null.
  void SetTake(const TrainedModel::Take* take) { take_ = take; }

  // Examples of the last request's range, as far as it has come, that do not
  // count: gradients are of the others.
  uint64_t left_out() const { return left_out_; }

 private:
  using Values = std::vector<std::vector<float>>;  // By variable.

  // One gradient, of [begin, end).
  absl::StatusOr<Metrics> ComputeOne(const v1::ComputeGradient& request,
                                     uint64_t begin, uint64_t end,
                                     WeightSpans weights, NextBatch next_batch,
                                     const std::atomic<bool>* abandoned,
                                     GradientSpans gradients,
                                     TrainedModel::Ready ready,
                                     const TrainedModel::Take* take);
  // The worker's own weights, `moved_` from `weights` on.
  void Move(WeightSpans weights, GradientSpans gradients);

  absl::Span<const absl::Span<const uint64_t>> rows_;  // Of the present step.
  const uint64_t batch_;
  const uint64_t gradient_examples_;
  const float rate_;
  const uint64_t seed_;
  const double loss_scale_;
  const GradientClip clip_;
  TrainedModel& model_;
  Sharing sharing_ = Sharing::kAlone;
  std::function<const Batch*()> next_;
  const TrainedModel::Take* take_ = nullptr;
  // Of variables, made when they are first needed.
  Values batch_gradient_;
  Values gradient_;
  Values moved_;
  bool has_moved_ = false;
  uint64_t left_out_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_GRADIENT_STEP_H_
