#ifndef PARAMD_COMPUTE_MODEL_TRAINED_MODEL_H_
#define PARAMD_COMPUTE_MODEL_TRAINED_MODEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "compute/device/replica_meeting.h"
#include "compute/model/metrics.h"
#include "input/batch.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/buffer.h"
#include "tensor/lent_weights.h"
#include "tensor/tensor.h"

namespace paramd {

class ChromeTrace;
class DeviceLink;

// Values of variables that lie elsewhere, one span per variable.
using WeightSpans = absl::Span<const absl::Span<const float>>;
using GradientSpans = absl::Span<const absl::Span<float>>;
// Of each sparse variable in order, the rows whose values are handed in, one
// after the other: ascending, and all that a batch reads among them; those of
// a keyed variable are mixed keys (tensor/keyed_rows.h). Empty: whole variables
// are.
using RowNumbers = absl::Span<const absl::Span<const uint64_t>>;

// What one layer costs, for one example: what a user looks at first, and what
// cuts a model into stages.
struct LayerCost {
  std::string name;  // "dense_1"
  Dims output;
  uint64_t parameters = 0;
  // Floating-point operations of the forward pass, and of those parts of it
  // that the backward pass computes again; a multiplication and an addition
  // are two.
  uint64_t flops = 0;
  // Kept from the forward pass for the backward pass, the output included.
  uint64_t activation_bytes = 0;
  // Kept while the layer is computed again, if it is, in memory that all such
  // layers share.
  uint64_t recomputed_bytes = 0;
  // Of a layer that holds layers, which come after it. They are in its figures,
  // but for the activations of those that are computed again.
  int depth = 0;
};

// Layers that memory.activation_budget_bytes has had computed again or swapped,
// of the model or of one of its stages.
struct ChosenRecompute {
  // The first and the last layer of each range that is computed again.
  std::vector<std::pair<std::string, std::string>> ranges;
  // And of each whose activations are on the disk meanwhile.
  std::vector<std::pair<std::string, std::string>> swapped;
  // So many batches of so many examples are kept at once.
  uint64_t live = 1;
  uint64_t examples = 0;
  // Of activations, kept and scratch: what was to be had, what this takes, and
  // what would be taken if nothing was computed again.
  uint64_t budget_bytes = 0;
  uint64_t bytes = 0;
  uint64_t bytes_without = 0;
  // For one example: of the forward pass, and what is computed again.
  uint64_t flops = 0;
  uint64_t flops_again = 0;
  // What a batch of those examples writes and reads again.
  uint64_t swapped_bytes = 0;
};

struct ModelCost {
  std::vector<LayerCost> layers;
  // Over the layers of depth 0; a shared variable counts once. To activations
  // the largest recomputed_bytes is added.
  uint64_t parameters = 0;
  uint64_t flops = 0;
  uint64_t activation_bytes = 0;
  // Of each stage; empty without a budget.
  std::vector<ChosenRecompute> chosen;
  // What activation_bytes would be more if nothing had been chosen.
  uint64_t saved_bytes = 0;
};

// What became of gradients that were scaled to stay in the range of fp16.
struct LossScaling {
  // How often they were not finite and were computed again with half the scale.
  uint64_t overflows = 0;
  double scale = 0;  // The last one. 0: nothing is scaled.
};

// What becomes of the gradients of a replica's step.
enum class Sharing {
  kAlone,  // They are its own.
  // They become the sums over all replicas that have joined, each of which
  // computes a step at the same time.
  kSum,
  // The same, but this replica has no use for them: what it is handed to write
  // to stays as it is.
  kContribute,
};

class TrainedModel;

// What a model has whose replicas in a process compute on devices that are
// their own, or sum their gradients there. Of one that has not, replicas are
// clones.
class ReplicatedModel {
 public:
  virtual ~ReplicatedModel() = default;

