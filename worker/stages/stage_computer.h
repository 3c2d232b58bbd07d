#ifndef PARAMD_WORKER_STAGES_STAGE_COMPUTER_H_
#define PARAMD_WORKER_STAGES_STAGE_COMPUTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "compute/pipeline/stage_mail.h"
#include "input/batch.h"
#include "proto/paramd/v1/stage.pb.h"
#include "tensor/buffer.h"
#include "worker/model_factory.h"
#include "worker/stages/stage_content.h"

namespace paramd {

// The stages of one lane in a stage process: does the operations that the
// worker asks for, in their order.
//
// What comes is checked: an operation that does not fit the model, or what came
// before it, is INVALID_ARGUMENT or, if it may be since this process is new,
// UNAVAILABLE, and changes nothing. So is an integer that is no row of the
// table that it is looked up in. What it computes is as right as the worker's
// numbers, but it reads and writes memory of its own whatever they are.
//
// Not thread-safe: of the lane's thread. Errors besides are those of the
// device.
class StageComputer {
 public:
  // `name`: of the task, for sentences.
  StageComputer(std::string name, MakeStages make)
      : name_(std::move(name)), make_(std::move(make)) {}

  // `content`: ContentBytes of the operation's arrays. REQUIRES: its size is
  // that.
  absl::Status Compute(const v1::ComputeStageRequest& request,
                       const Buffer& content, v1::ComputeStageReply* reply,
                       BufferChain* result);

 private:
  // What is known of a micro-batch from its forward to its backward pass.
  struct Slot {
    bool is_forward = false;
    bool is_training = false;  // An evaluation keeps nothing to go back with.
    // Its input's gradient was taken, its variables' are not yet.
    bool is_half_back = false;
    uint64_t examples = 0;
    Buffer content;  // Features are read until the backward pass has ended.
  };
  struct Stage {
    PipelineStage* stage = nullptr;
    bool has_begun = false;
    bool has_gradients = false;  // They are placed.
    bool has_sums = false;       // Of a micro-batch at least.
    Buffer weights;
    std::vector<Dims> dims;  // Of the weights, by use.
    std::vector<Slot> slots;
    std::vector<Buffer> gradients;  // By use.
  };
  // An operation with all that it names.
  struct Work {
    const v1::StageOperation& operation;
    const std::vector<ConstTensor>& arrays;
    const Buffer& content;
    Stage* stage;
    v1::ComputeStageReply* reply;
    BufferChain* result;
  };

  absl::Status MakeFor(const v1::StageHeader& header,
                       const v1::StageOperation::Begin& begin);
  absl::StatusOr<Stage*> Find(uint32_t number);
  absl::Status Begin(const Work& work);
  absl::Status TakeWeights(const Work& work);
  absl::Status BeginStage(Stage* stage, uint32_t slots);
  absl::Status Forward(const Work& work);
  absl::Status CheckForward(const Work& work) const;
  absl::Status CheckArrays(const Work& work) const;
  // Whether this is what layers read of an input.
  absl::Status CheckInput(const Work& work, size_t input,
                          const ConstTensor& array) const;
  // Of this variable, if the stage uses it.
  static absl::optional<uint64_t> RowsOf(const NetworkPlan& network,
                                         const Stage& stage, size_t variable);
  // Whether an input's integers are rows of the tables that the stage has.
  absl::Status CheckRows(const Work& work, size_t input,
                         const ConstTensor& array) const;
  absl::Status Backward(const Work& work);
  absl::Status CheckBackward(const Work& work) const;
  absl::Status PlaceGradients(Stage* stage);
  static absl::Status Update(const Work& work);
  absl::Status Wrong(absl::string_view what) const;
  absl::Status NotHere(absl::string_view what) const;
  static absl::Status Give(Buffer border, DType dtype, const Dims& dims,
                           const Work& work);

  const std::string name_;
  const MakeStages make_;
  uint64_t incarnation_ = 0;  // Of the worker's process that it is made for.
  std::string features_;      // Likewise, as text.
  uint32_t device_ = 0;
  StagesOfDevice made_;
  std::map<uint32_t, Stage> stages_;
  std::vector<uint64_t> rows_;  // Zeros: what counts is how many there are.
  BorderMemory gradients_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_COMPUTER_H_
