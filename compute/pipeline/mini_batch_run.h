#ifndef PARAMD_COMPUTE_PIPELINE_MINI_BATCH_RUN_H_
#define PARAMD_COMPUTE_PIPELINE_MINI_BATCH_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "compute/pipeline/schedule.h"
#include "compute/pipeline/stage_mail.h"
#include "tensor/buffer.h"

namespace paramd {

// A schedule that was proved, with transfers, and how many micro-batches each
// stage has to keep for it.
struct ProvenSchedule {
  PipelineSchedule schedule;
  std::vector<uint32_t> slots;
};

// The schedules of a model's batches, by their number of micro-batches: the
// last batch of an epoch may have fewer.
//
// Not thread-safe.
class ProvenSchedules {
 public:
  using Make =
      std::function<absl::StatusOr<PipelineSchedule>(uint32_t micro_batches)>;

  // `make`: without transfers.
  explicit ProvenSchedules(Make make) : make_(std::move(make)) {}

  // It stays until the end. Errors: those of `make`, and of CheckSchedule.
  absl::StatusOr<const ProvenSchedule*> For(uint32_t micro_batches);

 private:
  const Make make_;
  std::map<uint32_t, ProvenSchedule> made_;  // By number of micro-batches.
};

// What the stages of a model compute. Each method is called with the operation
// that it is of, on the thread of its stage's device. What a stage keeps of a
// micro-batch is in one of its slots, `micro_batch` modulo their number.
class StagePasses {
 public:
  // What came from other stages, by stage.
  using Received = std::map<uint32_t, Buffer>;

  virtual ~StagePasses() = default;

  // The forward pass. The first stage gets nothing, and reads the batch.
  virtual absl::Status Forward(const PipelineOp& op, size_t slot,
                               Received inputs) = 0;
  // What it has computed, for stage `op.peer`.
  virtual absl::StatusOr<Buffer> TakeOutput(const PipelineOp& op,
                                            size_t slot) = 0;
  // The backward pass, or of kBackwardInput the half of it that the stage
  // before waits for. The last stage gets nothing, and begins with its loss.
  // `adds`: the stage's sums of gradients have a micro-batch already, to which
  // this one is added; otherwise it is written over what they were.
  virtual absl::Status Backward(const PipelineOp& op, size_t slot,
                                Received output_gradients, bool adds) = 0;
  // The other half.
  virtual absl::Status BackwardVariables(const PipelineOp& op, size_t slot,
                                         bool adds) = 0;
  // The gradient of what stage `op.peer` gave, right after the backward pass.
  virtual absl::StatusOr<Buffer> TakeInputGradient(const PipelineOp& op,
                                                   size_t slot) = 0;
  // The sums have all micro-batches up to this one.
  virtual absl::Status Update(const PipelineOp& op) = 0;
};

// A mini-batch that stages compute, as a schedule says: what each operation
// waits for, what it gets from other stages, what it hands to them and in which
// slot, and whether its gradients are the first ones of a sum. It has no
// threads: whoever runs operations does those of one device one after the
// other, in their order, each when it is ready.
//
// Thread-safe between Begins, for operations of different devices.
class MiniBatchRun {
 public:
  // Nothing is left of the mini-batch before, which may have failed.
  // `scheduled` outlives this one.
  void Begin(const ProvenSchedule& scheduled);

  // Whether all that the operation needs has come.
  bool IsReady(const PipelineOp& op) const {
    return !IsReceived(op) || mail_.Has(StageMail::KeyOf(op));
  }
  // OK, or the error of `passes`. REQUIRES: IsReady.
  absl::Status Run(const PipelineOp& op, StagePasses* passes);

 private:
  struct Stage {
    // On the same device: what they give, and get, is not in the schedule.
    std::vector<uint32_t> before;
    std::vector<uint32_t> after;
    // For the next operation.
    StagePasses::Received inputs;
    StagePasses::Received output_gradients;
    uint32_t summed = 0;  // Micro-batches since the last update.
  };

  absl::Status Forward(const PipelineOp& op, size_t slot, StagePasses* passes);
  absl::Status Backward(const PipelineOp& op, size_t slot, StagePasses* passes);

  const ProvenSchedule* scheduled_ = nullptr;
  std::vector<Stage> stages_;
  StageMail mail_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_MINI_BATCH_RUN_H_
