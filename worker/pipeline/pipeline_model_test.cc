#include "worker/pipeline/pipeline_model.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "worker/device/testing/test_device.h"
#include "worker/input/testing/random_batch.h"
#include "worker/model/network.h"
#include "worker/model/teachers.h"
#include "worker/pipeline/activation_budget.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<std::vector<float>>;  // By variable.

using PipelineModelTest = OnTestDevice;

const InputSpec kPictures = LabelledImages({6, 6}, 4);
const InputSpec kWords{
    {FeatureSpec{
         .name = "text", .dtype = DType::kInt32, .dims = {8}, .classes = 7},
     FeatureSpec{
         .name = "label", .dtype = DType::kInt32, .dims = {8}, .classes = 7}}};

const InputSpec kBoth{
    {FeatureSpec{.name = "numbers", .dims = {5}},
     FeatureSpec{
         .name = "words", .dtype = DType::kInt32, .dims = {3}, .classes = 7},
     FeatureSpec{
         .name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 4}}};

struct CutCase {
  std::string name;
  InputSpec input;
  std::string layers;
  // Layers of one name: the order of their sums is the pipeline's.
  bool shares = false;
};

// Eight layers at least, for as many stages.
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

Batch DrawnBatch(const InputSpec& input, uint64_t size, uint64_t seed = 7) {
  return RandomBatch(input, {.epoch = 2, .begin = 10, .end = 10 + size}, seed);
}

// A model's weights and gradients.
struct Memory {
  explicit Memory(const std::vector<v1::Variable>& variables) {
    RandomStream random(5);
    for (const v1::Variable& variable : variables) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      std::vector<float>& values = weights.emplace_back(size);
      for (float& value : values) value = random.Uniform() - 0.3f;
      gradients.emplace_back(size);
    }
  }
  std::vector<absl::Span<const float>> Weights() const {
    return {weights.begin(), weights.end()};
  }
  std::vector<absl::Span<float>> Gradients() {
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& one : gradients) {
      one.assign(one.size(), std::numeric_limits<float>::quiet_NaN());
      spans.push_back(absl::MakeSpan(one));
    }
    return spans;
  }
  void Move() {
    for (size_t v = 0; v < weights.size(); ++v) {
      for (size_t i = 0; i < weights[v].size(); ++i) {
        weights[v][i] -= 0.1f * gradients[v][i];
      }
    }
  }

  Values weights;
  Values gradients;
};

