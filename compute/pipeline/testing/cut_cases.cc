#include "compute/pipeline/testing/cut_cases.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network_plan.h"

namespace paramd {

const InputSpec kPictures = LabelledImages({6, 6}, 4);
const InputSpec kWords{
    {FeatureSpec{
         .name = "text", .dtype = DType::kInt32, .dims = {8}, .classes = 7},
     FeatureSpec{
         .name = "label", .dtype = DType::kInt32, .dims = {8}, .classes = 7}}};

namespace {

const InputSpec kBoth{
    {FeatureSpec{.name = "numbers", .dims = {5}},
     FeatureSpec{
         .name = "words", .dtype = DType::kInt32, .dims = {3}, .classes = 7},
     FeatureSpec{
         .name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 4}}};

}  // namespace

std::vector<CutCase> CutCases() {
  return {{"Mlp", kPictures, R"(
          layers { flatten {} } layers { dense { units: 12 } } layers { relu {} }
          layers { dense { units: 14 } } layers { gelu {} }
          layers { dropout { rate: 0.3 } } layers { dense { units: 10 } }
          layers { tanh {} } layers { dense { units: 4 } })"},
          {"Cnn", kPictures, R"(
          layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 } }
          layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
          layers { relu {} }
          layers { residual { drop_rate: 0.3
            layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
            layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1
                              padding: SAME } } } }
          layers { recompute { layers { max_pool { size: 2 stride: 2 } }
                               layers { relu {} } } }
          layers { flatten {} } layers { dense { units: 9 } }
          layers { sigmoid {} } layers { dense { units: 4 } })"},
          {"Gpt", kWords, R"(
          layers { embedding { width: 8 } } layers { positional_embedding {} }
          layers { dropout { rate: 0.1 } }
          layers { residual {
            layers { layer_norm { epsilon: 1e-5 } }
            layers { attention { heads: 2 causal: true } } } }
          layers { residual {
            layers { layer_norm { epsilon: 1e-5 } }
            layers { dense { units: 16 } } layers { gelu {} }
            layers { dense { units: 8 } } } }
          layers { layer_norm { epsilon: 1e-5 } } layers { relu {} }
          layers { dense { units: 7 } })"},
          {"Features", kBoth, R"(
          layers { parallel {
            branches { input: "numbers" layers { dense { units: 6 } } }
            branches { input: "words" layers { embedding { width: 3 } }
                       layers { flatten {} } } } }
          layers { relu {} } layers { dense { units: 8 } }
          layers { residual { layers { parallel {
            branches { layers { dense { units: 4 } } }
            branches { input: "numbers" layers { dense { units: 4 } } } } } } }
          layers { tanh {} } layers { dense { units: 6 } } layers { gelu {} }
          layers { dense { units: 4 } })"},
          {"Shared", kPictures, R"(
          layers { flatten {} } layers { dense { units: 12 name: "in" } }
          layers { tanh {} } layers { dense { units: 12 name: "again" } }
          layers { tanh {} } layers { dense { units: 12 name: "again" } }
          layers { sigmoid {} } layers { dense { units: 12 name: "again" } }
          layers { relu {} } layers { dense { units: 4 } })",
           /*shares=*/true}};
}

v1::ModelConfig ConfigOf(const CutCase& one) {
  v1::ModelConfig config;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(one.layers, &config))
      << one.layers;
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  return config;
}

Batch DrawnBatch(const InputSpec& input, uint64_t size, uint64_t seed) {
  return RandomBatch(input, {.epoch = 2, .begin = 10, .end = 10 + size}, seed);
}

Memory::Memory(const std::vector<v1::Variable>& variables) {
  RandomStream random(5);
  for (const v1::Variable& variable : variables) {
    size_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    std::vector<float>& values = weights.emplace_back(size);
    for (float& value : values) value = random.Uniform() - 0.3f;
    gradients.emplace_back(size);
  }
}

std::vector<absl::Span<float>> Memory::Gradients() {
  std::vector<absl::Span<float>> spans;
  for (std::vector<float>& one : gradients) {
    one.assign(one.size(), std::numeric_limits<float>::quiet_NaN());
    spans.push_back(absl::MakeSpan(one));
  }
  return spans;
}

void Memory::Move() {
  for (size_t v = 0; v < weights.size(); ++v) {
    for (size_t i = 0; i < weights[v].size(); ++i) {
      weights[v][i] -= 0.1f * gradients[v][i];
    }
  }
}

v1::PipelineConfig Pipeline(uint32_t stages, uint32_t micro_batches,
                            v1::PipelineConfig::Schedule schedule,
                            uint32_t stages_per_device) {
  v1::PipelineConfig config;
  config.set_stages(stages);
  config.set_micro_batches(micro_batches);
  config.set_schedule(schedule);
  config.set_stages_per_device(stages_per_device);
  return config;
}

std::unique_ptr<PipelineModel> CutModel(const CutCase& one,
                                        const v1::PipelineConfig& pipeline) {
  std::shared_ptr<const NetworkPlan> network =
      *PlanNetwork(ConfigOf(one), one.input);
  auto plan = PlanPipeline(pipeline, *network);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return std::make_unique<PipelineModel>(
      network, *std::move(plan),
      std::vector<PipelineModel::MakeDevice>{MakeTestDevice}, "test");
}

Metrics Train(TrainedModel* model, const InputSpec& input, uint64_t examples,
              int steps, Memory* memory) {
  Metrics metrics;
  for (int step = 0; step < steps; ++step) {
    const Batch batch = DrawnBatch(input, examples, step + 1);
    metrics =
        *model->Step(memory->Weights(), batch,
                     {.divisor = static_cast<double>(examples), .seed = 3},
                     memory->Gradients(), [](size_t) {});
    memory->Move();
  }
  return metrics;
}

void TrainWhole(TrainedModel* model, const InputSpec& input, uint64_t examples,
                uint64_t micro, int steps, Memory* memory) {
  Memory sum(model->variables());
  for (int step = 0; step < steps; ++step) {
    const Batch batch = DrawnBatch(input, examples, step + 1);
    for (uint64_t begin = 0; begin < examples; begin += micro) {
      Batch part;
      part.CopyExamples(batch, begin, std::min(begin + micro, examples));
      ASSERT_TRUE(
          model
              ->Step(memory->Weights(), part,
                     {.divisor = static_cast<double>(examples), .seed = 3},
                     memory->Gradients(), [](size_t) {})
              .ok());
      for (size_t v = 0; v < sum.gradients.size(); ++v) {
        if (begin == 0) {
          sum.gradients[v] = memory->gradients[v];
          continue;
        }
        for (size_t i = 0; i < sum.gradients[v].size(); ++i) {
          sum.gradients[v][i] += memory->gradients[v][i];
        }
      }
    }
    memory->gradients = sum.gradients;
    memory->Move();
  }
}

}  // namespace paramd
