#ifndef PARAMD_COMPUTE_PIPELINE_TESTING_CUT_CASES_H_
#define PARAMD_COMPUTE_PIPELINE_TESTING_CUT_CASES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "compute/model/trained_model.h"
#include "compute/pipeline/pipeline_model.h"
#include "input/testing/random_batch.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// Models to be cut, whole and in stages, and steps of both, on the test device.

extern const InputSpec kPictures;
extern const InputSpec kWords;

struct CutCase {
  std::string name;
  InputSpec input;
  std::string layers;  // Of a ModelConfig, as text.
  // Layers of one name: the order of their sums is the pipeline's.
  bool shares = false;
};

// Eight layers at least, for as many stages.
std::vector<CutCase> CutCases();
v1::ModelConfig ConfigOf(const CutCase& one);

Batch DrawnBatch(const InputSpec& input, uint64_t size, uint64_t seed = 7);

using Values = std::vector<std::vector<float>>;  // By variable.

// A model's weights and gradients.
struct Memory {
  explicit Memory(const std::vector<v1::Variable>& variables);

  std::vector<absl::Span<const float>> Weights() const {
    return {weights.begin(), weights.end()};
  }
  // All NaN.
  std::vector<absl::Span<float>> Gradients();
  // Weights change by a tenth of the gradients.
  void Move();

  Values weights;
  Values gradients;
};

v1::PipelineConfig Pipeline(
    uint32_t stages, uint32_t micro_batches,
    v1::PipelineConfig::Schedule schedule = v1::PipelineConfig::SCHEDULE_1F1B,
    uint32_t stages_per_device = 1);

std::unique_ptr<PipelineModel> CutModel(const CutCase& one,
                                        const v1::PipelineConfig& pipeline);

// So many steps on batches of so many examples; what the last one gave.
Metrics Train(TrainedModel* model, const InputSpec& input, uint64_t examples,
              int steps, Memory* memory);

// The same by a whole model, whose gradients are added over micro-batches.
void TrainWhole(TrainedModel* model, const InputSpec& input, uint64_t examples,
                uint64_t micro, int steps, Memory* memory);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_TESTING_CUT_CASES_H_
