// Replicas whose devices, with a memory and a time of their own, sum gradients.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "base/chrome_trace.h"
#include "base/random.h"
#include "compute/device/cpu_device.h"
#include "compute/device/testing/emulated_device.h"
#include "compute/device/testing/emulated_kernels.h"
#include "compute/model/network.h"
#include "worker/replica_steps.h"

namespace paramd {
namespace {

constexpr uint64_t kBatch = 5;
const InputSpec kInput = LabelledImages({6, 6}, 4);

v1::JobConfig JobOf(uint32_t replicas) {
  v1::JobConfig job;
  // Two uses of one variable would need more; each layer that keeps something.
  CHECK(google::protobuf::TextFormat::ParseFromString(
            R"(strategy: CENTRAL_STORAGE accumulate: 1 seed: 3
               all_reduce { bucket_bytes: 500 }
               model {
                 layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1
                                   bias: true } }
                 layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
                 layers { relu {} } layers { flatten {} }
                 layers { dense { units: 12 } } layers { gelu {} }
                 layers { dropout { rate: 0.3 } }
                 layers { dense { units: 4 } } loss: SOFTMAX_CROSS_ENTROPY })",
            &job),
        "the test's job is read");
  job.set_batch_per_replica(kBatch);
  job.set_replicas(replicas);
  return job;
}

// Of these examples; each is a function of its place.
std::unique_ptr<Batch> MakeBatch(const Portion& range, uint64_t left_out) {
  auto batch = std::make_unique<Batch>();
  const uint64_t size = range.size() - left_out;
  batch->Reset(kInput, size);
  batch->range = range;
  RandomStream random(range.begin);
  for (float& value : batch->Find("image")->values<float>()) {
    value = random.Uniform();
  }
  for (int32_t& label : batch->Find("label")->values<int32_t>()) {
    label = static_cast<int32_t>(random.Below(4));
  }
  return batch;
}

// Weights, and what steps on them give. Of one thread.
class Trainer {
 public:
  explicit Trainer(const std::vector<v1::Variable>& variables) {
    RandomStream random(5);
    for (const v1::Variable& variable : variables) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      weights_.emplace_back(size);
      for (float& weight : weights_.back()) weight = random.Uniform() - 0.3f;
      gradients_.emplace_back(size, 0.0f);
    }
  }

  // The step of `examples` from `begin` on.
  absl::StatusOr<Metrics> Step(ReplicaSteps* steps, uint64_t begin,
                               uint64_t examples,
                               std::vector<uint32_t> shares) {
    v1::ComputeGradient request;
    request.set_epoch(1);
    request.set_begin(begin);
    request.set_end(begin + examples);
    request.set_divide_by(divides ? examples : 0);
    StepWeights weights;
    for (const auto& one : weights_) weights.values.emplace_back(one);
    std::vector<absl::Span<float>> spans;
    for (auto& one : gradients_) {
      std::fill(one.begin(), one.end(), 9.0f);
      spans.push_back(absl::MakeSpan(one));
    }
    const ReplicaSteps::Source source = {
        .take = [&](const Portion& range)
            -> absl::StatusOr<std::unique_ptr<Batch>> {
          const auto found = left_out.find(range.begin);
          auto batch =
              MakeBatch(range, found == left_out.end() ? 0 : found->second);
          if (range.begin == broken) {
            batch->Find("label")->values<int32_t>()[0] = 77;
          }
          return batch;
        },
        .recycle = [](std::unique_ptr<Batch>) {}};
    ReplicaSteps::Source with_next = source;
    if (next != nullptr) with_next.peek = [this](size_t) { return next.get(); };
    ready = 0;
    return steps->Compute(request, shares, weights, with_next, &abandoned,
                          spans, [&](size_t) { ++ready; });
  }

  // As a server would.
  void Move() {
    for (size_t v = 0; v < weights_.size(); ++v) {
      for (size_t i = 0; i < weights_[v].size(); ++i) {
        weights_[v][i] -= 0.01f * gradients_[v][i];
      }
    }
  }

  const std::vector<std::vector<float>>& gradients() const {
    return gradients_;
  }

  std::map<uint64_t, uint64_t> left_out;  // Of the batch that begins there.
  uint64_t broken = 1000000;              // The batch that begins there.
  bool divides = true;                    // As sync mode does.
  std::unique_ptr<Batch> next;            // What is said to come next.
  std::atomic<bool> abandoned{false};
  std::atomic<size_t> ready{0};

 private:
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<float>> gradients_;
};

