// Whole jobs whose weights, slots and gradients stay on an emulated device.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "checkpoint/diff.h"
#include "compute/device/testing/emulated_device.h"
#include "compute/model/exchange.h"
#include "compute/model/network.h"
#include "config/job_config.h"
#include "config/strategy.h"
#include "net/in_process_runtime.h"
#include "process/mirrors.h"
#include "process/process.h"
#include "tests/resident/emulated_loops.h"
#include "worker/model_factory.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

constexpr char kSource[] = R"({"synthetic": {"examples": 24, "features": [
    {"name": "x", "dims": [12]},
    {"name": "label", "type": "int32", "classes": 4}]}})";
// One variable has two blocks; some are of a few numbers, some not trained.
constexpr uint64_t kValueBytes =
    4 * (12 * 600 + 600 + 4 * 600 + 600 * 500 + 500 + 500 * 4 + 4);

// A GPU for each replica, and what is seen of it.
class EmulatedGpus {
 public:
  explicit EmulatedGpus(bool has_loops = true) : has_loops_(has_loops) {}

  ModelFactory models() {
    return [this](const v1::JobConfig& job, const InputSpec& input)
               -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
      const auto make = [this]() -> std::unique_ptr<Device> {
        EmulatedAccelerator::Options options;
        options.seed = ++made_;
        auto device = std::make_unique<EmulatedDevice>(options);
        newest_ = device->accelerator();
        return device;
      };
      ASSIGN_OR_RETURN(auto network,
                       Network::Create(job.model(), input, make, "emulated"));
      accelerators_.push_back(newest_);
      return std::unique_ptr<TrainedModel>(std::move(network));
    };
  }
  MakeLoopDevice loops() {
    return [this](const std::string& accelerator, const LoopMemory& memory)
               -> absl::StatusOr<std::shared_ptr<LoopDevice>> {
      EXPECT_EQ(accelerator, "emulated:0");
      if (!has_loops_) return absl::FailedPreconditionError("it is not wanted");
      EmulatedLoops::Options options;
      options.bytes = (memory.most_bytes + EmulatedUnifiedMemory::kPage - 1) /
                      EmulatedUnifiedMemory::kPage *
                      EmulatedUnifiedMemory::kPage;
      options.accelerator.seed = 100 + made_;
      auto made = std::make_shared<EmulatedLoops>(options);
      newest_->Share(made->memory());
      all_loops_.push_back(made);
      return std::shared_ptr<LoopDevice>(std::move(made));
    };
  }

  // Of the first replica, or of all.
  EmulatedLoops& first() { return *all_loops_.front(); }
  size_t count() const { return all_loops_.size(); }
  void NoteCrossings() {
    bytes_crossed = 0;
    replays = 0;
    for (const EmulatedAccelerator* one : accelerators_) {
      bytes_crossed += one->bytes_crossed();
      replays += one->replays();
    }
  }
  uint64_t bytes_crossed = 0;  // When a job had ended.
  uint64_t replays = 0;
  uint64_t pages_fetched() const {
    uint64_t pages = 0;
    for (const auto& one : all_loops_) pages += one->memory()->pages_fetched();
    return pages;
  }
  uint64_t pages_torn() const {
    uint64_t pages = 0;
    for (const auto& one : all_loops_) pages += one->memory()->pages_torn();
    return pages;
  }

 private:
  const bool has_loops_;
  std::atomic<uint64_t> made_{0};
  EmulatedAccelerator* newest_ = nullptr;
  std::vector<EmulatedAccelerator*> accelerators_;  // Of models that train.
  std::vector<std::shared_ptr<EmulatedLoops>> all_loops_;
};

