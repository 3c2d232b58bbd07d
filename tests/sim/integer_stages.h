#ifndef PARAMD_TESTS_SIM_INTEGER_STAGES_H_
#define PARAMD_TESTS_SIM_INTEGER_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "compute/pipeline/mini_batch_run.h"
#include "compute/pipeline/schedule.h"

namespace paramd {

// What a pipeline trains in the simulator: stages that compute with integers
// modulo a prime, so that each gradient is known exactly. Stage s gives
//
//   y = a x + t + s + 1 + the sum over its skips of (2 + r) y_r
//
// where x is what the stage before gave, and a skip comes from stage r. Every
// stage has an `a` of its own; those that are tied have one `t` together, the
// others none. The loss is y^2 + label y, with the y of the last stage.
struct IntegerNet {
  uint32_t stages = 1;
  std::vector<PipelineSkip> skips;
  // Of each use which variable it is of, and of each stage its first use, then
  // the number of all. A stage that is tied uses `t`, then its `a`.
  std::vector<size_t> variables;
  std::vector<size_t> first_use;
  size_t variable_count = 0;

  bool IsTied(uint32_t stage) const {
    return first_use[stage + 1] - first_use[stage] == 2;
  }
};

// `tied`: in ascending order.
IntegerNet MakeIntegerNet(uint32_t stages, std::vector<PipelineSkip> skips,
                          const std::vector<uint32_t>& tied);

// What is drawn of a batch.
struct IntegerBatch {
  uint64_t seed = 0;
  uint64_t number = 0;
  uint32_t micro_batches = 1;

  int64_t Input(uint32_t micro_batch) const;
  int64_t Label(uint32_t micro_batch) const;
  // The last one may be short.
  uint32_t Examples(uint32_t micro_batch) const;
};

// By use.
using IntegerWeights = std::vector<int64_t>;

// `number` modulo the prime.
int64_t Residue(int64_t number);

// What one micro-batch adds: to the gradient of each use, and of each stage to
// a statistic as that of batch norm, which counts by example.
struct IntegerShare {
  std::vector<int64_t> gradients;
  std::vector<int64_t> statistics;
};

// The witness: one stage after the other. `weights` is what each stage reads.
IntegerShare ShareOf(const IntegerNet& net, const IntegerBatch& batch,
                     uint32_t micro_batch, const IntegerWeights& weights);

// The stages as a MiniBatchRun runs them, with as much memory as the schedule
// says that they need: slots, and versions of their weights. They say what is
// wrong where they are not called as StagePasses has it, and then go on.
class IntegerStages : public StagePasses {
 public:
  // What an update had.
  struct Taken {
    std::vector<int64_t> sums;  // Of the stage's uses.
    int64_t statistic = 0;
    uint32_t micro_batches = 0;
  };

  explicit IntegerStages(const IntegerNet& net) : net_(net) {}

  // A mini-batch begins. `versions` is PipelineNeeds::versions. `wanted` is
  // where the sums of the one update go, by use; if it is empty, each update
  // changes the weights of its stage.
  void Begin(const ProvenSchedule& scheduled, std::vector<uint32_t> versions,
             const IntegerBatch& batch, const IntegerWeights& weights,
             std::vector<absl::Span<float>> wanted);

  absl::Status Forward(const PipelineOp& op, size_t slot,
                       Received inputs) override;
  absl::StatusOr<Buffer> TakeOutput(const PipelineOp& op, size_t slot) override;
  absl::Status Backward(const PipelineOp& op, size_t slot,
                        Received output_gradients, bool adds) override;
  absl::Status BackwardVariables(const PipelineOp& op, size_t slot,
                                 bool adds) override;
  absl::StatusOr<Buffer> TakeInputGradient(const PipelineOp& op,
                                           size_t slot) override;
  absl::Status Update(const PipelineOp& op) override;

  // Of the updates of a stage, one after the other.
  const std::vector<Taken>& taken(uint32_t stage) const {
    return stages_[stage].taken;
  }
  // The first thing that was wrong; empty: nothing.
  const std::string& wrong() const { return wrong_; }

 private:
  struct Slot {
    bool busy = false;
    uint32_t micro_batch = 0;
    uint32_t version = 0;
    int64_t input = 0;
    int64_t output = 0;
    int64_t gradient = 0;  // Of the output.
  };
  struct Stage {
    std::vector<Slot> slots;
    std::map<uint32_t, IntegerWeights> versions;  // Of its own uses.
    uint32_t room = 1;                            // For so many of them.
    std::vector<uint32_t> reads;  // The version, by micro-batch.
    uint32_t done = 0;            // Micro-batches that have passed.
    Slot handed;                  // The last one that came back.
    Taken sums;
    std::vector<Taken> taken;
  };

  void Wrong(const PipelineOp& op, absl::string_view what);
  Slot& SlotOf(const PipelineOp& op, size_t slot);
  const IntegerWeights& WeightsOf(const PipelineOp& op, uint32_t version);
  // What came of the stages that are to have sent, each times its factor.
  int64_t SumOf(const PipelineOp& op, const Received& received, bool gradient);
  void AddGradients(const PipelineOp& op, Slot* slot, bool adds);

  const IntegerNet& net_;
  IntegerBatch batch_;
  std::vector<absl::Span<float>> wanted_;
  std::vector<Stage> stages_;
  std::string wrong_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INTEGER_STAGES_H_
