#include "compute/pipeline/activation_budget.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"
#include "compute/pipeline/testing/cut_cases.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

using ActivationBudgetTest = OnTestDevice;

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

Fitted FitTo(const CutCase& one, const v1::JobConfig& job,
             absl::optional<double> swap_cost = absl::nullopt) {
  Fitted fitted;
  fitted.network = *PlanNetwork(ConfigOf(one), one.input);
  fitted.pipeline = job.pipeline().stages() > 1
                        ? *PlanPipeline(job.pipeline(), *fitted.network)
                        : InOnePiece();
  fitted.status =
      FitActivations(job, MakeTestDevice()->activations(), fitted.network.get(),
                     &fitted.pipeline, swap_cost);
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

TEST_F(ActivationBudgetTest, ABudgetChangesNoBit) {
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

TEST_F(ActivationBudgetTest, ABudgetIsKeptByWhatTheLayersOfEachStageAskFor) {
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

TEST_F(ActivationBudgetTest, AChoiceIsThatOfAJobFileWithRecompute) {
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

TEST_F(ActivationBudgetTest, ABudgetMovesTheStatisticsOfABatchNormOnce) {
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

TEST_F(ActivationBudgetTest, ABudgetThatNothingFitsIsRefusedWithNumbers) {
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

// What is swapped lies in memory of the host.
class SwapTest : public ActivationBudgetTest {
 protected:
  void SetUp() override {
    ActivationBudgetTest::SetUp();
    if (IsSkipped()) return;
    if (MakeTestDevice()->link() != nullptr) {
      GTEST_SKIP() << "layers are swapped on the processor alone";
    }
    directory_ = ::testing::TempDir() + "swap";
    std::filesystem::create_directories(directory_);
    directory_ = std::filesystem::canonical(directory_);
  }

  // With the tightest budget.
  v1::JobConfig JobThatSwaps(const CutCase& one, uint32_t stages,
                             uint64_t batch) const {
    v1::JobConfig job = JobWith(stages, 4, batch, 0);
    job.mutable_memory()->set_activation_budget_bytes(TightestBudget(one, job));
    job.mutable_memory()->set_swap_directory(directory_);
    return job;
  }

  // What is swapped by this process, as the kernel lists it.
  std::vector<int> OpenFiles() const {
    std::vector<int> found;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const auto file = std::filesystem::read_symlink(entry.path(), error);
      if (!error && file.string().rfind(directory_, 0) == 0) {
        found.push_back(std::stoi(entry.path().filename()));
      }
    }
    return found;
  }

  std::string directory_;
};

// Next to nothing: all that would be computed again is swapped.
constexpr double kFastDisk = 1e-9;

TEST_F(SwapTest, SwappedLayersChangeNoBitAndKeepToTheBudget) {
  constexpr uint64_t kBatch = 11;
  for (const CutCase& one : DeepCases()) {
    const auto network =
        *Network::Create(ConfigOf(one), one.input, MakeTestDevice);
    Memory in_one(network->variables()), in_parts(network->variables());
    Train(network.get(), one.input, kBatch, 3, &in_one);
    TrainWhole(network.get(), one.input, kBatch, 3, 3, &in_parts);
    for (const uint32_t stages : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(one.name, " in ", stages));
      const v1::JobConfig job = JobThatSwaps(one, stages, kBatch);
      const Fitted fitted = FitTo(one, job, kFastDisk);
      ASSERT_TRUE(fitted.status.ok()) << fitted.status;
      ASSERT_EQ(fitted.network->chosen.size(), stages);
      size_t swapped = 0;
      for (const auto& stage : fitted.network->chosen) {
        EXPECT_LE(stage.bytes, job.memory().activation_budget_bytes());
        EXPECT_EQ(stage.swapped.empty(), stage.swapped_bytes == 0);
        swapped += stage.swapped.size();
      }
      EXPECT_GT(swapped, 0u);
      if (stages == 2) {
        PipelineModel model(
            fitted.network, fitted.pipeline,
            std::vector<PipelineModel::MakeDevice>{MakeTestDevice}, "test");
        Memory memory(model.variables());
        Train(&model, one.input, kBatch, 3, &memory);
        EXPECT_EQ(memory.weights, in_parts.weights);
        EXPECT_GE(OpenFiles().size(), 1u);
        continue;
      }
      Network model(fitted.network, MakeTestDevice, "test");
      Memory memory(model.variables()), accumulated(model.variables());
      Train(&model, one.input, kBatch, 3, &memory);
      EXPECT_EQ(memory.weights, in_one.weights);
      TrainWhole(&model, one.input, kBatch, 3, 3, &accumulated);
      EXPECT_EQ(accumulated.weights, in_parts.weights);
      EXPECT_EQ(OpenFiles().size(), 1u);
    }
  }
  EXPECT_EQ(OpenFiles().size(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(SwapTest, TheSlowerADiskTheLessIsSwapped) {
  const CutCase mlp = DeepCases()[0];
  const v1::JobConfig job = JobThatSwaps(mlp, 1, 16);
  const auto chosen = [&](double cost) {
    const Fitted fitted = FitTo(mlp, job, cost);
    EXPECT_TRUE(fitted.status.ok()) << fitted.status;
    return fitted.network->chosen.front();
  };
  const ChosenRecompute fast = chosen(kFastDisk);
  EXPECT_EQ(fast.flops_again, 0u);
  EXPECT_GT(fast.swapped_bytes, 0u);
  const ChosenRecompute slow = chosen(1e9);
  EXPECT_GT(slow.flops_again, 0u);
  EXPECT_EQ(slow.swapped_bytes, 0u);
  EXPECT_EQ(FitTo(mlp, job, 1e9).network->swap_directory, "");
  // As the disk here has it, whatever that is.
  EXPECT_TRUE(FitTo(mlp, job).status.ok());
}

TEST_F(SwapTest, AWriteThatTheDiskLostEndsTheStepBeforeItsGradients) {
  const CutCase mlp = DeepCases()[0];
  const Fitted fitted = FitTo(mlp, JobThatSwaps(mlp, 1, 16), kFastDisk);
  ASSERT_TRUE(fitted.status.ok()) << fitted.status;
  Network model(fitted.network, MakeTestDevice, "test");
  Memory memory(model.variables());
  const Batch batch = DrawnBatch(mlp.input, 16);
  size_t told = 0;
  const auto step = [&] {
    told = 0;
    return model.Step(memory.Weights(), batch, {.divisor = 16},
                      memory.Gradients(), [&](size_t) {
                        if (++told > 1) return;
                        for (const int file : OpenFiles()) {
                          const std::vector<char> zeros(1 << 20);
                          ASSERT_GT(pwrite(file, zeros.data(), zeros.size(), 0),
                                    0);
                        }
                      });
  };
  const auto failed = step();
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr(absl::StrCat(
                  "memory.swap_directory '", directory_,
                  "': activations can't be read: the disk gives other bytes "
                  "than were written; name a directory of another disk")));
  EXPECT_LT(told, model.variables().size());
  // It does not go on as if nothing had been.
  EXPECT_FALSE(step().ok());
  EXPECT_EQ(told, 0u);
}

TEST_F(SwapTest, AWriteThatTheDiskLostEndsTheStepOfAPipeline) {
  const CutCase mlp = DeepCases()[0];
  const Fitted fitted = FitTo(mlp, JobThatSwaps(mlp, 2, 16), kFastDisk);
  ASSERT_TRUE(fitted.status.ok()) << fitted.status;
  PipelineModel model(fitted.network, fitted.pipeline,
                      std::vector<PipelineModel::MakeDevice>{MakeTestDevice},
                      "test");
  Memory memory(model.variables());
  const Batch batch = DrawnBatch(mlp.input, 16);
  size_t told = 0;
  const auto step = [&] {
    told = 0;
    return model.Step(memory.Weights(), batch, {.divisor = 16},
                      memory.Gradients(), [&](size_t) { ++told; });
  };
  ASSERT_TRUE(step().ok());
  EXPECT_EQ(told, model.variables().size());
  const std::vector<int> files = OpenFiles();
  ASSERT_GE(files.size(), 1u);
  // It takes what is written, and gives zeros.
  const int zeros = open("/dev/zero", O_RDWR | O_CLOEXEC);
  for (const int file : files) ASSERT_EQ(dup2(zeros, file), file);
  close(zeros);
  const auto failed = step();
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr("the disk gives other bytes than were written"));
  EXPECT_EQ(told, 0u);
  // It does not go on as if nothing had been.
  EXPECT_FALSE(step().ok());
}

TEST_F(SwapTest, ADirectoryThatIsNotThereIsRefusedOrEndsAStep) {
  const CutCase mlp = DeepCases()[0];
  v1::JobConfig job = JobThatSwaps(mlp, 1, 16);
  const Fitted fitted = FitTo(mlp, job, kFastDisk);
  std::filesystem::remove_all(directory_);
  const std::string sentence =
      absl::StrCat("memory.swap_directory '", directory_,
                   "': no file can be made there: No such file or directory");
  const Fitted refused = FitTo(mlp, job);
  EXPECT_EQ(refused.status, absl::InvalidArgumentError(sentence));
  Network model(fitted.network, MakeTestDevice, "test");
  Memory memory(model.variables());
  const auto failed =
      model.Step(memory.Weights(), DrawnBatch(mlp.input, 16), {.divisor = 16},
                 memory.Gradients(), [](size_t) {});
  EXPECT_EQ(std::string(failed.status().message()), sentence);
}

}  // namespace
}  // namespace paramd