class ResidentTest : public ::testing::Test {
 protected:
  ResidentTest() {
    std::string name = absl::StrCat(
        ::testing::TempDir(), "/resident-",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(name);
    fs::create_directories(name);
    directory_ = std::move(name);
  }

  std::string RunDir(const std::string& name) const {
    return absl::StrCat(directory_, "/", name);
  }

  // `more`: settings of the job as flags have them.
  using Settings = std::vector<std::pair<std::string, std::string>>;
  LoadedJob Load(const std::string& run_dir, const Settings& more) const {
    JobSources sources;
    sources.file = "job.json";
    sources.text = absl::StrCat(
        R"({"name": "one-job", "device": "cpu", "strategy": "one_device",
            "model": {"layers": [{"dense": 600}, "batch_norm", "relu",
                                 {"dense": 500}, "relu", {"dense": 4}],
                      "loss": "softmax_cross_entropy"},
            "optimizer": {"adam": {}, "learning_rate": 0.01,
                          "schedule": "cosine"},
            "batch_per_replica": 4, "epochs": 2,
            "input": {"train": )",
        kSource, R"(, "test": )", kSource, "}}");
    sources.settings = more;
    sources.settings.emplace_back("run_dir", run_dir);
    auto job = LoadJob(sources);
    CHECK(job.ok(), std::string(job.status().message()).c_str());
    return *std::move(job);
  }

  // Trains to the end, or until `stops` says so; null `gpus`: on the processor.
  absl::Status Train(const std::string& run_dir, const Settings& more,
                     EmulatedGpus* gpus,
                     const std::function<bool()>& stops = nullptr) {
    LoadedJob job = Load(run_dir, more);
    SetRunDirectory(run_dir, &job.config);
    const ModelFactory models =
        gpus == nullptr ? BuiltInModels() : gpus->models();
    const MakeLoopDevice loops =
        gpus == nullptr ? MakeCudaLoops : gpus->loops();
    ProcessRole role;
    role.server = 0;
    role.worker = 0;
    role.shards = role.servers = shards_;
    role.incarnation = ++incarnations_;
    std::unique_ptr<Mirrors> mirrors;
    Membership membership;
    if (ReplicasOf(job.config) > 1) {
      ASSIGN_OR_RETURN(mirrors, Mirrors::Create(&job));
      membership = mirrors->first();
    }
    ASSIGN_OR_RETURN(auto process,
                     Process::Create(role, job, models, "", membership, loops));
    const auto runtime = MakeInProcessRuntime();
    process->AddTo(runtime.get());
    if (mirrors != nullptr) {
      RETURN_IF_ERROR(mirrors->MakeOthers(role, models, process.get(),
                                          runtime.get(), loops));
    }
    std::atomic<bool> ended{false};
    std::thread watcher([&] {
      while (stops != nullptr && !ended) {
        if (stops()) return runtime->Stop(absl::CancelledError("killed"));
        absl::SleepFor(absl::Milliseconds(1));
      }
    });
    const absl::Status status =
        mirrors == nullptr ? process->Run(runtime.get()) : mirrors->Run();
    ended = true;
    watcher.join();
    // Where it was killed a step may still be under way.
    if (status.ok() && gpus != nullptr && mirrors == nullptr) {
      gpus->NoteCrossings();
    }
    return status;
  }

  static std::vector<std::string> Checkpoints(const std::string& run_dir) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(run_dir + "/checkpoints", error), end;
         !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name[0] == '0') names.push_back(entry->path().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Values and slots of both results, to the bit.
  static void ExpectSame(const std::string& run_dir, const std::string& other) {
    ASSERT_FALSE(Checkpoints(run_dir).empty());
    ASSERT_FALSE(Checkpoints(other).empty());
    const auto a = CheckpointReader::Open(Checkpoints(run_dir).back());
    const auto b = CheckpointReader::Open(Checkpoints(other).back());
    ASSERT_TRUE(a.ok()) << a.status();
    ASSERT_TRUE(b.ok()) << b.status();
    EXPECT_EQ((*a)->manifest().global_step(), (*b)->manifest().global_step());
    const auto difference =
        DiffCheckpoints(a->get(), b->get(), {.slots = true});
    ASSERT_TRUE(difference.ok()) << difference.status();
    EXPECT_FALSE(difference->common.empty());
    for (const auto& one : difference->common) {
      EXPECT_EQ(one.changed, 0u) << one.name << " of " << one.elements;
    }
    EXPECT_TRUE(difference->same());
  }

  std::string directory_;
  uint64_t incarnations_ = 6;
  uint32_t shards_ = 1;
};

const std::pair<const char*, const char*> kOptimizers[] = {
    {"sgd", R"({"sgd": {}, "learning_rate": 0.05})"},
    {"momentum", R"({"sgd": {"momentum": 0.9}, "learning_rate": 0.01})"},
    {"nesterov",
     R"({"sgd": {"momentum": 0.9, "nesterov": true}, "learning_rate": 0.01,
         "clip_norm": 0.1})"},
    {"adam", R"({"adam": {}, "learning_rate": 0.01, "weight_decay": 0.1,
                 "decay": "l2"})"},
    {"adamw", R"({"adamw": {}, "learning_rate": 0.01, "clip_value": 0.01})"},
    {"adagrad", R"({"adagrad": {}, "learning_rate": 0.01})"},
    {"rmsprop",
     R"({"rmsprop": {"centered": true, "momentum": 0.5},
         "learning_rate": 0.001})"},
    {"ftrl", R"({"ftrl": {"l1": 0.001}, "learning_rate": 0.05})"},
    {"adadelta", R"({"adadelta": {}, "learning_rate": 0.5})"},
    {"clip_global_norm",
     R"({"sgd": {}, "learning_rate": 0.1, "clip_global_norm": 0.1})"},
    {"groups",
     R"({"adam": {}, "learning_rate": 0.01, "groups": [
         {"variables": "dense_1/*", "adagrad": {}, "learning_rate": 0.05},
         {"variables": "*/bias", "sgd": {}}]})"},
};

