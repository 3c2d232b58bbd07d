#include "worker/stages/remote_stages.h"

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/device/testing/test_device.h"
#include "compute/pipeline/testing/cut_cases.h"
#include "net/in_process_runtime.h"
#include "proto/paramd/v1/stage.pb.h"
#include "worker/stages/stage_process.h"
#include "worker/stages/testing/stages_of_case.h"

namespace paramd {
namespace {

// The core of a worker that only lives: until it is told to end.
class LivingCore : public Core {
 public:
  void End() { ending_ = true; }

  void Start(Time, Outbox*) override {}
  void Receive(Message, Time, Outbox*) override {}
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time, Outbox* out) override {
    if (ending_) out->Exit(absl::OkStatus());
  }
  Time next_tick() const override { return ending_ ? Time() : Time::Never(); }

 private:
  std::atomic<bool> ending_{false};
};

// Around a core: loses some of its calls to stages, each after it was sent.
class LosesCalls : public Core {
 public:
  explicit LosesCalls(Core* core) : core_(*core) {}

  // The `n`th operation from now on, and so on, `times` times.
  void LoseOperation(int n, int times = 1) {
    each_ = n;
    times_ = times;
    left_ = n;
  }
  int lost() const { return lost_; }
  // Whom the core waited for when the last one was lost. Once it has ended.
  const std::string& waited_for() const { return waited_for_; }

  void Start(Time now, Outbox* out) override { core_.Start(now, out); }
  void Receive(Message message, Time now, Outbox* out) override {
    if (message.is_reply && message.call == lost_call_) {
      message.status = absl::UnavailableError("stage-0: connection lost");
      message.head = nullptr;
      message.payload.clear();
      lost_call_ = 0;
    }
    core_.Receive(std::move(message), now, out);
    Look(now, *out);
  }
  void Completed(IoResult result, Time now, Outbox* out) override {
    core_.Completed(std::move(result), now, out);
  }
  void Tick(Time now, Outbox* out) override {
    core_.Tick(now, out);
    Look(now, *out);
  }
  Time next_tick() const override { return core_.next_tick(); }
  std::string overdue(Time now) const override { return core_.overdue(now); }

 private:
  void Look(Time now, const Outbox& out) {
    for (const Outbox::SendItem& send : out.sends) {
      if (dynamic_cast<const v1::ComputeStageRequest*>(send.head.get()) ==
              nullptr ||
          left_ == 0 || --left_ > 0) {
        continue;
      }
      lost_call_ = send.call;
      waited_for_ = core_.overdue(now);
      ++lost_;
      if (--times_ > 0) left_ = each_.load();
    }
  }

  Core& core_;
  CallId lost_call_ = 0;
  std::string waited_for_;
  std::atomic<int> each_{0};
  std::atomic<int> times_{0};
  std::atomic<int> left_{0};
  std::atomic<int> lost_{0};
};

// A worker and the process of its first device, joined by one runtime.
class Joined {
 public:
  // `patience`: zero if that process is missing.
  Joined(const CutCase& one, const v1::PipelineConfig& pipeline,
         const std::string& build = "b",
         absl::Duration patience = absl::Hours(1))
      : calls_({.index = 0, .incarnation = 5, .first = 0, .count = 1}),
        loses_(calls_.Around(&living_, runtime_->Waker())),
        stage_({.index = 0,
                .worker = 0,
                .build = build,
                .start_timeout = absl::Hours(1),
                .lease = absl::Hours(1)},
               StagesOfCase(one, pipeline)) {
    RemoteStages::Options options;
    options.incarnation = 5;
    options.build = "b";
    options.count = 1;
    options.patience = patience;
    options.names_features = !FeaturesNamedBy(ConfigOf(one)).empty();
    auto remote = std::make_shared<RemoteStages>(options, &calls_);
    remote->SetInput(one.input);
    std::shared_ptr<const NetworkPlan> network =
        *PlanNetwork(ConfigOf(one), one.input);
    auto plan = PlanPipeline(pipeline, *network);
    model_ = std::make_unique<PipelineModel>(
        network, *std::move(plan),
        std::vector<PipelineModel::MakeDevice>{MakeTestDevice}, "test", remote);
    runtime_->AddCore(PeerId::Worker(0), &loses_);
    if (patience > absl::ZeroDuration()) stage_.AddTo(runtime_.get());
    thread_ = std::thread([this] { end_ = runtime_->Run(); });
  }
  ~Joined() { End().IgnoreError(); }

  // The worker ends; what its stage ends with.
  absl::Status End() {
    if (thread_.joinable()) {
      living_.End();
      runtime_->Waker()();
      thread_.join();
      calls_.Close();
    }
    return end_;
  }

  PipelineModel* model() { return model_.get(); }
  LosesCalls& loses() { return loses_; }
  StageCalls& calls() { return calls_; }