// Replicas of one process, on devices of their own or all on the processor.
class Replicas {
 public:
  explicit Replicas(uint32_t count,
                    ComputeFormat format = ComputeFormat::kFp32) {
    const v1::JobConfig job = JobOf(count);
    model_ = *Network::Create(job.model(), kInput, [format] {
      auto device = std::make_unique<CpuDevice>();
      device->SetComputeFormat(format);
      return device;
    });
    steps_ = std::make_unique<ReplicaSteps>(job, count, model_.get());
    trainer = std::make_unique<Trainer>(model_->variables());
    for (uint32_t r = 0; r < count; ++r) shares_.push_back(r);
  }
  // `kernels`: as a GPU has them, so that each primitive allocates what it
  // needs, and of a model whose backward pass needs more than its forward pass.
  explicit Replicas(const std::vector<EmulatedAccelerator::Options>& options,
                    ComputeFormat format = ComputeFormat::kFp32,
                    bool kernels = false, ChromeTrace* trace = nullptr)
      : accelerators(options.size()) {
    v1::JobConfig job = JobOf(static_cast<uint32_t>(options.size()));
    if (kernels) {
      job.mutable_model()->mutable_layers(4)->mutable_dense()->set_units(1000);
    }
    std::vector<Network::MakeDevice> makers;
    for (size_t r = 0; r < options.size(); ++r) {
      const auto make = [this, r,
                         format](auto device) -> std::unique_ptr<Device> {
        device->SetComputeFormat(format);
        accelerators[r] = device->accelerator();
        return device;
      };
      makers.push_back([make, kernels, one = options[r]] {
        return kernels ? make(std::make_unique<EmulatedKernelDevice>(one))
                       : make(std::make_unique<EmulatedDevice>(one));
      });
    }
    model_ = *Network::Create(job.model(), kInput, makers.front(), "emulated",
                              makers);
    if (trace != nullptr) model_->SetTrace(trace);
    steps_ = std::make_unique<ReplicaSteps>(job, job.replicas(), model_.get());
    trainer = std::make_unique<Trainer>(model_->variables());
    for (uint32_t r = 0; r < job.replicas(); ++r) shares_.push_back(r);
  }

  absl::StatusOr<Metrics> Step(uint64_t begin, uint64_t examples) {
    return trainer->Step(steps_.get(), begin, examples, shares_);
  }
  bool SumsOnDevices(uint64_t examples) {
    v1::ComputeGradient request;
    request.set_end(examples);
    return steps_->SumsOnDevices(request);
  }

  std::vector<EmulatedAccelerator*> accelerators;
  std::unique_ptr<Trainer> trainer;

 private:
  std::unique_ptr<Network> model_;
  std::unique_ptr<ReplicaSteps> steps_;
  std::vector<uint32_t> shares_;
};

std::vector<EmulatedAccelerator::Options> Devices(size_t count,
                                                  uint64_t seed = 1) {
  std::vector<EmulatedAccelerator::Options> options(count);
  for (EmulatedAccelerator::Options& one : options) one.seed = seed++;
  return options;
}

TEST(ReplicaSumsTest, TheSumOfTheDevicesHasTheBitsOfTheProcessorsReplicas) {
  for (const uint32_t count : {2, 3}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Replicas cpu(count);
      Replicas run(Devices(count, 10 * seed));
      EXPECT_FALSE(cpu.SumsOnDevices(count * kBatch));
      EXPECT_TRUE(run.SumsOnDevices(count * kBatch));
      for (uint64_t step = 0; step < 4; ++step) {
        const uint64_t begin = 100 * step;
        // The last share is short in some.
        const uint64_t examples = count * kBatch - step;
        const auto wanted = cpu.Step(begin, examples);
        const auto found = run.Step(begin, examples);
        ASSERT_TRUE(wanted.ok()) << wanted.status();
        ASSERT_TRUE(found.ok()) << found.status();
        ASSERT_EQ(run.trainer->gradients(), cpu.trainer->gradients());
        EXPECT_EQ(found->loss_sum, wanted->loss_sum);
        EXPECT_EQ(found->examples, wanted->examples);
        EXPECT_EQ(run.trainer->ready, run.trainer->gradients().size());
        cpu.trainer->Move();
        run.trainer->Move();
      }
      for (const EmulatedAccelerator* accelerator : run.accelerators) {
        EXPECT_EQ(accelerator->unpinned_copies(), 0u);
      }
    }
  }
}