TEST_F(ResidentTest, EachOptimizerGivesTheBitsOfTheProcessor) {
  for (const auto& [name, optimizer] : kOptimizers) {
    const Settings settings = {{"optimizer", optimizer}};
    const std::string cpu = RunDir(absl::StrCat(name, "-cpu"));
    const std::string gpu = RunDir(absl::StrCat(name, "-gpu"));
    EmulatedGpus gpus;
    ASSERT_TRUE(Train(cpu, settings, nullptr).ok()) << name;
    const absl::Status trained = Train(gpu, settings, &gpus);
    ASSERT_TRUE(trained.ok()) << name << ": " << trained;
    EXPECT_GT(gpus.first().calls(), 0u);
    EXPECT_EQ(gpus.pages_torn(), 0u);
    ExpectSame(gpu, cpu);
  }
}

// All that lives on the device is made there: nothing but batches, outputs and
// their gradients crosses, and no page comes to the host in a step. What is
// fetched for evaluations and the last checkpoint does not depend on the number
// of steps.
TEST_F(ResidentTest, StepsFetchNothingAndNothingCrosses) {
  const Settings settings = {{"epochs", "8"}};  // 48 steps.
  EmulatedGpus gpus;
  const absl::Status trained = Train(RunDir("gpu"), settings, &gpus);
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_EQ(gpus.pages_torn(), 0u);
  EXPECT_EQ(gpus.first().staged_bytes(), 0u);
  // Of 48 times the weights and the gradients, less than once the weights.
  EXPECT_LT(gpus.bytes_crossed, kValueBytes);
  // The forward pass in one piece, the backward pass in one for each layer with
  // variables; of two copies of the weights, and of two of the batch.
  EXPECT_GT(gpus.replays, 35 * (1 + 4));
  EXPECT_LE(gpus.replays, 48 * (1 + 4));
  // Values and slots once for the checkpoint; values once for each evaluation,
  // of which an epoch may have one.
  constexpr uint64_t kPages = kValueBytes / EmulatedUnifiedMemory::kPage;
  EXPECT_LT(gpus.pages_fetched(), (3 + 9 + 3) * kPages);
}