v1::PipelineConfig Pipeline(
    uint32_t stages, uint32_t micro_batches,
    v1::PipelineConfig::Schedule schedule = v1::PipelineConfig::SCHEDULE_1F1B,
    uint32_t stages_per_device = 1) {
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

// So many steps on batches of so many examples; what the last one gave.
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

// The same by a whole model, whose gradients are added over micro-batches.
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

struct Form {
  uint32_t stages;
  v1::PipelineConfig::Schedule schedule;
  uint32_t stages_per_device = 1;
};

std::vector<Form> Forms() {
  std::vector<Form> forms = {{1, v1::PipelineConfig::SCHEDULE_GPIPE},
                             {4, v1::PipelineConfig::SCHEDULE_INTERLEAVED, 2},
                             {8, v1::PipelineConfig::SCHEDULE_INTERLEAVED, 4},
                             {3, v1::PipelineConfig::SCHEDULE_INTERLEAVED, 3}};
  for (const uint32_t stages : {2, 4, 8}) {
    forms.push_back({stages, v1::PipelineConfig::SCHEDULE_NAIVE});
    forms.push_back({stages, v1::PipelineConfig::SCHEDULE_GPIPE});
    forms.push_back({stages, v1::PipelineConfig::SCHEDULE_1F1B});
    forms.push_back({stages, v1::PipelineConfig::SCHEDULE_ZERO_BUBBLE});
  }
  return forms;
}

// One that has learned something else, of the same outputs.
std::unique_ptr<Teachers> TeacherOf(const CutCase& one) {
  std::unique_ptr<NetworkPlan> plan = *PlanNetwork(ConfigOf(one), one.input);
  plan->temperature = 2;
  std::shared_ptr<TrainedModel> model =
      std::make_unique<Network>(std::move(plan), MakeTestDevice, "test");
  Memory memory(model->variables());
  for (std::vector<float>& values : memory.weights) {
    for (float& value : values) value = 0.7f - value;
  }
  const auto weights = std::make_shared<const Values>(memory.weights);
  return std::make_unique<Teachers>(
      std::vector<Teachers::Teacher>{{"a teacher", std::move(model), weights}},
      /*temperature=*/2, /*alpha=*/0.6);
}

TEST_F(PipelineModelTest, WithATeacherEachCutHasTheBitsOfAccumulating) {
  for (const CutCase& one : CutCases()) {
    if (one.shares) continue;
    SCOPED_TRACE(one.name);
    const auto network =
        *Network::Create(ConfigOf(one), one.input, MakeTestDevice);
    Memory alone(network->variables());
    TrainWhole(network.get(), one.input, 11, 3, 3, &alone);
    network->LearnFrom(TeacherOf(one));
    Memory whole(network->variables());
    TrainWhole(network.get(), one.input, 11, 3, 3, &whole);
    EXPECT_NE(whole.weights, alone.weights);
    for (const uint32_t stages : {1, 3}) {
      const auto model = CutModel(one, Pipeline(stages, 4));
      model->LearnFrom(TeacherOf(one));
      for (const auto& clone : {model->Clone(), model->CloneForReplica(1)}) {
        Memory memory(clone->variables());
        Train(clone.get(), one.input, 11, 3, &memory);
        EXPECT_EQ(memory.weights, whole.weights);
      }
    }
  }
}

// Steps of clones at the same time, on the same devices' threads.
TEST_F(PipelineModelTest, ConcurrentStepsHaveTheBitsOfOneAfterTheOther) {
  for (const CutCase& one : CutCases()) {
    SCOPED_TRACE(one.name);
    const auto model = CutModel(one, Pipeline(3, 4));
    Memory alone(model->variables());
    Train(model.get(), one.input, 11, 4, &alone);
    std::vector<std::unique_ptr<TrainedModel>> clones;
    std::vector<Memory> memories(3, Memory(model->variables()));
    std::vector<std::thread> threads;
    for (Memory& memory : memories) {
      clones.push_back(model->CloneForConcurrentSteps());
      threads.emplace_back([&one, &memory, clone = clones.back().get()] {
        Train(clone, one.input, 11, 4, &memory);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Memory& memory : memories) {
      EXPECT_EQ(memory.weights, alone.weights);
    }
  }
}

TEST_F(PipelineModelTest, AStepThatIsAbandonedEndsAloneBesideOthers) {
  const CutCase one = CutCases()[0];
  const auto model = CutModel(one, Pipeline(3, 4));
  Memory alone(model->variables());
  Train(model.get(), one.input, 11, 6, &alone);
  const auto dropped = model->CloneForConcurrentSteps();
  std::thread other([&] {
    Memory memory(dropped->variables());
    const std::atomic<bool> abandoned{true};
    for (int step = 0; step < 20; ++step) {
      EXPECT_TRUE(dropped
                      ->Step(memory.Weights(), DrawnBatch(one.input, 11),
                             {.divisor = 11, .abandoned = &abandoned},
                             memory.Gradients(),
                             [](size_t) { FAIL() << "none is ready"; })
                      .ok());
    }
  });
  Memory beside(model->variables());
  Train(model.get(), one.input, 11, 6, &beside);
  other.join();
  EXPECT_EQ(beside.weights, alone.weights);
}

TEST_F(PipelineModelTest, EachCutAndScheduleHasTheBitsOfAccumulating) {
  for (const CutCase& one : CutCases()) {
    const auto network =
        *Network::Create(ConfigOf(one), one.input, MakeTestDevice);
    // The last micro-batch is short: 3, 3, 3, 2.
    Memory whole(network->variables());
    if (!one.shares) TrainWhole(network.get(), one.input, 11, 3, 3, &whole);
    bool is_first = true;
    for (const Form& form : Forms()) {
      SCOPED_TRACE(
          absl::StrCat(one.name, ", ", form.stages, " stages, ",
                       v1::PipelineConfig::Schedule_Name(form.schedule), " x",
                       form.stages_per_device));
      const auto model = CutModel(
          one, Pipeline(form.stages, 4, form.schedule, form.stages_per_device));
      Memory memory(model->variables());
      const Metrics metrics = Train(model.get(), one.input, 11, 3, &memory);
      EXPECT_EQ(metrics.examples, 11u);
      EXPECT_TRUE(std::isfinite(metrics.loss_sum));
      if (one.shares && is_first) whole = memory;
      EXPECT_EQ(memory.weights, whole.weights);
      is_first = false;
    }
  }
}

TEST_F(PipelineModelTest, TheGradientOfASharedVariableIsOfAllItsUses) {
  const CutCase shared = CutCases().back();
  const auto network =
      *Network::Create(ConfigOf(shared), shared.input, MakeTestDevice);
  Memory whole(network->variables());
  TrainWhole(network.get(), shared.input, 8, 2, 1, &whole);
  const auto model = CutModel(shared, Pipeline(4, 4));
  Memory memory(model->variables());
  Train(model.get(), shared.input, 8, 1, &memory);
  for (size_t v = 0; v < whole.weights.size(); ++v) {
    for (size_t i = 0; i < whole.weights[v].size(); ++i) {
      EXPECT_NEAR(memory.gradients[v][i], whole.gradients[v][i],
                  1e-5 * (1 + std::abs(whole.gradients[v][i])));
    }
  }
}

TEST_F(PipelineModelTest, ItEvaluatesAndPredictsAsTheWholeModelDoes) {
  for (const CutCase& one : CutCases()) {
    SCOPED_TRACE(one.name);
    const auto network =
        *Network::Create(ConfigOf(one), one.input, MakeTestDevice);
    const Memory memory(network->variables());
    const Batch batch = DrawnBatch(one.input, 5);
    const Metrics whole = *network->Evaluate(memory.Weights(), batch);
    Batch whole_out;
    ASSERT_TRUE(network->Predict(memory.Weights(), batch, &whole_out).ok());
    for (const uint32_t stages : {1, 3, 8}) {
      const auto model = CutModel(one, Pipeline(stages, 2));
      const Metrics metrics = *model->Evaluate(memory.Weights(), batch);
      EXPECT_EQ(metrics.loss_sum, whole.loss_sum);
      EXPECT_EQ(metrics.examples, whole.examples);
      Batch out;
      ASSERT_TRUE(model->Predict(memory.Weights(), batch, &out).ok());
      EXPECT_EQ(out.columns[0].values<float>(),
                whole_out.columns[0].values<float>());
    }
  }
}

TEST_F(PipelineModelTest, ABatchMayHaveFewerExamplesThanThereAreParts) {
  const CutCase mlp = CutCases()[0];
  const auto model = CutModel(mlp, Pipeline(4, 8));
  const auto network =
      *Network::Create(ConfigOf(mlp), mlp.input, MakeTestDevice);
  for (const uint64_t examples : {1, 2, 5, 40}) {
    Memory memory(model->variables()), whole(model->variables());
    Train(model.get(), mlp.input, examples, 1, &memory);
    TrainWhole(network.get(), mlp.input, examples, (examples + 7) / 8, 1,
               &whole);
    EXPECT_EQ(memory.weights, whole.weights);
  }
  // One that a filter emptied.
  Memory memory(model->variables());
  std::vector<size_t> ready;
  ASSERT_TRUE(model
                  ->Step(memory.Weights(), DrawnBatch(mlp.input, 0), {},
                         memory.Gradients(),
                         [&](size_t v) { ready.push_back(v); })
                  .ok());
  EXPECT_EQ(ready.size(), memory.weights.size());
  for (const std::vector<float>& gradient : memory.gradients) {
    EXPECT_EQ(gradient, std::vector<float>(gradient.size(), 0));
  }
}

TEST_F(PipelineModelTest, EveryVariableIsReadyUnlessTheLossIsNotFinite) {
  const CutCase mlp = CutCases()[0];
  const auto model = CutModel(mlp, Pipeline(3, 4));
  Memory memory(model->variables());
  Batch batch = DrawnBatch(mlp.input, 8);
  std::vector<size_t> ready;
  const auto note = [&](size_t v) { ready.push_back(v); };
  ASSERT_TRUE(model
                  ->Step(memory.Weights(), batch, {.divisor = 8},
                         memory.Gradients(), note)
                  .ok());
  ASSERT_EQ(ready.size(), memory.weights.size());
  EXPECT_EQ(ready.front(), memory.weights.size() - 1);
  ready.clear();
  batch.columns[0].values<float>()[36 * 5] =
      std::numeric_limits<float>::quiet_NaN();
  const auto metrics = model->Step(memory.Weights(), batch, {.divisor = 8},
                                   memory.Gradients(), note);
  ASSERT_TRUE(metrics.ok());
  EXPECT_FALSE(std::isfinite(metrics->loss_sum));
  EXPECT_TRUE(ready.empty());
}

TEST_F(PipelineModelTest, AWrongExampleIsNamedAsOfAWholeModel) {
  const CutCase mlp = CutCases()[0];
  const auto model = CutModel(mlp, Pipeline(2, 4));
  Memory memory(model->variables());
  Batch batch = DrawnBatch(mlp.input, 8);
  batch.columns[1].values<int32_t>()[6] = 9;
  EXPECT_THAT(model
                  ->Step(memory.Weights(), batch, {.divisor = 8},
                         memory.Gradients(), [](size_t) {})
                  .status()
                  .message(),
              HasSubstr("example 6"));
}

TEST_F(PipelineModelTest, AStepThatIsAbandonedEnds) {
  const CutCase mlp = CutCases()[0];
  const auto model = CutModel(mlp, Pipeline(4, 8));
  Memory memory(model->variables());
  const std::atomic<bool> abandoned = true;
  EXPECT_TRUE(model
                  ->Step(memory.Weights(), DrawnBatch(mlp.input, 16),
                         {.divisor = 16, .abandoned = &abandoned},
                         memory.Gradients(), [](size_t) {})
                  .ok());
  // And the next one is as if it had not been.
  Memory fresh(model->variables());
  Train(model.get(), mlp.input, 11, 1, &memory);
  Train(CutModel(mlp, Pipeline(4, 8)).get(), mlp.input, 11, 1, &fresh);
  EXPECT_EQ(memory.weights, fresh.weights);
}

TEST_F(PipelineModelTest, ACloneComputesTheSame) {
  const CutCase cnn = CutCases()[1];
  const auto model = CutModel(cnn, Pipeline(3, 4));
  const auto clone = model->CloneForReplica(1);
  Memory memory(model->variables()), of_clone(model->variables());
  Train(model.get(), cnn.input, 11, 2, &memory);
  Train(clone.get(), cnn.input, 11, 2, &of_clone);
  EXPECT_EQ(memory.weights, of_clone.weights);
}

std::string Repeated(int times, const std::string& layers) {
  std::string all;
  for (int i = 0; i < times; ++i) all += layers;
  return all;
}

// So deep that less memory is needed if some layers are computed again.
std::vector<CutCase> DeepCases() {
  return {{"Mlp", kPictures,
           "layers { flatten {} }" + Repeated(10, R"(
               layers { dense { units: 36 } } layers { tanh {} })") +
               "layers { dense { units: 4 } }"},
          {"Cnn", kPictures,
           Repeated(5, R"(
               layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1
                                 padding: SAME } }
               layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
               layers { relu {} })") +
               "layers { flatten {} } layers { dense { units: 4 } }"},
          {"Gpt", kWords,
           "layers { embedding { width: 8 } } layers { positional_embedding {} "
           "}" +
               Repeated(6, R"(
               layers { residual {
                 layers { layer_norm { epsilon: 1e-5 } }
                 layers { attention { heads: 2 causal: true } }
                 layers { dropout { rate: 0.1 } } } }
               layers { residual { drop_rate: 0.2
                 layers { layer_norm { epsilon: 1e-5 } }
                 layers { dense { units: 16 } } layers { gelu {} }
                 layers { dense { units: 8 } } } })") +
               "layers { layer_norm { epsilon: 1e-5 } }"
               "layers { dense { units: 7 } }"}};
}

// A job in so many stages, or in one piece, with a budget.
v1::JobConfig JobWith(uint32_t stages, uint32_t micro_batches, uint64_t batch,
                      uint64_t budget) {
  v1::JobConfig job;
  *job.mutable_pipeline() = Pipeline(stages, micro_batches);
  job.set_batch_per_replica(static_cast<uint32_t>(batch));
  job.mutable_memory()->set_activation_budget_bytes(budget);
  return job;
}

struct Fitted {
  absl::Status status;
  std::shared_ptr<NetworkPlan> network;
  PipelinePlan pipeline;
};

Fitted FitTo(const CutCase& one, const v1::JobConfig& job) {
  Fitted fitted;
  fitted.network = *PlanNetwork(ConfigOf(one), one.input);
  fitted.pipeline = job.pipeline().stages() > 1
                        ? *PlanPipeline(job.pipeline(), *fitted.network)
                        : InOnePiece();
  fitted.status = FitActivations(job, MakeTestDevice()->activations(),
                                 fitted.network.get(), &fitted.pipeline);
  return fitted;
}

// The least with which the job fits.
uint64_t TightestBudget(const CutCase& one, v1::JobConfig job) {
  uint64_t too_little = 0;
  uint64_t enough = 1 << 24;
  while (too_little + 1 < enough) {
    const uint64_t middle = (too_little + enough) / 2;
    job.mutable_memory()->set_activation_budget_bytes(middle);
    (FitTo(one, job).status.ok() ? enough : too_little) = middle;
  }
  return enough;
}

TEST_F(PipelineModelTest, ABudgetChangesNoBit) {
  constexpr uint64_t kBatch = 11;
  for (const CutCase& one : DeepCases()) {
    const auto network =
        *Network::Create(ConfigOf(one), one.input, MakeTestDevice);
    Memory in_one(network->variables()), in_parts(network->variables());
    Train(network.get(), one.input, kBatch, 3, &in_one);
    TrainWhole(network.get(), one.input, kBatch, 3, 3, &in_parts);
    for (const uint32_t stages : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(one.name, " in ", stages));
      v1::JobConfig job = JobWith(stages, 4, kBatch, 0);
      const uint64_t least = TightestBudget(one, job);
      for (const uint64_t budget : {least, least + least / 8}) {
        job.mutable_memory()->set_activation_budget_bytes(budget);
        const Fitted fitted = FitTo(one, job);
        ASSERT_TRUE(fitted.status.ok()) << fitted.status;
        size_t ranges = 0;
        for (const auto& stage : fitted.network->chosen) {
          EXPECT_LE(stage.bytes, budget);
          ranges += stage.ranges.size();
        }
        ASSERT_EQ(fitted.network->chosen.size(), stages);
        if (budget == least) {
          EXPECT_GT(ranges, 0u);
        }
        if (stages == 2) {
          PipelineModel model(
              fitted.network, fitted.pipeline,
              std::vector<PipelineModel::MakeDevice>{MakeTestDevice}, "test");
          Memory memory(model.variables());
          Train(&model, one.input, kBatch, 3, &memory);
          EXPECT_EQ(memory.weights, in_parts.weights);
          continue;
        }
        Network model(fitted.network, MakeTestDevice, "test");
        Memory memory(model.variables()), accumulated(model.variables());
        Train(&model, one.input, kBatch, 3, &memory);
        EXPECT_EQ(memory.weights, in_one.weights);
        TrainWhole(&model, one.input, kBatch, 3, 3, &accumulated);
        EXPECT_EQ(accumulated.weights, in_parts.weights);
      }
    }
  }
}