// Those of fp16 have a scale of the loss each.
TEST(ReplicaSumsTest, OtherFormatsHaveTheBitsOfTheProcessorsReplicas) {
  for (const auto format : {ComputeFormat::kBf16, ComputeFormat::kFp16}) {
    Replicas cpu(2, format);
    Replicas run(Devices(2), format);
    EXPECT_EQ(run.SumsOnDevices(10), format == ComputeFormat::kBf16);
    for (uint64_t step = 0; step < 3; ++step) {
      const auto wanted = cpu.Step(100 * step, 10 - step);
      const auto found = run.Step(100 * step, 10 - step);
      ASSERT_TRUE(wanted.ok()) << wanted.status();
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(run.trainer->gradients(), cpu.trainer->gradients())
          << NameOf(format);
      EXPECT_EQ(run.trainer->ready, run.trainer->gradients().size());
      cpu.trainer->Move();
      run.trainer->Move();
    }
  }
}

TEST(ReplicaSumsTest, AStepWithoutAShareForEachIsSummedInHostMemory) {
  Replicas cpu(3);
  Replicas run(Devices(3));
  for (const uint64_t examples : {15, 10, 3, 15, 6}) {
    EXPECT_EQ(run.SumsOnDevices(examples), examples > 10);
    ASSERT_TRUE(cpu.Step(0, examples).ok());
    ASSERT_TRUE(run.Step(0, examples).ok());
    ASSERT_EQ(run.trainer->gradients(), cpu.trainer->gradients()) << examples;
  }
}

TEST(ReplicaSumsTest, AfterTheFirstStepNothingIsAllocatedOnADevice) {
  Replicas run(Devices(2));
  ASSERT_TRUE(run.Step(0, 10).ok());
  std::vector<uint64_t> before;
  for (const auto* one : run.accelerators) before.push_back(one->allocations());
  for (uint64_t step = 1; step < 5; ++step) {
    ASSERT_TRUE(run.Step(10 * step, 10 - step % 2).ok());
    run.trainer->Move();
  }
  for (size_t r = 0; r < before.size(); ++r) {
    EXPECT_EQ(run.accelerators[r]->allocations(), before[r]);
  }
}

TEST(ReplicaSumsTest, NothingIsAllocatedWhileASumIsUnderWay) {
  for (const auto format : {ComputeFormat::kFp32, ComputeFormat::kBf16}) {
    Replicas run(Devices(2), format, /*kernels=*/true);
    // The second step needs more memory, and one brings a larger batch ahead.
    for (const uint64_t examples : {8, 10, 7, 10}) {
      run.trainer->next =
          MakeBatch({.epoch = 1, .begin = 0, .end = examples}, 0);
      ASSERT_TRUE(run.Step(0, examples).ok());
      run.trainer->Move();
    }
    // A replica without examples sends zeros.
    run.trainer->left_out[5] = kBatch;
    ASSERT_TRUE(run.Step(0, 10).ok());
    for (const EmulatedAccelerator* one : run.accelerators) {
      EXPECT_GT(one->allocations(), 0u);
      EXPECT_EQ(one->allocations_beside_sums(), 0u) << NameOf(format);
    }
  }
}

// Nor recorded: a graph takes memory, too.
TEST(ReplicaSumsTest, WhatIsReplayedHasTheBitsOfTheProcessorsReplicas) {
  for (const uint32_t count : {2, 3}) {
    Replicas cpu(count);
    Replicas run(Devices(count, 7));
    for (uint64_t step = 0; step < 12; ++step) {
      const uint64_t examples = count * kBatch - (step % 4 == 3 ? 1 : 0);
      ASSERT_TRUE(cpu.Step(100 * step, examples).ok());
      ASSERT_TRUE(run.Step(100 * step, examples).ok());
      ASSERT_EQ(run.trainer->gradients(), cpu.trainer->gradients()) << step;
      cpu.trainer->Move();
      run.trainer->Move();
    }
    for (const EmulatedAccelerator* one : run.accelerators) {
      EXPECT_GT(one->replays(), 40u);
      EXPECT_EQ(one->allocations_beside_sums(), 0u);
    }
  }
}

