#ifndef PARAMD_COMPUTE_PIPELINE_MODEL_STAGE_H_
#define PARAMD_COMPUTE_PIPELINE_MODEL_STAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/time.h"
#include "compute/device/device.h"
#include "compute/model/layer.h"
#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "tensor/buffer.h"

namespace paramd {

// One stage of a network that is cut: some layers of the top level that follow
// one another, wherever they are computed. Of each micro-batch under way it
// keeps what the backward pass needs in a slot; a slot is used again once that
// has ended.
//
// The gradient of a variable is the sum over micro-batches in the order of
// Backward. A variable of several layers has one for each of these uses: see
// NetworkPlan::shared.
//
// Not thread-safe: of the thread of its device. Errors are those of the device.
class ModelStage {
 public:
  virtual ~ModelStage() = default;

  // Its uses of variables: `uses()` of NetworkPlan::shared, from here on.
  virtual size_t first_use() const = 0;
  virtual size_t uses() const = 0;

  // A mini-batch begins, on these weights, in the order of the plan's
  // variables; nothing is left of the one before, which may have failed.
  // `rows`: see TrainedModel::StepOptions; empty but for training and where
  // they are handed in. At most `slots` micro-batches are under way.
  virtual absl::Status Begin(WeightSpans weights, RowNumbers rows,
                             size_t slots) = 0;

  // Runs the forward pass. `context` is that of the micro-batch, but for
  // device, dtype, offsets and inputs, which are set here. `inputs` is what
  // layers read of each feature (see InputOf), in host memory that stays until
  // the backward pass has ended; `input` is the TakeOutput of the stage before,
  // which the first one has not.
  virtual absl::Status Forward(size_t slot, const Layer::Context& context,
                               absl::Span<const uint64_t> offsets,
                               absl::Span<const ConstTensor> inputs,
                               Buffer input) = 0;
  // What Forward has computed, for the next stage.
  virtual absl::StatusOr<Buffer> TakeOutput(size_t slot) = 0;

  // Where the sums of the gradients go, one for each use, in host memory.
  // Before the first Backward of a mini-batch.
  virtual absl::Status PlaceGradients(
      std::vector<absl::Span<float>> gradients) = 0;
  // Runs the backward pass with the derivative by the output: that of the loss
  // in the last stage, or what the next stage's TakeInputGradient gave. `adds`:
  // to sums that have a micro-batch already; otherwise it is their first one.
  virtual absl::Status Backward(size_t slot, Buffer output_gradient,
                                bool adds) = 0;
  // The same in two halves: first what the stage before it waits for, then the
  // gradients of the variables.
  virtual absl::Status BackwardInput(size_t slot, Buffer output_gradient,
                                     bool adds) = 0;
  virtual absl::Status BackwardVariables(size_t slot, bool adds) = 0;
  // For the stage before it, the gradient of what that one gave.
  virtual absl::StatusOr<Buffer> TakeInputGradient() = 0;
  // The last Backward of the mini-batch has been called: the sums are where
  // they were wanted.
  virtual absl::Status TakeGradients() = 0;
};

// Which layers a stage is, and where.
struct StagePlace {
  uint32_t stage = 0;
  size_t begin = 0;  // Layers [begin, end) of the top level.
  size_t end = 0;
  uint32_t device = 0;
  // Of what stages hand each other.
  DType activations = DType::kFloat32;
};

// The stages of one model that other processes compute, any of which may be
// lost and come back. What is lost with it is the mini-batch under way, which
// is computed anew from its beginning.
//
// Thread safety: Begin and AwaitReturn while nothing is computed; the stages as
// a ModelStage.
class StageLane {
 public:
  virtual ~StageLane() = default;

  // `network` outlives the stage, and the lane too.
  virtual std::unique_ptr<ModelStage> MakeStage(
      std::shared_ptr<const NetworkPlan> network, const StagePlace& place) = 0;
  // A mini-batch is computed from now on, or again.
  virtual void Begin(const std::atomic<bool>* abandoned) = 0;
  // It was.
  virtual void Done() = 0;
  // It has failed `times` times, now with `why`, for the first time at `since`.
  // OK, after a while: it may be begun again. `why`, if that is of no use;
  // UNAVAILABLE, naming who is missing, if it has been waited for too long.
  virtual absl::Status AwaitReturn(const absl::Status& why, uint64_t times,
                                   Time since) = 0;
};

// Other processes that compute stages for this one. Thread-safe.
class StagesElsewhere {
 public:
  virtual ~StagesElsewhere() = default;

  // The first so many devices of a pipeline; never all.
  virtual uint32_t devices() const = 0;
  // For one more copy of the model. This outlives it.
  virtual std::unique_ptr<StageLane> OpenLane() = 0;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_MODEL_STAGE_H_
