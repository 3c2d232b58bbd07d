#ifndef PARAMD_COMPUTE_PIPELINE_CUT_H_
#define PARAMD_COMPUTE_PIPELINE_CUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "compute/pipeline/device_threads.h"
#include "compute/pipeline/mini_batch_run.h"
#include "tensor/buffer.h"

namespace paramd {

// A stage of a model that a program computes itself: some of its layers, with
// the memory of what they keep. All calls are on one thread, that of the
// stage's device; each micro-batch comes forward before it comes back, and
// micro-batches come in order both ways, whatever the schedule.
class CutStage {
 public:
  virtual ~CutStage() = default;

  // Computes the output of a micro-batch, for the next stage, and keeps what
  // the backward pass needs. `input` is what the stage before gave; the first
  // stage gets none, and reads the batch. What the last one gives is dropped:
  // it computes the loss.
  virtual absl::StatusOr<Buffer> Forward(uint32_t micro_batch,
                                         Buffer input) = 0;
  // Computes the gradient of its input, for the stage before; what the first
  // one gives is dropped. `output_gradient` is what the next stage gave; the
  // last one gets none, and begins with its loss.
  virtual absl::StatusOr<Buffer> Backward(uint32_t micro_batch,
                                          Buffer output_gradient) = 0;
  // Adds the gradients of its variables to their sums, some time after
  // Backward of the same micro-batch, and keeps nothing of that any more. A
  // stage that can't separate the two does this in Backward.
  virtual absl::Status AddGradients(uint32_t /*micro_batch*/) {
    return absl::OkStatus();
  }
};

// The model of a program, cut into stages that compute different micro-batches
// of a batch at the same time, each on a thread of its device:
//
//   std::vector<std::unique_ptr<CutStage>> stages = ...;
//   ASSIGN_OR_RETURN(auto cut, Cut::Create("1f1b", std::move(stages)));
//   ...  // For each batch of ProgramWorker::Next, which the stages are told:
//   RETURN_IF_ERROR(cut->Step(/*micro_batches=*/16));
//   // The sums of all stages are complete.
//
// A stage's sums are in the order of micro-batches, so their bits are those of
// a loop over micro-batches and stages, whatever the schedule and however many
// stages there are. How many micro-batches a stage keeps follows from the
// schedule (PipelineNeeds::live). What stages hand each other is not copied.
//
// Not thread-safe.
class Cut {
 public:
  // The schedule as ScheduleByName has it: one with a flush. There is a device,
  // with a thread, for each stage, or of "interleaved" for `stages_per_device`
  // of them. INVALID_ARGUMENT, a sentence, where ScheduleByName has it, and if
  // there is no stage.
  static absl::StatusOr<std::unique_ptr<Cut>> Create(
      std::string schedule, std::vector<std::unique_ptr<CutStage>> stages,
      uint32_t stages_per_device = 1);

  // Has each stage compute each micro-batch forward and backward; a batch that
  // is smaller may have fewer. OK, or the first error of a stage, after which
  // no stage is called any more and sums are of no use; the next step may be
  // tried. INVALID_ARGUMENT if `micro_batches` is none that a schedule can
  // have.
  absl::Status Step(uint32_t micro_batches);

 private:
  class Passes;

  Cut(std::string schedule, std::vector<std::unique_ptr<CutStage>> stages,
      uint32_t stages_per_device);

  const std::vector<std::unique_ptr<CutStage>> stages_;
  ProvenSchedules schedules_;
  MiniBatchRun run_;
  DeviceThreads threads_;  // Last: nothing is gone while they run.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_CUT_H_