TEST(ReplicaSumsTest, ATraceHasTheSumsOfEachReplicaInALaneOfItsOwn) {
  ChromeTrace trace("worker-0");
  Replicas run(Devices(2), ComputeFormat::kFp32, /*kernels=*/false, &trace);
  ASSERT_TRUE(run.Step(0, 10).ok());
  const std::string json = trace.ToJson();
  for (const char* lane : {"upload 1", "upload 2", "sum 1", "sum 2"}) {
    EXPECT_NE(json.find(lane), std::string::npos) << lane;
  }
  // The first one alone has a use for them.
  EXPECT_NE(json.find("\"download 2\""), std::string::npos);
  size_t sums = 0;
  for (size_t at = 0; (at = json.find("\"gradients\"", at)) != json.npos;
       ++at) {
    ++sums;
  }
  EXPECT_GT(sums, run.trainer->gradients().size());
}

TEST(ReplicaSumsTest, GradientsCrossToTheHostOnce) {
  Replicas run(Devices(2));
  ASSERT_TRUE(run.Step(0, 10).ok());
  // The weights are the same in the next step, so none cross.
  const uint64_t first = run.accelerators[0]->bytes_copied();
  const uint64_t other = run.accelerators[1]->bytes_copied();
  ASSERT_TRUE(run.Step(0, 10).ok());
  uint64_t bytes = 0;
  for (const auto& one : run.trainer->gradients()) bytes += 4 * one.size();
  EXPECT_EQ((run.accelerators[0]->bytes_copied() - first) -
                (run.accelerators[1]->bytes_copied() - other),
            bytes);
}

TEST(ReplicaSumsTest, AReplicaWithoutExamplesAddsNothing) {
  for (const uint64_t empty : {0, 5, 10}) {
    Replicas cpu(3);
    Replicas run(Devices(3));
    for (Replicas* one : {&cpu, &run}) {
      // Left out by a filter: it is not known before that there is none.
      one->trainer->left_out[empty] = kBatch;
      const auto metrics = one->Step(0, 15);
      ASSERT_TRUE(metrics.ok()) << metrics.status();
      EXPECT_EQ(metrics->examples, 10u);
    }
    for (size_t v = 0; v < cpu.trainer->gradients().size(); ++v) {
      for (size_t i = 0; i < cpu.trainer->gradients()[v].size(); ++i) {
        // 0 + -0 is 0 wherever it is added.
        ASSERT_EQ(run.trainer->gradients()[v][i],
                  cpu.trainer->gradients()[v][i]);
      }
    }
  }
}

TEST(ReplicaSumsTest, WithoutStepsAGradientIsOfTheMeanOverAllReplicas) {
  Replicas cpu(2);
  Replicas run(Devices(2));
  Replicas sync(2);
  for (Replicas* one : {&cpu, &run}) {
    one->trainer->divides = false;
    // It counts neither in the sum nor in the number.
    one->trainer->left_out[5] = 2;
    ASSERT_TRUE(one->Step(0, 10).ok());
  }
  EXPECT_EQ(run.trainer->gradients(), cpu.trainer->gradients());
  sync.trainer->left_out[5] = 2;
  ASSERT_TRUE(sync.Step(0, 10).ok());
  // Sums of some tens of terms in another order and scale. Before a batch norm
  // they cancel, so that each rounding is of the largest gradient there is.
  float largest = 0;
  for (const auto& gradient : sync.trainer->gradients()) {
    for (const float value : gradient) {
      largest = std::max(largest, std::abs(value));
    }
  }
  constexpr float kRoundings = 64;
  const float tolerance =
      kRoundings * std::numeric_limits<float>::epsilon() * largest;
  for (size_t v = 0; v < cpu.trainer->gradients().size(); ++v) {
    // Statistics of a batch norm are no gradients, and follow another rule.
    if (v == 4 || v == 5) continue;
    const auto& wanted = sync.trainer->gradients()[v];
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(cpu.trainer->gradients()[v][i], wanted[i] * 10 / 8, tolerance)
          << v;
    }
  }
}

TEST(ReplicaSumsTest, ABrokenExampleOfOneEndsTheStepOfAllAndTheNextOneIsDone) {
  for (const uint64_t broken : {0, 5, 10}) {
    Replicas cpu(3);
    Replicas run(Devices(3));
    run.trainer->broken = broken;
    for (int again = 0; again < 3; ++again) {
      const auto refused = run.Step(0, 15);
      EXPECT_TRUE(absl::IsDataLoss(refused.status())) << refused.status();
    }
    ASSERT_TRUE(run.Step(20, 15).ok());
    ASSERT_TRUE(cpu.Step(20, 15).ok());
    EXPECT_EQ(run.trainer->gradients(), cpu.trainer->gradients());
  }
}