TEST_F(PipelineModelTest, ABudgetIsKeptByWhatTheLayersOfEachStageAskFor) {
  const DType dtype = MakeTestDevice()->activations();
  std::vector<CutCase> cases = DeepCases();
  for (CutCase& one : CutCases()) cases.push_back(std::move(one));
  for (const CutCase& one : cases) {
    for (const uint32_t stages : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(one.name, " in ", stages));
      v1::JobConfig job = JobWith(stages, 4, 12, 0);
      job.mutable_memory()->set_activation_budget_bytes(
          TightestBudget(one, job));
      const Fitted fitted = FitTo(one, job);
      const Sequence& layers = *fitted.network->layers;
      const auto cut = *PlanNetwork(ConfigOf(one), one.input);
      const auto begins = stages == 1
                              ? std::vector<size_t>{0}
                              : PlanPipeline(job.pipeline(), *cut)->begins;
      uint64_t most = 0;
      for (size_t s = 0; s < stages; ++s) {
        const size_t begin = fitted.pipeline.begins[s];
        const size_t end =
            s + 1 < stages ? fitted.pipeline.begins[s + 1] : layers.size();
        // It has the variables that it had.
        EXPECT_EQ(layers.first_variable(begin),
                  cut->layers->first_variable(begins[s]));
        const auto stage = layers.Range(begin, end);
        const uint64_t examples = stages == 1 ? 12 : 3;
        const uint64_t live = stages - s;
        const uint64_t border =
            stage->output_size() + (s == 0 ? 0 : stage->input_size());
        const ChosenRecompute& chosen = fitted.network->chosen[s];
        EXPECT_EQ(chosen.live, live);
        EXPECT_EQ(chosen.examples, examples);
        EXPECT_EQ(chosen.bytes, live * (stage->KeptBytes(examples, dtype) +
                                        examples * border * SizeOf(dtype)) +
                                    stage->ScratchBytes(examples, dtype));
        most = std::max(most, chosen.bytes);
      }
      EXPECT_EQ(most, job.memory().activation_budget_bytes());
    }
  }
}