 private:
  LivingCore living_;
  const std::unique_ptr<Runtime> runtime_ = MakeInProcessRuntime();
  StageCalls calls_;
  LosesCalls loses_;
  StageProcess stage_;
  std::unique_ptr<PipelineModel> model_;
  absl::Status end_;
  std::thread thread_;
};

std::vector<v1::PipelineConfig> Pipelines() {
  using Config = v1::PipelineConfig;
  return {Pipeline(2, 4),
          Pipeline(2, 4, Config::SCHEDULE_GPIPE),
          Pipeline(2, 4, Config::SCHEDULE_NAIVE),
          Pipeline(2, 4, Config::SCHEDULE_ZERO_BUBBLE),
          Pipeline(4, 4, Config::SCHEDULE_INTERLEAVED, 2),
          Pipeline(3, 4)};
}

TEST(RemoteStagesTest, EachScheduleHasTheBitsOfStagesInOneProcess) {
  for (const CutCase& one : CutCases()) {
    for (const v1::PipelineConfig& pipeline : Pipelines()) {
      SCOPED_TRACE(one.name + " " + pipeline.ShortDebugString());
      const auto here = CutModel(one, pipeline);
      Memory expected(here->variables());
      const Metrics metrics = Train(here.get(), one.input, 11, 3, &expected);
      Joined joined(one, pipeline);
      Memory found(joined.model()->variables());
      const Metrics its = Train(joined.model(), one.input, 11, 3, &found);
      EXPECT_EQ(found.weights, expected.weights);
      EXPECT_EQ(its.loss_sum, metrics.loss_sum);
      EXPECT_TRUE(joined.End().ok());
    }
  }
}

TEST(RemoteStagesTest, ItEvaluatesBesideStepsOnWeightsThatChangeOrDoNot) {
  for (const CutCase& one : CutCases()) {
    SCOPED_TRACE(one.name);
    const v1::PipelineConfig pipeline = Pipeline(2, 4);
    const auto here = CutModel(one, pipeline);
    Joined joined(one, pipeline);
    const auto clone = joined.model()->Clone();
    Memory memory(here->variables());
    for (int step = 0; step < 3; ++step) {
      for (int batch = 0; batch < 3; ++batch) {
        const Batch test = DrawnBatch(one.input, 6, batch);
        EXPECT_EQ(clone->Evaluate(memory.Weights(), test)->loss_sum,
                  here->Evaluate(memory.Weights(), test)->loss_sum);
      }
      Train(joined.model(), one.input, 11, 1, &memory);
    }
  }
}

TEST(RemoteStagesTest, OfATableTheRowsThatABatchReadsAreSent) {
  const CutCase one = {"Table", kWords, R"(
      layers { embedding { width: 8 sparse: true } }
      layers { layer_norm { epsilon: 1e-5 } } layers { dense { units: 6 } }
      layers { tanh {} } layers { dense { units: 7 } })"};
  const v1::PipelineConfig pipeline = Pipeline(2, 2);
  const auto here = CutModel(one, pipeline);
  Joined joined(one, pipeline);
  for (uint64_t seed = 1; seed < 6; ++seed) {
    const Batch batch = DrawnBatch(one.input, 1 + seed % 2, seed);
    std::vector<std::vector<uint64_t>> found(1);
    ASSERT_TRUE(here->FindRows(batch, absl::MakeSpan(found)).ok());
    const std::set<uint64_t> read(found[0].begin(), found[0].end());
    const std::vector<uint64_t> ascending(read.begin(), read.end());
    const std::vector<absl::Span<const uint64_t>> rows = {ascending};
    Memory expected(here->variables());
    expected.weights[0].resize(ascending.size() * 8);
    expected.gradients[0].resize(ascending.size() * 8);
    Memory its = expected;
    const auto step = [&](TrainedModel* model, Memory* memory) {
      return model
          ->Step(memory->Weights(), batch, {.divisor = 2, .rows = rows},
                 memory->Gradients(), [](size_t) {})
          ->loss_sum;
    };
    EXPECT_EQ(step(joined.model(), &its), step(here.get(), &expected));
    EXPECT_EQ(its.gradients, expected.gradients);
    EXPECT_EQ(
        joined.model()->EvaluateRows(its.Weights(), batch, rows)->loss_sum,
        here->EvaluateRows(its.Weights(), batch, rows)->loss_sum);
  }
}

TEST(RemoteStagesTest, AMiniBatchWhoseStageIsLostHasTheSameBits) {
  const CutCase one = CutCases()[1];  // With batch norm and dropped branches.
  for (const v1::PipelineConfig& pipeline : Pipelines()) {
    SCOPED_TRACE(pipeline.ShortDebugString());
    const auto here = CutModel(one, pipeline);
    Memory expected(here->variables());
    Train(here.get(), one.input, 11, 4, &expected);
    Joined joined(one, pipeline);
    Memory found(joined.model()->variables());
    // Another operation of a mini-batch each time.
    for (const int operation : {1, 2, 5, 9}) {
      joined.loses().LoseOperation(operation);
      Memory step = found;
      const Batch batch = DrawnBatch(one.input, 11, joined.loses().lost() + 1);
      ASSERT_TRUE(joined.model()
                      ->Step(found.Weights(), batch, {.divisor = 11, .seed = 3},
                             step.Gradients(), [](size_t) {})
                      .ok());
      found.gradients = step.gradients;
      found.Move();
    }
    EXPECT_EQ(joined.loses().lost(), 4);
    EXPECT_EQ(found.weights, expected.weights);
  }
}

// Which takes longer than its patience, as a long mini-batch does.
TEST(RemoteStagesTest, AMiniBatchIsLostSomeTimesAndNotForever) {
  const CutCase one = CutCases()[0];
  Joined joined(one, Pipeline(2, 4), "b", absl::Nanoseconds(1));
  Memory memory(joined.model()->variables());
  const auto step = [&] {
    return joined.model()
        ->Step(memory.Weights(), DrawnBatch(one.input, 11), {.divisor = 11},
               memory.Gradients(), [](size_t) {})
        .status();
  };
  joined.loses().LoseOperation(3, /*times=*/2);
  EXPECT_TRUE(step().ok());
  EXPECT_EQ(joined.loses().lost(), 2);
  joined.loses().LoseOperation(1, /*times=*/1000);
  const absl::Status status = step();
  EXPECT_TRUE(joined.End().ok());
  EXPECT_EQ(joined.loses().waited_for(),
            "a batch to be computed again: stage-0: connection lost");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(),
              ::testing::HasSubstr("a batch failed 11 times"));
  EXPECT_THAT(status.message(),
              ::testing::HasSubstr("stage-0: connection lost"));
}