TEST(ReplicaSumsTest, AStepThatIsAbandonedIsEndedByAllAlike) {
  Replicas run(Devices(2));
  run.trainer->abandoned = true;
  // Whichever it is: nobody waits for one that has stopped.
  static_cast<void>(run.Step(0, 10).ok());
  run.trainer->abandoned = false;
  Replicas cpu(2);
  ASSERT_TRUE(run.Step(10, 10).ok());
  ASSERT_TRUE(cpu.Step(10, 10).ok());
  EXPECT_EQ(run.trainer->gradients(), cpu.trainer->gradients());
}

TEST(ReplicaSumsTest, ALostDeviceEndsTheStepOfAllWhereverItIsLost) {
  size_t whole = 0;
  for (uint64_t after = 1; whole == 0; after += 5) {
    for (const size_t which : {0, 1}) {
      auto options = Devices(2, after);
      options[which].lost_after = after;
      Replicas run(options);
      const auto metrics = run.Step(0, 10);
      if (metrics.ok()) {
        whole = after;
        continue;
      }
      EXPECT_TRUE(absl::IsUnavailable(metrics.status())) << metrics.status();
      EXPECT_LT(run.trainer->ready, run.trainer->gradients().size());
      EXPECT_TRUE(absl::IsUnavailable(run.Step(0, 10).status()));
    }
  }
  EXPECT_GT(whole, 30u);
}

TEST(ReplicaSumsTest, ABatchThatDoesNotFitOneDeviceIsRefusedForAll) {
  auto options = Devices(2);
  options[1].memory_bytes = 20000;
  Replicas run(options);
  const auto refused = run.Step(0, 10);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
}

// Of strategy "mirrored": each replica is a process of its own, as far as that
// goes, and all have the sum.
TEST(ReplicaSumsTest, MembersOnThreadsOfTheirOwnAllHaveTheSum) {
  Replicas cpu(3);
  ASSERT_TRUE(cpu.Step(0, 14).ok());
  const auto meeting = std::make_shared<ReplicaMeeting>(3);
  std::vector<std::thread> members;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    members.emplace_back([&, rank] {
      v1::JobConfig job = JobOf(3);
      job.set_strategy(v1::JobConfig::MIRRORED);
      const auto model = *Network::Create(job.model(), kInput, [rank] {
        return std::make_unique<EmulatedDevice>(
            EmulatedAccelerator::Options{.seed = rank + 1});
      });
      ReplicaSteps steps(job, /*replicas=*/1, model.get(), {meeting, rank});
      Trainer trainer(model->variables());
      for (int again = 0; again < 5; ++again) {
        v1::ComputeGradient request;
        request.set_end(14);
        ASSERT_TRUE(steps.SumsOnDevices(request));
        ASSERT_TRUE(trainer.Step(&steps, 0, 14, {rank}).ok());
        ASSERT_EQ(trainer.gradients(), cpu.trainer->gradients());
      }
    });
  }
  for (std::thread& member : members) member.join();
}

// Ends of a ring, one for each member, which have yet to begin.
std::vector<std::shared_ptr<DeviceRing>> OpenRings(size_t count) {
  static uint64_t seed = 0;
  std::vector<std::shared_ptr<DeviceRing>> rings;
  for (size_t r = 0; r < count; ++r) {
    rings.push_back(
        *EmulatedAccelerator(EmulatedAccelerator::Options{.seed = ++seed})
             .OpenRing());
  }
  return rings;
}

// Members in processes of their own, as far as that goes.
class RingMember {
 public:
  RingMember(uint32_t count, uint32_t rank) : rank_(rank) {
    v1::JobConfig job = JobOf(count);
    job.set_strategy(v1::JobConfig::MULTI_WORKER_MIRRORED);
    model_ = *Network::Create(job.model(), kInput, [this] {
      auto device = std::make_unique<EmulatedDevice>(
          EmulatedAccelerator::Options{.seed = rank_ + 1});
      accelerator = device->accelerator();
      return device;
    });
    steps = std::make_unique<ReplicaSteps>(job, /*replicas=*/1, model_.get());
    trainer = std::make_unique<Trainer>(model_->variables());
  }