TEST_F(ResidentTest, WithoutItEachStepCrosses) {
  EmulatedGpus gpus(/*has_loops=*/false);
  const absl::Status trained = Train(RunDir("gpu"), {}, &gpus);
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_GT(gpus.bytes_crossed, 12 * kValueBytes);  // Of 12 steps.
}

TEST_F(ResidentTest, MirroredCopiesHaveTheBitsOfProcessors) {
  // Compared after each step, too; the last step of an epoch has one share.
  const Settings settings = {
      {"strategy", "mirrored"},
      {"replicas", "2"},
      {"batch_per_replica", "5"},
      {"all_reduce", R"({"check_every_steps": 1, "bucket_bytes": 100000})"}};
  EmulatedGpus gpus;
  ASSERT_TRUE(Train(RunDir("cpu"), settings, nullptr).ok());
  const absl::Status trained = Train(RunDir("gpu"), settings, &gpus);
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_EQ(gpus.count(), 2u);
  EXPECT_EQ(gpus.pages_torn(), 0u);
  ExpectSame(RunDir("gpu"), RunDir("cpu"));
}

TEST_F(ResidentTest, CheckpointsKillsAndEvaluationsChangeNoBit) {
  const Settings settings = {{"epochs", "20"},
                             {"checkpoint", R"({"every_steps": 3})"},
                             {"optimizer", kOptimizers[5].second}};
  ASSERT_TRUE(Train(RunDir("cpu"), settings, nullptr).ok());
  const std::string run_dir = RunDir("gpu");
  for (int kill = 0; kill < 3; ++kill) {
    EmulatedGpus gpus;
    const std::vector<std::string> before = Checkpoints(run_dir);
    const absl::Status killed = Train(run_dir, settings, &gpus, [&] {
      const std::vector<std::string> now = Checkpoints(run_dir);
      return !now.empty() && now != before;
    });
    // Or it was faster.
    ASSERT_TRUE(killed.ok() || absl::IsCancelled(killed)) << killed;
    EXPECT_EQ(gpus.pages_torn(), 0u);
  }
  EmulatedGpus gpus;
  const absl::Status trained = Train(run_dir, settings, &gpus);
  ASSERT_TRUE(trained.ok()) << trained;
  ExpectSame(run_dir, RunDir("cpu"));
}

// From the processor to the device, and back.
TEST_F(ResidentTest, AnyDeviceGoesOnWithACheckpointOfTheOther) {
  EmulatedGpus gpus;
  ASSERT_TRUE(Train(RunDir("cpu"), {{"epochs", "3"}}, nullptr).ok());
  const std::string run_dir = RunDir("gpu");
  // A schedule that is planned the same for each.
  const std::pair<std::string, std::string> steps = {"optimizer.decay_steps",
                                                     "18"};
  ASSERT_TRUE(Train(RunDir("fixed"), {{"epochs", "3"}, steps}, nullptr).ok());
  ASSERT_TRUE(Train(run_dir, {{"epochs", "1"}, steps}, nullptr).ok());
  const absl::Status there = Train(run_dir, {{"epochs", "2"}, steps}, &gpus);
  ASSERT_TRUE(there.ok()) << there;
  ASSERT_TRUE(Train(run_dir, {{"epochs", "3"}, steps}, nullptr).ok());
  ExpectSame(run_dir, RunDir("fixed"));
}

// The sum of several batches is made in host memory: it crosses, and no weights
// do.
TEST_F(ResidentTest, AGradientThatTheHostAddsToIsBroughtThere) {
  const Settings settings = {{"accumulate", "3"}, {"spike_factor", "1000"}};
  EmulatedGpus gpus;
  ASSERT_TRUE(Train(RunDir("cpu"), settings, nullptr).ok());
  const absl::Status trained = Train(RunDir("gpu"), settings, &gpus);
  ASSERT_TRUE(trained.ok()) << trained;
  // Four steps.
  EXPECT_EQ(gpus.first().staged_bytes(), 4 * kValueBytes);
  ExpectSame(RunDir("gpu"), RunDir("cpu"));
}

