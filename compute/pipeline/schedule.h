#ifndef PARAMD_COMPUTE_PIPELINE_SCHEDULE_H_
#define PARAMD_COMPUTE_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace paramd {

// One thing that a device does. A model is cut into stages, a mini-batch into
// micro-batches; both count from 0.
struct PipelineOp {
  enum class Kind : uint8_t {
    kForward,
    // The gradients of the stage's input and of its variables, ...
    kBackward,
    // ... or each by itself: the stage before waits for the first alone.
    kBackwardInput,
    kBackwardWeights,
    // The stage's weights change by the gradients since its last update.
    kUpdate,
    // Of the output of `stage`, and of the gradient of its input.
    kSendActivation,
    kReceiveActivation,
    kSendGradient,
    kReceiveGradient,
  };

  Kind kind = Kind::kForward;
  uint32_t stage = 0;
  uint32_t micro_batch = 0;  // Of an update: the last one before it.
  // Of what is sent and received: the stage at the other end.
  uint32_t peer = 0;
  // Of a forward pass: how many updates there are in the weights that it
  // reads. The backward pass of its micro-batch reads the same.
  uint32_t version = 0;

  friend bool operator==(const PipelineOp& a, const PipelineOp& b) {
    return a.kind == b.kind && a.stage == b.stage &&
           a.micro_batch == b.micro_batch && a.peer == b.peer &&
           a.version == b.version;
  }
};

inline bool IsReceived(const PipelineOp& op) {
  return op.kind == PipelineOp::Kind::kReceiveActivation ||
         op.kind == PipelineOp::Kind::kReceiveGradient;
}

// "forward of micro-batch 3 on stage 1"
std::string TextOf(const PipelineOp& op);

// A stage that reads the output of one that is not the one before it, besides.
struct PipelineSkip {
  uint32_t from = 0;
  uint32_t to = 0;
};

// What each device of a pipeline does, in order. There is one kind of pipeline:
// what tells GPipe from 1F1B is this list, and one executor runs any of them.
// A stage computes its gradients in the order of micro-batches, whatever the
// schedule, so that their sum has the same bits.
struct PipelineSchedule {
  uint32_t stages = 1;
  uint32_t micro_batches = 1;
  // Stage s is on device s modulo their number.
  std::vector<std::vector<PipelineOp>> devices;
  std::vector<PipelineSkip> skips;

  uint32_t DeviceOf(uint32_t stage) const {
    return stage % static_cast<uint32_t>(devices.size());
  }
};

// Calls `f` with each two stages of which the second reads the output of the
// first: those that follow each other, then what skips.
void ForEachEdge(const PipelineSchedule& schedule,
                 absl::FunctionRef<void(uint32_t from, uint32_t to)> f);

// In what follows there is one device for each stage, and at the end of the
// mini-batch one update (a flush) unless it says otherwise. REQUIRES: no
// argument is 0.

// One stage computes at a time: model parallelism without a pipeline.
PipelineSchedule NaiveSchedule(uint32_t stages, uint32_t micro_batches);

// All micro-batches forward, then all backward (Huang et al., NeurIPS 2019).
PipelineSchedule GpipeSchedule(uint32_t stages, uint32_t micro_batches);

// One forward, one backward: stage s holds at most `stages` - s micro-batches
// (Narayanan et al., SC 2021, PipeDream-Flush).
PipelineSchedule OneForwardOneBackward(uint32_t stages, uint32_t micro_batches);

// The same where each of `devices` has `chunks` stages, not next to each other:
// the bubble is that many times shorter, with that many times the messages
// (Narayanan et al., SC 2021, section 2.2).
PipelineSchedule InterleavedSchedule(uint32_t devices, uint32_t chunks,
                                     uint32_t micro_batches);

// ZB-H1: gradients of variables fill what 1F1B leaves idle, at its memory (Qi
// et al., ICLR 2024).
PipelineSchedule ZeroBubbleSchedule(uint32_t stages, uint32_t micro_batches);

// 1F1B without a flush: each micro-batch, here a mini-batch, is an update, and
// stage s computes with the newest weights that it has, which lack the last
// `stages` - s - 1 updates; it keeps `stages` - s versions (Narayanan et al.,
// SOSP 2019). `micro_batches` is the length of the run. `vertical_sync`: all
// stages use the version that the first one does, and keep as many.
PipelineSchedule PipeDreamSchedule(uint32_t stages, uint32_t micro_batches,
                                   bool vertical_sync = false);

// The same with an update after each `per_update` micro-batches, computed with
// the weights before the last update: two versions on every stage, and one
// delay for all (PipeDream-2BW, Narayanan et al., ICML 2021). REQUIRES:
// per_update >= stages.
PipelineSchedule TwoBufferedWeights(uint32_t stages, uint32_t micro_batches,
                                    uint32_t per_update);

// The schedule with what its devices send each other, each after what computes
// it, and received just before it is needed. What crosses a skip goes straight
// from one stage to the other. REQUIRES: skips go forward; nothing is sent yet.
PipelineSchedule WithTransfers(PipelineSchedule schedule);

// What a sound schedule needs of each stage.
struct PipelineNeeds {
  // Most micro-batches whose activations are kept at once: from the forward
  // pass to the gradients of variables.
  std::vector<uint32_t> live;
  // Most micro-batches whose backward pass is half done at once.
  std::vector<uint32_t> deferred;
  // Most versions of the weights that are kept at once: the newest, and those
  // that a micro-batch under way or a later forward pass reads.
  std::vector<uint32_t> versions;
};

// Proves a schedule. Each micro-batch passes each stage once forward and once
// backward, in order, after what it needs, and with weights that are there;
// all stages update after the same micro-batches; what is sent is received; and
// with at most `credit` messages under way from one stage to another nobody
// waits for ever. INVALID_ARGUMENT, naming the first thing that is wrong.
absl::StatusOr<PipelineNeeds> CheckSchedule(const PipelineSchedule& schedule,
                                            uint32_t credit = 1);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_SCHEDULE_H_