  // Another one for replica `replica` of a process, of which this is number 0,
  // on the device that is its own where replicas have some.
  virtual std::unique_ptr<TrainedModel> CloneForReplica(
      uint32_t replica) const = 0;
  // From now on its steps may be summed with those of the other replicas of the
  // group, by their devices. Called for each of them, on its thread; returns
  // when it was for all. Where one's can't (UNIMPLEMENTED: nothing is missing
  // that could be had), none's are.
  virtual absl::Status JoinReplicas(const ReplicaGroup& group) {
    return RefuseToSum(group);
  }

  // What JoinReplicas of a replica does whose device sums nothing.
  static absl::Status RefuseToSum(const ReplicaGroup& group) {
    return group.meeting->Meet(
        absl::UnimplementedError("its device sums nothing"));
  }
};

// What a model has that a program brings and computes itself.
class BroughtModel {
 public:
  virtual ~BroughtModel() = default;

  // What the variables begin with, row-major, in their order; null: what their
  // initializers say. Only the chief's count.
  virtual const std::vector<std::vector<float>>* initial_values() const = 0;
  // Where weights that it is trained on may lie; sparse ones do not.
  virtual LentWeights lent_weights() const = 0;
  // A batch of the input is made, and will likely be trained soon. Called on
  // another thread, beside whatever the model does.
  virtual void Announce(const Batch& batch) = 0;
  // The job has ended; these are the epochs that all workers were trained on.
  // Called on another thread.
  virtual void JobEnded(const std::vector<v1::EpochTraining>& epochs) = 0;
};

// A model as the training loop sees it: what all models have. Owns no weights:
// they are handed in, one span per variable in the order of variables(), and
// may lie anywhere. The same weights, batch and options give the same bits.
//
// Not thread-safe: one per thread, by Clone; weights may be shared.
class TrainedModel {
 public:
  // Hears of a variable when its gradient is final.
  using Ready = absl::FunctionRef<void(size_t variable)>;
  // Takes a gradient that lies elsewhere, in place of what was handed in.
  using Take = std::function<void(size_t variable, Buffer gradient)>;

  struct StepOptions {
    // The examples of the batch that count, or in sync mode all of the global
    // batch: what these are more servers correct.
    double divisor = 1;
    // If set, it outlives the call; once it is true the step ends after the
    // layer it is at, and result and gradients are of no use.
    const std::atomic<bool>* abandoned = nullptr;
    // Whose gradients are wanted, too.
    RowNumbers rows = {};
    // The job's. What is drawn in a step is a function of this, of the epoch
    // and of an example's place in the epoch's order.
    uint64_t seed = 0;
    // Of a model that computes in fp16: what the loss is multiplied by at
    // first; 0: it is found, from step to step if it is remembered.
    double loss_scale = 0;
    bool remembers_loss_scale = true;
    // REQUIRES: it is kAlone, or the model has joined, and is not abandoned.
    Sharing sharing = Sharing::kAlone;
    // If set, gives what will likely be the batch of the next step, or null: it
    // is not made yet. Called at most once, while a device computes, which may
    // be brought the batch meanwhile. What it gives stays until the step ends.
    std::function<const Batch*()> next = nullptr;
    // If set, the gradients leave as the step gives them: each may be handed
    // over to this, before it is ready. Outlives the step.
    const Take* take = nullptr;
  };

  virtual ~TrainedModel() = default;

  // From the first layer to the last.
  virtual const std::vector<v1::Variable>& variables() const = 0;

  // Another one with the same variables, for another thread.
  virtual std::unique_ptr<TrainedModel> Clone() const = 0;
  // Another one on the same devices, whose steps may be computed at the same
  // time as its own: what a device waits for in one step is filled by the
  // other. Null: it has nothing to fill.
  virtual std::unique_ptr<TrainedModel> CloneForConcurrentSteps() const {
    return nullptr;
  }