TEST_F(ResidentTest, SeveralShardsOfOneServerShareTheDevice) {
  const Settings settings = {{"spike_factor", "1000"}};
  EmulatedGpus gpus;
  ASSERT_TRUE(Train(RunDir("cpu"), settings, nullptr).ok());
  shards_ = 3;
  const absl::Status trained = Train(RunDir("gpu"), settings, &gpus);
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_EQ(gpus.pages_torn(), 0u);
  ExpectSame(RunDir("gpu"), RunDir("cpu"));
}

// ---- mistakes that are found

TEST(EmulatedLoopsTest, APageThatIsTouchedTooEarlyIsTorn) {
  EmulatedLoops loops({.bytes = 1 << 20, .waits = false});
  const Buffer from = loops.Allocate(8);
  Buffer to = loops.Allocate(8);
  std::shared_ptr<void> held = loops.Hold();
  loops.Copy(from.bytes(), to.mutable_bytes().data());
  float early = 0;
  std::memcpy(&early, to.bytes().data(), sizeof(early));
  EXPECT_TRUE(std::isnan(early));
  EXPECT_EQ(loops.memory()->pages_torn(), 1u);
  held.reset();
}

TEST(EmulatedLoopsTest, APageThatIsTouchedLaterIsFetchedOnce) {
  EmulatedLoops loops({.bytes = 1 << 20});
  Buffer from = loops.Allocate(2 * EmulatedUnifiedMemory::kPage);
  Buffer to = loops.Allocate(2 * EmulatedUnifiedMemory::kPage);
  from.mutable_bytes()[5000] = std::byte{7};
  EXPECT_EQ(loops.memory()->pages_fetched(), 0u);
  loops.Copy(from.bytes(), to.mutable_bytes().data());
  EXPECT_EQ(loops.memory()->pages_fetched(), 0u);
  EXPECT_EQ(to.bytes()[5000], std::byte{7});
  EXPECT_EQ(to.bytes()[5001], std::byte{0});
  EXPECT_EQ(loops.memory()->pages_fetched(), 1u);
  EXPECT_EQ(to.bytes()[0], std::byte{0});
  EXPECT_EQ(loops.memory()->pages_fetched(), 2u);
  EXPECT_EQ(loops.memory()->pages_torn(), 0u);
}

// A copy to the weights that nobody waited for: what is computed is of what is
// not there yet.
TEST(EmulatedLoopsTest, WeightsThatNobodyWaitedForAreNoNumbers) {
  for (const bool waits : {true, false}) {
    EmulatedLoops::Options options{.bytes = 1 << 20, .waits = waits};
    const auto loops = std::make_shared<EmulatedLoops>(options);
    EmulatedDevice device;
    device.accelerator()->Share(loops->memory());
    device.link()->SetUnifiedMemory(loops);
    Exchange exchange(&device, 1);
    const Buffer block = loops->Allocate(16);
    Buffer weights = loops->Allocate(16);
    std::shared_ptr<void> held = waits ? nullptr : loops->Hold();
    loops->Copy(block.bytes(), weights.mutable_bytes().data());
    const absl::Span<const float> values(
        reinterpret_cast<const float*>(weights.bytes().data()), 4);
    exchange.Begin();
    const float* const there = exchange.PlaceWeights(0, values);
    EXPECT_EQ(there, values.data());
    exchange.BringWeights(0, values);
    const auto doubled = device.Allocate(16);
    const auto host = device.link()->AllocateHost(16);
    device.Add({there, DType::kFloat32, {4}}, 1, {there, DType::kFloat32, {4}},
               {doubled.get(), DType::kFloat32, {4}});
    device.Copy(doubled.get(), 16, host.get());
    device.Finish();
    EXPECT_EQ(std::isnan(*static_cast<const float*>(host.get())), !waits);
    held.reset();
  }
}

}  // namespace
}  // namespace paramd