TEST(RemoteStagesTest, ADeviceOfTheWorkerThatIsLostIsNotAwaited) {
  StageCalls calls({.index = 1, .incarnation = 5, .first = 1, .count = 1});
  calls.Close();
  RemoteStages::Options options;
  options.worker = 1;
  options.first = 1;
  options.count = 1;
  options.patience = absl::Hours(1);
  RemoteStages remote(options, &calls);
  const std::unique_ptr<StageLane> lane = remote.OpenLane();
  lane->Begin(nullptr);
  const absl::Status lost = absl::UnavailableError("cuda:0 is lost");
  EXPECT_EQ(lane->AwaitReturn(lost, 1, Time()), lost);
}

TEST(RemoteStagesTest, AStageOfAnotherBuildEndsTheStep) {
  const CutCase one = CutCases()[0];
  Joined joined(one, Pipeline(2, 4), "another");
  Memory memory(joined.model()->variables());
  const absl::Status status =
      joined.model()
          ->Step(memory.Weights(), DrawnBatch(one.input, 11), {.divisor = 11},
                 memory.Gradients(), [](size_t) {})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              ::testing::HasSubstr("another build of paramd"));
}

TEST(RemoteStagesTest, Promise4_AStageThatStaysAwayEndsTheStepByName) {
  const CutCase one = CutCases()[0];
  Joined joined(one, Pipeline(2, 4), "b", absl::ZeroDuration());
  Memory memory(joined.model()->variables());
  EXPECT_EQ(joined.model()
                ->Step(memory.Weights(), DrawnBatch(one.input, 11),
                       {.divisor = 11}, memory.Gradients(), [](size_t) {})
                .status(),
            absl::UnavailableError("waited 0 (start_timeout_ms) for a stage: "
                                   "stage-0 is not a known peer"));
}

TEST(RemoteStagesTest, WhoWaitsIsLetGoWhenTheWorkerEnds) {
  const CutCase one = CutCases()[0];
  Joined joined(one, Pipeline(2, 4));
  joined.calls().Close();
  Memory memory(joined.model()->variables());
  EXPECT_EQ(joined.model()
                ->Step(memory.Weights(), DrawnBatch(one.input, 11),
                       {.divisor = 11}, memory.Gradients(), [](size_t) {})
                .status()
                .code(),
            absl::StatusCode::kCancelled);
}

TEST(RemoteStagesTest, AnAbandonedStepLeavesTheNextOneAsItIs) {
  const CutCase one = CutCases()[0];
  const v1::PipelineConfig pipeline = Pipeline(2, 4);
  const auto here = CutModel(one, pipeline);
  Memory expected(here->variables());
  Train(here.get(), one.input, 11, 2, &expected);
  Joined joined(one, pipeline);
  Memory found(joined.model()->variables());
  const std::atomic<bool> abandoned{true};
  Memory dropped = found;
  EXPECT_TRUE(joined.model()
                  ->Step(dropped.Weights(), DrawnBatch(one.input, 11),
                         {.divisor = 11, .abandoned = &abandoned},
                         dropped.Gradients(), [](size_t) { FAIL(); })
                  .ok());
  Train(joined.model(), one.input, 11, 2, &found);
  EXPECT_EQ(found.weights, expected.weights);
}

}  // namespace
}  // namespace paramd
