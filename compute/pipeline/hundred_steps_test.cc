#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"
#include "compute/pipeline/pipeline_model.h"
#include "compute/pipeline/testing/cut_cases.h"

namespace paramd {
namespace {

constexpr int kSteps = 100;
constexpr uint32_t kMicroBatches = 4;
// Of each replica in a step: micro-batches of 3, 3, 3 and 2.
constexpr uint64_t kExamples = 11;
constexpr uint64_t kOfMicroBatch = 3;

using HundredStepsTest = OnTestDevice;
using Schedule = v1::PipelineConfig;

// A replica's part of a batch, and where its gradients go.
void Compute(TrainedModel* model, const Memory& weights, const Batch& batch,
             uint32_t replicas, Memory* own) {
  ASSERT_TRUE(model
                  ->Step(weights.Weights(), batch,
                         {.divisor = static_cast<double>(replicas * kExamples),
                          .seed = 3},
                         own->Gradients(), [](size_t) {})
                  .ok());
}

void Add(const Values& from, Values* to) {
  for (size_t v = 0; v < from.size(); ++v) {
    for (size_t i = 0; i < from[v].size(); ++i) (*to)[v][i] += from[v][i];
  }
}

Batch PartOf(const Batch& batch, uint64_t begin, uint64_t end) {
  Batch part;
  part.CopyExamples(batch, begin, end);
  return part;
}

// The gradients of replicas are added, and move the weights a little.
void Move(const std::vector<Memory>& replicas, Memory* memory) {
  memory->gradients = replicas.front().gradients;
  for (size_t r = 1; r < replicas.size(); ++r) {
    Add(replicas[r].gradients, &memory->gradients);
  }
  for (size_t v = 0; v < memory->weights.size(); ++v) {
    for (size_t i = 0; i < memory->weights[v].size(); ++i) {
      memory->weights[v][i] -= 0.02f * memory->gradients[v][i];
    }
  }
}

// By a model in one piece: each replica's micro-batches are added first.
Values TrainedWhole(const CutCase& one, uint32_t replicas) {
  const auto network =
      *Network::Create(ConfigOf(one), one.input, MakeTestDevice);
  Memory memory(network->variables()), part(network->variables());
  std::vector<Memory> sums(replicas, Memory(network->variables()));
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = DrawnBatch(one.input, replicas * kExamples, step + 1);
    for (uint32_t r = 0; r < replicas; ++r) {
      const uint64_t first = r * kExamples;
      for (uint64_t i = 0; i < kExamples; i += kOfMicroBatch) {
        Compute(network.get(), memory,
                PartOf(batch, first + i,
                       first + std::min(i + kOfMicroBatch, kExamples)),
                replicas, &part);
        if (i == 0) {
          sums[r].gradients = part.gradients;
        } else {
          Add(part.gradients, &sums[r].gradients);
        }
      }
    }
    Move(sums, &memory);
  }
  return memory.weights;
}

// By replicas in stages, which compute at the same time.
Values TrainedInStages(const CutCase& one, const v1::PipelineConfig& pipeline,
                       uint32_t replicas) {
  std::vector<std::unique_ptr<TrainedModel>> models;
  models.push_back(CutModel(one, pipeline));
  for (uint32_t r = 1; r < replicas; ++r) {
    models.push_back(models.front()->replicated()->CloneForReplica(r));
  }
  Memory memory(models.front()->variables());
  std::vector<Memory> parts(replicas, memory);
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = DrawnBatch(one.input, replicas * kExamples, step + 1);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < replicas; ++r) {
      threads.emplace_back([&, r] {
        Compute(models[r].get(), memory,
                PartOf(batch, r * kExamples, (r + 1) * kExamples), replicas,
                &parts[r]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    Move(parts, &memory);
  }
  return memory.weights;
}

TEST_F(HundredStepsTest, EachCutScheduleAndNumberOfReplicasHasTheSameBits) {
  const CutCase one = CutCases().front();
  const struct {
    Schedule::Schedule schedule;
    uint32_t stages_per_device;
  } schedules[] = {
      {Schedule::SCHEDULE_NAIVE, 1},       {Schedule::SCHEDULE_GPIPE, 1},
      {Schedule::SCHEDULE_1F1B, 1},        {Schedule::SCHEDULE_ZERO_BUBBLE, 1},
      {Schedule::SCHEDULE_INTERLEAVED, 2}, {Schedule::SCHEDULE_INTERLEAVED, 4}};
  for (const uint32_t replicas : {1, 2}) {
    const Values whole = TrainedWhole(one, replicas);
    EXPECT_NE(whole,
              Memory(CutModel(one, Pipeline(1, 1))->variables()).weights);
    for (const std::vector<float>& values : whole) {
      for (const float value : values) ASSERT_TRUE(std::isfinite(value));
    }
    for (const auto& [schedule, of_each] : schedules) {
      for (const uint32_t stages : {1, 2, 4, 8}) {
        if (stages % of_each != 0) continue;
        SCOPED_TRACE(
            absl::StrCat(replicas, " replicas of ", stages, " stages, ",
                         Schedule::Schedule_Name(schedule), " x", of_each));
        EXPECT_EQ(TrainedInStages(
                      one, Pipeline(stages, kMicroBatches, schedule, of_each),
                      replicas),
                  whole);
      }
    }
  }
}

}  // namespace
}  // namespace paramd