// The same as the job file would have it.
v1::ModelConfig ByHand(const CutCase& one, const ChosenRecompute& chosen) {
  const v1::ModelConfig config = ConfigOf(one);
  const auto network = *PlanNetwork(config, one.input);
  v1::ModelConfig by_hand = config;
  by_hand.clear_layers();
  auto next = chosen.ranges.begin();
  v1::Layer* recompute = nullptr;
  for (int i = 0; i < config.layers_size(); ++i) {
    const std::string& name =
        network->layers->layer(static_cast<size_t>(i)).name();
    if (next != chosen.ranges.end() && next->first == name) {
      recompute = by_hand.add_layers();
    }
    *(recompute == nullptr ? by_hand.add_layers()
                           : recompute->mutable_recompute()->add_layers()) =
        config.layers(i);
    if (next != chosen.ranges.end() && next->second == name) {
      recompute = nullptr;
      ++next;
    }
  }
  return by_hand;
}

TEST_F(PipelineModelTest, AChoiceIsThatOfAJobFileWithRecompute) {
  for (const CutCase& one : DeepCases()) {
    SCOPED_TRACE(one.name);
    v1::JobConfig job = JobWith(1, 1, 16, 0);
    job.mutable_memory()->set_activation_budget_bytes(TightestBudget(one, job));
    const Fitted fitted = FitTo(one, job);
    const auto by_hand =
        *PlanNetwork(ByHand(one, fitted.network->chosen[0]), one.input);
    for (const uint64_t examples : {1, 16}) {
      EXPECT_EQ(fitted.network->layers->KeptBytes(examples, DType::kFloat32),
                by_hand->layers->KeptBytes(examples, DType::kFloat32));
      EXPECT_EQ(fitted.network->layers->ScratchBytes(examples, DType::kFloat32),
                by_hand->layers->ScratchBytes(examples, DType::kFloat32));
    }
    EXPECT_EQ(fitted.network->cost().flops, by_hand->cost().flops);
    const auto without = *PlanNetwork(ConfigOf(one), one.input);
    EXPECT_EQ(fitted.network->cost().activation_bytes +
                  fitted.network->cost().saved_bytes,
              without->cost().activation_bytes);
  }
}