  // Overwrites the gradients with the derivative, by each variable, of the sum
  // of the examples' losses divided by the divisor. What is overwritten for an
  // untrained variable is what is subtracted from it to update it. `ready`
  // hears of each variable, the last layer's first; of none if the loss is not
  // finite, which is the caller's to refuse. A batch without examples gives
  // zeros. Gradients undefined and none ready: INVALID_ARGUMENT if the batch
  // does not fit the model; DATA_LOSS if an example does not, and the sentence
  // says which, its feature and the value. REQUIRES: spans have the sizes of
  // the variables, or of their rows; divisor > 0.
  virtual absl::StatusOr<Metrics> Step(WeightSpans weights, const Batch& batch,
                                       const StepOptions& options,
                                       GradientSpans gradients,
                                       Ready ready) = 0;

  // The number of the batch's examples that the loss is averaged over: those
  // with a label that counts. It is known before a step, so that a step can be
  // divided by it. A step's metrics have it too, but 0 if the whole batch is to
  // be left out.
  virtual uint64_t CountedExamples(const Batch& batch) const {
    return batch.size();
  }

  // Appends which rows of each sparse variable, in order, a step on the batch
  // reads; some may come again and again. Fails as Step does.
  virtual absl::Status FindRows(
      const Batch& /*batch*/,
      absl::Span<std::vector<uint64_t>> /*rows*/) const {
    return absl::OkStatus();
  }

  // The same for an evaluation, on a batch of the test data.
  virtual absl::Status FindTestRows(
      const Batch& batch, absl::Span<std::vector<uint64_t>> rows) const {
    return FindRows(batch, rows);
  }

  // INVALID_ARGUMENT, naming what to change, if test data that look so surely
  // have an integer that it can't read.
  virtual absl::Status CheckTestData(const InputSpec& /*test*/) const {
    return absl::OkStatus();
  }

  // DATA_LOSS, naming file and place, if a step or an evaluation would refuse
  // the batch for what is in it: a label or a weight out of range, say.
  virtual absl::Status CheckExamples(const Batch& /*batch*/) const {
    return absl::OkStatus();
  }

  // Losses and metrics alone, as the model is used, not trained: nothing is
  // dropped, running statistics count. Fails as Step does.
  virtual absl::StatusOr<Metrics> Evaluate(WeightSpans weights,
                                           const Batch& batch) = 0;
  // The same where of sparse variables these rows are handed in, as they always
  // are where one is keyed. A model that has none need not have it.
  virtual absl::StatusOr<Metrics> EvaluateRows(WeightSpans weights,
                                               const Batch& batch,
                                               RowNumbers /*rows*/) {
    return Evaluate(weights, batch);
  }

  // Overwrites `out` with one column, "prediction", of the model's outputs, or
  // with one for each output that has a name: for a loss over classes their
  // probabilities. Fails as Step does.
  virtual absl::Status Predict(WeightSpans weights, const Batch& batch,
                               Batch* out) = 0;
  // As EvaluateRows.
  virtual absl::Status PredictRows(WeightSpans weights, const Batch& batch,
                                   RowNumbers /*rows*/, Batch* out) {
    return Predict(weights, batch, out);
  }

  virtual ModelCost cost() const = 0;

  // Names of what may be counted besides the loss, as Metrics::Values has them.
  virtual std::vector<std::string> metrics() const { return {}; }

  // What it computes on, so far as the bits of a step depend on that: "cpu", a
  // GPU's name.
  virtual std::string device() const { return "cpu"; }

  // The way to the device that it computes on, where that has memory of its
  // own; else null. Clones have others.
  virtual DeviceLink* link() { return nullptr; }

  // From now on the trace, which outlives it and its clones, is told what its
  // device does when.
  virtual void SetTrace(ChromeTrace* /*trace*/) {}

  // Since it was made. May be called on any thread.
  virtual LossScaling loss_scaling() const { return {}; }

  // Whether Evaluate says anything. If not, it is never called.
  virtual bool evaluates() const { return true; }

  // What only some models have, as a face of its own; null: this one has not.
  // May be called on any thread, and gives the same each time.
  virtual ReplicatedModel* replicated() { return nullptr; }
  virtual BroughtModel* brought() { return nullptr; }
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_TRAINED_MODEL_H_