  // Into a ring, of which this is the end.
  void Enter(const std::shared_ptr<DeviceRing>& ring, const DeviceRing::Id& id,
             size_t size) {
    ring->Begin(id, rank_, size);
    while (!*ring->HasFormed()) std::this_thread::yield();
    steps->SetRing(ring);
  }
  bool SumsOnDevices(uint64_t examples) {
    v1::ComputeGradient request;
    request.set_end(examples);
    return steps->SumsOnDevices(request);
  }
  absl::Status Step(uint64_t examples) {
    return trainer->Step(steps.get(), 0, examples, {rank_}).status();
  }

  EmulatedAccelerator* accelerator = nullptr;
  std::unique_ptr<ReplicaSteps> steps;
  std::unique_ptr<Trainer> trainer;

 private:
  const uint32_t rank_;
  std::unique_ptr<Network> model_;
};

TEST(ReplicaSumsTest, MembersInOtherProcessesSumByARingWhatLiesOnDevices) {
  for (const uint32_t count : {2, 3}) {
    const uint64_t examples = count * kBatch - 1;
    Replicas cpu(count);
    ASSERT_TRUE(cpu.Step(0, examples).ok());
    // One in which they stay, and another one.
    const auto first = OpenRings(count);
    const auto second = OpenRings(count);
    const std::vector<DeviceRing::Id> ids = {*first[0]->MakeId(),
                                             *second[0]->MakeId()};
    std::vector<std::thread> members;
    for (uint32_t rank = 0; rank < count; ++rank) {
      members.emplace_back([&, rank] {
        RingMember member(count, rank);
        EXPECT_FALSE(member.SumsOnDevices(examples));
        for (const size_t ring : {0, 1}) {
          member.Enter((ring == 0 ? first : second)[rank], ids[ring], count);
          // A step without a share for each is not summed there.
          EXPECT_FALSE(member.SumsOnDevices((count - 1) * kBatch));
          ASSERT_TRUE(member.SumsOnDevices(examples));
          for (int step = 0; step < 3; ++step) {
            ASSERT_TRUE(member.Step(examples).ok());
            ASSERT_EQ(member.trainer->gradients(), cpu.trainer->gradients());
            EXPECT_EQ(member.trainer->ready,
                      member.trainer->gradients().size());
          }
        }
        EXPECT_GT(member.accelerator->allocations(), 0u);
        EXPECT_EQ(member.accelerator->allocations_beside_sums(), 0u);
        member.steps->SetRing(nullptr);
        EXPECT_FALSE(member.SumsOnDevices(examples));
        ASSERT_TRUE(member.Step(examples).ok());
        EXPECT_NE(member.trainer->gradients(), cpu.trainer->gradients());
      });
    }
    for (std::thread& member : members) member.join();
  }
}

TEST(ReplicaSumsTest, AMemberOfARingThatIsLostInAStepHarmsNoOthersDevice) {
  constexpr uint64_t kExamples = 2 * kBatch;
  Replicas cpu(2);
  ASSERT_TRUE(cpu.Step(0, kExamples).ok());
  for (int again = 0; again < 8; ++again) {
    const auto first = OpenRings(2);
    const auto second = OpenRings(2);
    const std::vector<DeviceRing::Id> ids = {*first[0]->MakeId(),
                                             *second[0]->MakeId()};
    std::thread lost([&] {
      RingMember member(2, 1);
      member.Enter(first[1], ids[0], 2);
      std::thread killer([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(3 * again));
        first[1]->Abort(absl::CancelledError("it was killed"));
      });
      absl::Status status;
      while (status.ok() && first[1]->status().ok()) {
        status = member.Step(kExamples);
      }
      EXPECT_TRUE(status.ok()) << status;
      killer.join();
      // It is back.
      member.Enter(second[1], ids[1], 2);
      ASSERT_TRUE(member.Step(kExamples).ok());
      EXPECT_EQ(member.trainer->gradients(), cpu.trainer->gradients());
    });
    RingMember member(2, 0);
    member.Enter(first[0], ids[0], 2);
    while (first[0]->status().ok()) {
      ASSERT_TRUE(member.Step(kExamples).ok());
      // Whose word counts after a step.
      if (!first[0]->status().ok()) break;
      ASSERT_EQ(member.trainer->gradients(), cpu.trainer->gradients());
    }
    EXPECT_TRUE(absl::IsUnavailable(first[0]->status()));
    EXPECT_TRUE(member.accelerator->status().ok());
    member.Enter(second[0], ids[1], 2);
    ASSERT_TRUE(member.Step(kExamples).ok());
    EXPECT_EQ(member.trainer->gradients(), cpu.trainer->gradients());
    lost.join();
  }
}

}  // namespace
}  // namespace paramd