TEST_F(PipelineModelTest, ABudgetMovesTheStatisticsOfABatchNormOnce) {
  const CutCase cnn = DeepCases()[1];
  v1::JobConfig job = JobWith(1, 1, 11, 0);
  job.mutable_memory()->set_activation_budget_bytes(TightestBudget(cnn, job));
  Network model(FitTo(cnn, job).network, MakeTestDevice, "test");
  const auto without =
      *Network::Create(ConfigOf(cnn), cnn.input, MakeTestDevice);
  Memory memory(model.variables()), kept(model.variables());
  Train(&model, cnn.input, 11, 1, &memory);
  Train(without.get(), cnn.input, 11, 1, &kept);
  size_t statistics = 0;
  for (size_t v = 0; v < memory.gradients.size(); ++v) {
    if (!model.variables()[v].untrained()) continue;
    ++statistics;
    EXPECT_EQ(memory.gradients[v], kept.gradients[v]);
    EXPECT_NE(memory.gradients[v][0], 0);
  }
  EXPECT_EQ(statistics, 10u);
}

TEST_F(PipelineModelTest, ABudgetThatNothingFitsIsRefusedWithNumbers) {
  const CutCase mlp = DeepCases()[0];
  const auto refusal = [&](const v1::JobConfig& job) {
    const absl::Status status = FitTo(mlp, job).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  v1::JobConfig job = JobWith(1, 1, 16, 0);
  const uint64_t least = TightestBudget(mlp, job);
  job.mutable_memory()->set_activation_budget_bytes(least - 1);
  EXPECT_THAT(refusal(job), HasSubstr(absl::StrCat(
                                "memory.activation_budget_bytes is ", least - 1,
                                "; activations of 16 examples need ", least,
                                " at least, and ")));
  job.mutable_memory()->set_activation_budget_bytes(100);
  EXPECT_THAT(refusal(job), HasSubstr("alone, more than there is: give a "
                                      "smaller batch_per_replica"));
  EXPECT_THAT(refusal(JobWith(2, 4, 16, 100)),
              HasSubstr("leaves 100 to stage 0, which keeps 2 micro-batches at "
                        "once; activations of 4 examples need "));
}

TEST(PlanPipelineTest, StagesAreOfAboutEqualCostOrBeginWhereTheJobSays) {
  const auto network = *PlanNetwork(ConfigOf(CutCases()[0]), kPictures);
  v1::PipelineConfig config = Pipeline(2, 0);
  auto plan = PlanPipeline(config, *network);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // The first product is 36 x 12, the others 12 x 14, 14 x 10 and 10 x 4.
  EXPECT_THAT(plan->begins, ::testing::ElementsAre(0, 2));
  EXPECT_EQ(plan->micro_batches, 16u);
  EXPECT_EQ(PlanPipeline(Pipeline(3, 0), *network)->micro_batches, 16u);
  EXPECT_EQ(PlanPipeline(Pipeline(1, 0), *network)->micro_batches, 1u);
  config.add_begin_at(network->layers->layer(3).name());
  plan = PlanPipeline(config, *network);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->begins, ::testing::ElementsAre(0, 3));
}

TEST(PlanPipelineTest, WhatCannotBeCutSaysWhy) {
  const auto network = *PlanNetwork(ConfigOf(CutCases()[0]), kPictures);
  EXPECT_THAT(PlanPipeline(Pipeline(12, 0), *network).status().message(),
              HasSubstr("the model has 9 layers that can be cut"));
  v1::PipelineConfig config = Pipeline(3, 0);
  config.add_begin_at("dense_2");
  EXPECT_THAT(PlanPipeline(config, *network).status().message(),
              HasSubstr("which makes 2 stages; pipeline.stages is 3"));
  config.add_begin_at("dense_2");
  EXPECT_THAT(PlanPipeline(config, *network).status().message(),
              HasSubstr("none of that name after 'dense_2'"));
}

}  // namespace
}  // namespace paramd
