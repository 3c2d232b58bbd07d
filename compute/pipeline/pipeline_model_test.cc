#include "compute/pipeline/pipeline_model.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"
#include "compute/model/teachers.h"
#include "compute/pipeline/testing/cut_cases.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

using PipelineModelTest = OnTestDevice;

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

TEST_F(PipelineModelTest, TheTimesOfEachPassOfAStepAreMeasured) {
  const CutCase mlp = CutCases()[0];
  const auto model =
      CutModel(mlp, Pipeline(3, 4, v1::PipelineConfig::SCHEDULE_ZERO_BUBBLE));
  PipelineModel::Measured measured;
  model->MeasureInto(&measured);
  Memory memory(model->variables());
  Train(model.get(), mlp.input, 11, 2, &memory);
  ASSERT_EQ(measured.size(), 3u);
  // The last step's; the first stage has no halves.
  EXPECT_EQ(measured[0].size(), 2u * 4);
  EXPECT_EQ(measured[1].size(), 3u * 4);
  EXPECT_EQ(measured[2].size(), 3u * 4);
  for (const auto& device : measured) {
    double last = device.front().begin;
    for (const Timeline::Span& span : device) {
      EXPECT_GE(span.begin, last);
      EXPECT_GE(span.end, span.begin);
      last = span.end;
    }
  }
  EXPECT_GT(TimelineOf(measured).makespan, 0);
  model->MeasureInto(nullptr);
  const auto before = measured[0].front().begin;
  Train(model.get(), mlp.input, 11, 1, &memory);
  EXPECT_EQ(measured[0].front().begin, before);
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
  const InputSpec pairs{
      {{"x", DType::kFloat32, {2, 4}}, {"item", DType::kInt64, {1}}}};
  v1::ModelConfig model;
  model.set_loss(v1::IN_BATCH_SOFTMAX);
  model.set_label("item");
  for (int i = 0; i < 2; ++i) {
    model.add_layers()->mutable_dense()->set_units(3);
  }
  EXPECT_EQ(
      PlanPipeline(Pipeline(2, 0), **PlanNetwork(model, pairs)).status(),
      absl::InvalidArgumentError(
          "a pipeline computes parts of a batch by themselves, but the loss "
          "in_batch_softmax compares an example with all of its batch"));
}

}  // namespace
}  // namespace paramd
