#ifndef PARAMD_TESTS_SIM_STAGED_INTEGERS_H_
#define PARAMD_TESTS_SIM_STAGED_INTEGERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/stage.pb.h"
#include "tensor/buffer.h"
#include "tensor/outbox.h"
#include "worker/stages/stage_content.h"

namespace paramd {

// A model in stages that processes compute: each multiplies by the sum of its
// weights, modulo a prime. What one hands to the next are some numbers, so that
// all that travels has several pieces.

using Numbers = std::vector<int64_t>;
using StagedWeights = std::vector<std::vector<float>>;  // By stage.

struct StagedNet {
  uint32_t stages = 2;
  uint32_t width = 1;    // Numbers that a stage hands to the next.
  uint32_t weights = 1;  // Of each stage.
};

// Drawn from seed and number.
struct StagedBatch {
  uint64_t seed = 0;
  uint64_t number = 0;
  uint32_t micro_batches = 1;

  Numbers Input(uint32_t micro_batch, uint32_t width) const;
  int64_t Label(uint32_t micro_batch) const;
};

Numbers StageOutput(uint32_t stage, absl::Span<const float> weights,
                    const Numbers& input);
Numbers LossGradient(const Numbers& output, int64_t label);
Numbers StageInputGradient(absl::Span<const float> weights,
                           const Numbers& gradient);
// Of an output whose gradient is `gradient`, to the sums by weight.
void AddStageGradient(const Numbers& input, const Numbers& gradient,
                      std::vector<float>* sums);

// What one process computes, one stage and one micro-batch after the other.
struct StagedAnswers {
  std::vector<std::vector<Numbers>> outputs;  // By stage and micro-batch.
  std::vector<std::vector<Numbers>> input_gradients;
  StagedWeights sums;
};
StagedAnswers AnswersOf(const StagedNet& net, const StagedBatch& batch,
                        const StagedWeights& weights);

// What a lane of a stage process computes with.
//
// Not thread-safe.
class StagedComputer {
 public:
  // The work of a StageCore. Sets `*wrong` if it is asked for what makes no
  // sense, and nothing is there already.
  IoResult Compute(const v1::ComputeStageRequest& request,
                   const BufferChain& content, std::string* wrong);

 private:
  struct Slot {
    Numbers input;
    Numbers gradient;  // Of the output, once there is one.
  };
  struct Stage {
    std::vector<float> weights;
    std::map<uint32_t, Slot> slots;  // That are in use.
    std::vector<float> sums;
  };

  std::string Begin(const v1::StageOperation& operation,
                    absl::Span<const ConstTensor> arrays);
  std::string Forward(const v1::StageOperation& operation,
                      absl::Span<const ConstTensor> arrays,
                      v1::ComputeStageReply* reply, BufferChain* payload);
  std::string Backward(const v1::StageOperation& operation,
                       absl::Span<const ConstTensor> arrays,
                       v1::ComputeStageReply* reply, BufferChain* payload);

  std::map<uint32_t, Stage> stages_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_STAGED_INTEGERS_H_
