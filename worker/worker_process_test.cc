#include "worker/worker_process.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "client/core/testing/configurations.h"
#include "compute/device/testing/emulated_device.h"
#include "compute/model/network.h"
#include "coordinator/core/testing/core_driver.h"
#include "proto/paramd/v1/data.pb.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::MakeConfiguration;
using testing::Numbers;

// Keeps what a process adds to a runtime, for the test to call.
class FakeRuntime : public Runtime {
 public:
  void AddCore(PeerId self, Core* added) override {
    name = self;
    core = added;
  }
  void OnExpired(PeerId, std::function<void(CallId)>) override {}
  void HandleIo(const google::protobuf::Descriptor* type,
                IoHandler handler) override {
    handlers[type] = std::move(handler);
  }
  void OnStatus(std::function<void(v1::StatusReply*)> fill) override {
    fill_status = std::move(fill);
  }
  v1::StatusReply Status() override { return {}; }
  void Ask(PeerId, Head, absl::Duration, Answer) override {}
  void Post(std::function<void()>) override {}
  std::function<void()> Waker() override {
    return [] {};
  }
  absl::Status Run() override { return absl::OkStatus(); }
  void Drain(absl::Status, absl::Duration) override {}
  void Stop(absl::Status) override {}

  PeerId name;
  Core* core = nullptr;
  std::map<const google::protobuf::Descriptor*, IoHandler> handlers;
  std::function<void(v1::StatusReply*)> fill_status;
};

void Append(uint32_t number, std::string* bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes->push_back(static_cast<char>(number >> shift));
  }
}

// A model that calls `during` in each of its steps.
class WatchedModel : public TrainedModel {
 public:
  WatchedModel(std::unique_ptr<TrainedModel> model,
               std::function<void(const Batch&)> during)
      : model_(std::move(model)), during_(std::move(during)) {}

  const std::vector<v1::Variable>& variables() const override {
    return model_->variables();
  }
  std::unique_ptr<TrainedModel> Clone() const override {
    return model_->Clone();
  }
  absl::StatusOr<Metrics> Step(WeightSpans weights, const Batch& batch,
                               const StepOptions& options,
                               GradientSpans gradients, Ready ready) override {
    during_(batch);
    return model_->Step(weights, batch, options, gradients, ready);
  }
  absl::StatusOr<Metrics> Evaluate(WeightSpans weights,
                                   const Batch& batch) override {
    return model_->Evaluate(weights, batch);
  }
  absl::Status Predict(WeightSpans weights, const Batch& batch,
                       Batch* out) override {
    return model_->Predict(weights, batch, out);
  }
  ModelCost cost() const override { return model_->cost(); }

 private:
  const std::unique_ptr<TrainedModel> model_;
  const std::function<void(const Batch&)> during_;
};

// Four training images of 2 x 2 with labels 0, 1, 0, 0; two to test on, 0 and
// 1. The model is one dense layer of two units.
class WorkerProcessTest : public ::testing::Test {
 protected:
  WorkerProcessTest() {
    WriteImages("train-images", 4);
    WriteLabels("train-labels", {0, 1, 0, 0});
    WriteImages("test-images", 2);
    WriteLabels("test-labels", {0, 1});
    options_.index = 1;
    options_.incarnation = 7;
    v1::JobConfig& job = options_.job;
    job.set_batch_per_replica(3);
    job.set_portion_batches(2);
    job.set_epochs(1);
    job.set_seed(1);
    job.set_chunk_bytes(1 << 20);
    job.set_heartbeat_ms(1000);
    job.set_start_timeout_ms(60000);
    job.mutable_input()->set_format(v1::InputConfig::IDX);
    job.mutable_input()->set_directory(::testing::TempDir());
    job.mutable_input()->set_train_images(Name("train-images"));
    job.mutable_input()->set_train_labels(Name("train-labels"));
    job.mutable_input()->set_test_images(Name("test-images"));
    job.mutable_input()->set_test_labels(Name("test-labels"));
    job.mutable_model()->add_layers()->mutable_flatten();
    job.mutable_model()->add_layers()->mutable_dense()->set_units(2);
    job.mutable_model()->set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  }

  // Each test has files of its own.
  static std::string Name(const std::string& name) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return absl::StrCat(test->name(), "-", name);
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(absl::StrCat(::testing::TempDir(), "/", Name(name)),
                  std::ios::binary)
        << bytes;
  }
  void WriteImages(const std::string& name, uint32_t count) {
    std::string bytes;
    for (const uint32_t number : {0x803u, count, 2u, 2u}) {
      Append(number, &bytes);
    }
    bytes.append(4 * count, '\x7f');
    Write(name, bytes);
  }
  void WriteLabels(const std::string& name, const std::vector<char>& labels) {
    std::string bytes;
    Append(0x801, &bytes);
    Append(static_cast<uint32_t>(labels.size()), &bytes);
    bytes.append(labels.begin(), labels.end());
    Write(name, bytes);
  }

  // No pixel is a class.
  void LeaveNoExample() {
    v1::InputConfig* const input = options_.job.mutable_input();
    input->set_on_error(v1::InputConfig::ON_ERROR_SKIP);
    auto* const one_hot = input->add_stages()->mutable_one_hot();
    one_hot->set_feature("image");
    one_hot->set_classes(1);
  }

  // ---- the process, joined to a cluster of one server
  ModelFactory models_ = BuiltInModels();

  void Join() {
    auto process = WorkerProcess::Create(
        options_,
        [this](const v1::JobConfig& job, const InputSpec& input)
            -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
          ASSIGN_OR_RETURN(auto model, models_(job, input));
          return std::make_unique<WatchedModel>(
              std::move(model), [this](const Batch& batch) { OnStep(batch); });
        });
    ASSERT_TRUE(process.ok()) << process.status();
    process_ = *std::move(process);
    process_->AddTo(&runtime_);
    driver_ = std::make_unique<CoreDriver>(runtime_.core);
    driver_->Start();
    std::vector<testing::OwnedVariable> variables;
    for (const v1::Variable& variable : process_->variables()) {
      variables.push_back({variable.name(),
                           {variable.shape().begin(), variable.shape().end()},
                           0});
    }
    v1::JoinReply reply;
    *reply.mutable_generation() = testing::Pair(1, 7);
    *reply.mutable_configuration() = MakeConfiguration(variables, 1);
    driver_->Reply(*driver_->TakeSend<v1::JoinRequest>(), reply);
  }
  void GivePortion(uint64_t begin, uint64_t end) {
    v1::PortionReply reply;
    reply.set_term(1);
    reply.mutable_portion()->set_id(1);
    reply.mutable_portion()->set_epoch(1);
    reply.mutable_portion()->set_begin(begin);
    reply.mutable_portion()->set_end(end);
    driver_->Reply(*driver_->TakeSend<v1::PortionRequest>(), reply);
  }
  void AnswerPull(float value) {
    const auto sent = driver_->TakeSend<v1::PullRequest>();
    ASSERT_TRUE(sent.has_value());
    v1::PullReply reply;
    reply.set_encoding(v1::FP32);
    uint32_t elements = 0;
    for (const v1::PullBlock& asked :
         static_cast<const v1::PullRequest&>(*sent->head).blocks()) {
      v1::PulledBlock* block = reply.add_blocks();
      block->set_slice(asked.slice());
      block->set_block(asked.block());
      block->set_elements(asked.slice() == 0 ? 8 : 2);  // Kernel, bias.
      block->mutable_version()->set_life(1);
      elements += block->elements();
    }
    driver_->Reply(*sent, reply, {Floats(std::vector<float>(elements, value))});
  }
  void AnswerPush() {
    const auto sent = driver_->TakeSend<v1::PushRequest>();
    ASSERT_TRUE(sent.has_value());
    v1::PushReply reply;
    *reply.mutable_server_generation() = testing::Pair(1, 1);
    for (const v1::PushBlock& pushed :
         static_cast<const v1::PushRequest&>(*sent->head).blocks()) {
      v1::PushedBlock* const block = reply.add_blocks();
      block->set_slice(pushed.slice());
      block->set_block(pushed.block());
      block->set_result(v1::PushedBlock::APPLIED);
    }
    driver_->Reply(*sent, reply);
  }
  // Does the work that the core has asked for, as a runtime would.
  template <typename Head>
  IoResult Do() {
    auto& ios = driver_->ios;
    const auto found = std::find_if(ios.begin(), ios.end(), [](const auto& io) {
      return dynamic_cast<const Head*>(io.head.get()) != nullptr;
    });
    CHECK(found != ios.end(), "the core has asked for it");
    Outbox::IoItem item = std::move(*found);
    ios.erase(found);
    const IoId io = item.io;
    std::promise<IoResult> done;
    runtime_.handlers[Head::descriptor()](
        std::move(item),
        [&done](IoResult result) { done.set_value(std::move(result)); });
    IoResult result = done.get_future().get();
    result.io = io;
    return result;
  }

  // A share of sync mode, of a step of four examples.
  IoResult ComputeShare(uint64_t begin, uint64_t end,
                        absl::optional<Portion> next) {
    auto compute = std::make_unique<v1::ComputeGradient>();
    compute->set_epoch(1);
    compute->set_begin(begin);
    compute->set_end(end);
    compute->set_divide_by(4);
    if (next.has_value()) {
      compute->mutable_next()->set_epoch(1);
      compute->mutable_next()->set_begin(next->begin);
      compute->mutable_next()->set_end(next->end);
    }
    driver_->ios.clear();
    driver_->ios.push_back(
        {99,
         std::move(compute),
         {Floats(std::vector<float>(8)), Floats(std::vector<float>(2))}});
    return Do<v1::ComputeGradient>();
  }
  v1::InputStats Input() {
    v1::StatusReply status;
    runtime_.fill_status(&status);
    return status.worker().input();
  }
  void OnStep(const Batch& batch) {
    steps_.push_back(batch.range.begin);
    if (!during_step_) return;
    during_step_();
  }

  Worker::Options options_;
  FakeRuntime runtime_;
  std::function<void()> during_step_;
  std::vector<uint64_t> steps_;  // What each began with.
  std::unique_ptr<WorkerProcess> process_;
  std::unique_ptr<CoreDriver> driver_;
};

// ---- creating ---------------------------------------------------------------

TEST_F(WorkerProcessTest, ItKnowsTheVariablesAndTheNumberOfExamples) {
  const auto process = WorkerProcess::Create(options_);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->examples(), 4u);
  ASSERT_EQ((*process)->variables().size(), 2u);
  EXPECT_THAT((*process)->variables()[0].shape(), ElementsAre(4, 2));
  EXPECT_THAT((*process)->variables()[1].shape(), ElementsAre(2));
}

TEST_F(WorkerProcessTest, Promise9_ATruncatedFileIsRefusedByName) {
  Write("train-images", std::string("\0\0\x08\x03\0\0", 6));
  const absl::Status status = WorkerProcess::Create(options_).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("train-images"));
}

TEST_F(WorkerProcessTest, Promise9_AMissingTestSetIsRefusedByName) {
  options_.job.mutable_input()->set_test_labels("nowhere");
  const absl::Status status = WorkerProcess::Create(options_).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("nowhere"));
}

TEST_F(WorkerProcessTest, Promise9_LayersThatDoNotFitAreRefused) {
  options_.job.mutable_model()->mutable_layers(1)->mutable_dense()->set_units(
      1);  // Fewer than there are classes.
  const absl::Status status = WorkerProcess::Create(options_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// ---- working ----------------------------------------------------------------

TEST_F(WorkerProcessTest, ItsCoreIsTheWorkerOfItsIndex) {
  Join();
  EXPECT_EQ(runtime_.name, PeerId::Worker(1));
  v1::StatusReply status;
  runtime_.fill_status(&status);
  EXPECT_EQ(status.generation().counter(), 7u);
}

TEST_F(WorkerProcessTest, ABestMetricThatTheModelDoesNotHaveIsRefused) {
  EXPECT_EQ((*WorkerProcess::Create(options_))->best_metric(), "");
  options_.job.mutable_checkpoint()->set_best_metric(
      v1::CheckpointConfig::PERPLEXITY);
  for (const absl::Status& status :
       {WorkerProcess::Create(options_).status(),
        WorkerProcess::Check(options_.job).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("checkpoint.best_metric is perplexity"));
  }
  options_.job.mutable_model()->add_metrics(v1::ModelConfig::PERPLEXITY);
  EXPECT_EQ((*WorkerProcess::Create(options_))->best_metric(), "perplexity");
}

TEST_F(WorkerProcessTest, AGradientIsOfTheLeasedExamplesOnThePulledWeights) {
  Join();
  GivePortion(0, 4);
  AnswerPull(0);
  EXPECT_TRUE(Do<v1::FetchPortion>().status.ok());
  const IoResult result = Do<v1::ComputeGradient>();
  ASSERT_TRUE(result.status.ok()) << result.status;
  const auto& computed =
      static_cast<const v1::ComputeGradientResult&>(*result.head);
  EXPECT_EQ(computed.examples(), 3u);
  EXPECT_NEAR(computed.loss(), 3 * std::log(2.0), 1e-5);
  ASSERT_EQ(computed.metrics_size(), 1);
  EXPECT_EQ(computed.metrics(0).name(), "accuracy");
  EXPECT_EQ(computed.metrics(0).count(), 3);
  ASSERT_EQ(result.payload.size(), 2u);  // One run of bytes a variable.
  EXPECT_EQ(result.payload[0].size(), 8 * sizeof(float));
  const std::vector<float> bias = Numbers({result.payload[1]});
  ASSERT_EQ(bias.size(), 2u);
  EXPECT_FLOAT_EQ(bias[0], -bias[1]);
  EXPECT_NE(bias[0], 0);
}

TEST_F(WorkerProcessTest, ALostDeviceEndsTheWorkerWhichMayBeStartedAgain) {
  models_ = [](const v1::JobConfig& job, const InputSpec& input)
      -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
    ASSIGN_OR_RETURN(auto model, Network::Create(job.model(), input, [] {
                       return std::make_unique<EmulatedDevice>(
                           EmulatedAccelerator::Options{.lost_after = 5});
                     }));
    return std::unique_ptr<TrainedModel>(std::move(model));
  };
  Join();
  GivePortion(0, 4);
  AnswerPull(0);
  EXPECT_TRUE(Do<v1::FetchPortion>().status.ok());
  IoResult result = Do<v1::ComputeGradient>();
  driver_->End(result.io, result.status, std::move(result.head),
               std::move(result.payload));
  // The program makes 138 of it.
  EXPECT_EQ(driver_->exit_status, absl::UnavailableError("emulated:0 is lost"));
}

TEST_F(WorkerProcessTest, ADeviceThatIsNotThereIsRefusedByName) {
  options_.job.set_device("cuda:77");
  const absl::Status status = WorkerProcess::Create(options_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status) ||
              absl::IsInvalidArgument(status))
      << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("device"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cuda:77"));
  options_.job.set_device("gpu");
  EXPECT_THAT(std::string(WorkerProcess::Create(options_).status().message()),
              HasSubstr("device is 'gpu'; it must be cpu, auto, cuda, or "));
  options_.job.set_device("cpu");
  EXPECT_TRUE(WorkerProcess::Create(options_).ok());
}

TEST_F(WorkerProcessTest, OnlyTheGradientUnderWayIsAbandoned) {
  Join();
  GivePortion(0, 4);
  AnswerPull(0);
  EXPECT_TRUE(Do<v1::FetchPortion>().status.ok());
  driver_->ios.push_back({98, std::make_unique<v1::AbandonGradient>(), {}});
  EXPECT_TRUE(Do<v1::AbandonGradient>().status.ok());
  const IoResult result = Do<v1::ComputeGradient>();
  EXPECT_TRUE(result.status.ok()) << result.status;
}

TEST_F(WorkerProcessTest, TheLastBatchOfAPortionIsShort) {
  Join();
  GivePortion(0, 4);
  AnswerPull(0);
  EXPECT_TRUE(Do<v1::FetchPortion>().status.ok());
  IoResult first = Do<v1::ComputeGradient>();
  driver_->End(first.io, first.status, std::move(first.head),
               std::move(first.payload));
  AnswerPush();
  AnswerPull(0);
  const IoResult second = Do<v1::ComputeGradient>();
  ASSERT_TRUE(second.status.ok()) << second.status;
  EXPECT_EQ(
      static_cast<const v1::ComputeGradientResult&>(*second.head).examples(),
      1u);
}

TEST_F(WorkerProcessTest, InputOfALostSessionIsSkipped) {
  Join();
  GivePortion(0, 3);
  EXPECT_TRUE(Do<v1::FetchPortion>().status.ok());
  GivePortion(3, 4);
  EXPECT_TRUE(Do<v1::FetchPortion>().status.ok());
  AnswerPull(0);
  ASSERT_FALSE(driver_->ios.empty());
  Outbox::IoItem item = std::move(driver_->ios.front());
  driver_->ios.clear();
  auto later = std::make_unique<v1::ComputeGradient>();
  later->set_epoch(1);
  later->set_begin(3);
  later->set_end(4);
  driver_->ios.push_back({99, std::move(later), std::move(item.payload)});
  const IoResult result = Do<v1::ComputeGradient>();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(
      static_cast<const v1::ComputeGradientResult&>(*result.head).examples(),
      1u);
}

TEST_F(WorkerProcessTest, TheNextShareIsMadeWhileOneIsComputed) {
  Join();
  uint64_t ready = 0;
  during_step_ = [&] {
    // The step does not end before the batch of the next one is there.
    const Time begin = MonotonicNow();
    while (ready == 0 && MonotonicNow() - begin < absl::Seconds(30)) {
      std::this_thread::yield();
      ready = Input().ready_batches();
    }
  };
  EXPECT_TRUE(ComputeShare(0, 2, Portion{1, 2, 4}).status.ok());
  EXPECT_EQ(ready, 1u);
  during_step_ = nullptr;
  EXPECT_TRUE(ComputeShare(2, 4, absl::nullopt).status.ok());
  EXPECT_THAT(steps_, ElementsAre(0, 2));
  EXPECT_EQ(Input().batches(), 2u);
  EXPECT_EQ(Input().ready_batches(), 0u);
}

TEST_F(WorkerProcessTest, AShareThatWasNotExpectedIsComputedAllTheSame) {
  Join();
  EXPECT_TRUE(ComputeShare(0, 1, Portion{1, 1, 2}).status.ok());
  // Other contributors; the same once more; and on from there.
  EXPECT_TRUE(ComputeShare(3, 4, Portion{1, 1, 2}).status.ok());
  EXPECT_TRUE(ComputeShare(3, 4, Portion{1, 1, 2}).status.ok());
  EXPECT_TRUE(ComputeShare(1, 2, absl::nullopt).status.ok());
  EXPECT_TRUE(ComputeShare(1, 2, absl::nullopt).status.ok());
  EXPECT_THAT(steps_, ElementsAre(0, 3, 3, 1, 1));
  EXPECT_EQ(Input().ready_batches(), 0u);
}

TEST_F(WorkerProcessTest, AShareOutsideTheDataIsRefused) {
  Join();
  EXPECT_TRUE(absl::IsOutOfRange(ComputeShare(2, 5, absl::nullopt).status));
  EXPECT_THAT(steps_, ElementsAre());
}

TEST_F(WorkerProcessTest, APortionOutsideTheDataIsRefused) {
  Join();
  GivePortion(0, 5);  // There are 4 examples.
  EXPECT_FALSE(Do<v1::FetchPortion>().status.ok());
}

TEST_F(WorkerProcessTest, AnEvaluationIsOfTheWholeTestSet) {
  Join();
  v1::HeartbeatReply news;
  news.set_term(1);
  news.set_evaluate_epoch(1);
  driver_->Reply(*driver_->TakeSend<v1::HeartbeatRequest>(), news);
  AnswerPull(0);  // Of training,
  AnswerPull(0);  // and of the evaluation: the oldest comes first.
  const IoResult result = Do<v1::EvaluateWeights>();
  ASSERT_TRUE(result.status.ok()) << result.status;
  const v1::Evaluation& evaluation =
      static_cast<const v1::EvaluateWeightsResult&>(*result.head).evaluation();
  EXPECT_EQ(evaluation.epoch(), 1u);
  EXPECT_EQ(evaluation.examples(), 2u);
  EXPECT_EQ(evaluation.labels(), 2u);
  EXPECT_EQ(evaluation.metrics().at("accuracy"),
            0.5);  // The same guess for both.
  EXPECT_NEAR(evaluation.loss(), std::log(2.0), 1e-5);
}

// What a coordinator has put together of parts is what it has of one worker
// that evaluates all, to the bit.
TEST_F(WorkerProcessTest, PartsOfTheTestSetPutTogetherAreTheWhole) {
  constexpr uint32_t kTested = 1201;  // Three batches.
  WriteImages("test-images", kTested);
  std::vector<char> labels(kTested);
  for (size_t i = 0; i < labels.size(); i += 3) labels[i] = 1;
  WriteLabels("test-labels", labels);
  options_.job.mutable_model()->add_metrics(v1::ModelConfig::AUC);
  Join();
  ASSERT_EQ(process_->test_batches(), 3u);
  const auto evaluate = [&](uint64_t begin, uint64_t end) {
    auto request = std::make_unique<v1::EvaluateWeights>();
    request->set_epoch(1);
    request->set_final(true);
    if (end > 0) {
      request->mutable_part()->set_begin(begin);
      request->mutable_part()->set_end(end);
    }
    driver_->ios.clear();
    driver_->ios.push_back({99,
                            std::move(request),
                            {Floats({.1f, .2f, -.3f, .4f, .5f, -.6f, .7f, .8f}),
                             Floats({.01f, -.02f})}});
    IoResult result = Do<v1::EvaluateWeights>();
    EXPECT_TRUE(result.status.ok()) << result.status;
    return static_cast<const v1::EvaluateWeightsResult&>(*result.head);
  };
  auto merge = std::make_unique<v1::MergeBatches>();
  merge->set_epoch(1);
  for (const auto& [begin, end] : {std::pair(0, 1), std::pair(1, 3)}) {
    const v1::EvaluateWeightsResult part =
        evaluate(static_cast<uint64_t>(begin), static_cast<uint64_t>(end));
    EXPECT_EQ(part.batches_size(), end - begin);
    for (const auto& batch : part.batches()) *merge->add_batches() = batch;
  }
  const v1::EvaluateWeightsResult whole = evaluate(0, 0);
  driver_->ios.clear();
  driver_->ios.push_back({99, std::move(merge), {}});
  const IoResult merged = Do<v1::MergeBatches>();
  ASSERT_TRUE(merged.status.ok()) << merged.status;
  EXPECT_EQ(static_cast<const v1::EvaluateWeightsResult&>(*merged.head)
                .evaluation()
                .DebugString(),
            whole.evaluation().DebugString());
  EXPECT_EQ(whole.evaluation().metrics().count("auc"), 1u);
  EXPECT_EQ(whole.evaluation().examples(), kTested);
}

TEST_F(WorkerProcessTest, AnotherTestSetIsKnownByItsNumber) {
  Join();
  const uint64_t test_set = process_->test_set();
  EXPECT_NE(test_set, 0u);
  const auto again = WorkerProcess::Create(options_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->test_set(), test_set);
  WriteLabels("test-labels", {1, 1});
  const auto other = WorkerProcess::Create(options_);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE((*other)->test_set(), test_set);
}

// Of kernel and bias together.
double NormOf(const IoResult& result) {
  double squares = 0;
  for (const float value : Numbers(result.payload)) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares);
}

TEST_F(WorkerProcessTest, AllGradientsTogetherAreClippedAsThatOfAMean) {
  options_.job.mutable_optimizer()->set_clip_global_norm(0.01);
  Join();
  GivePortion(0, 4);
  AnswerPull(0);
  EXPECT_TRUE(Do<v1::FetchPortion>().status.ok());
  EXPECT_NEAR(NormOf(Do<v1::ComputeGradient>()), 0.01, 1e-5);
}

TEST_F(WorkerProcessTest, AShareOfAStepIsClippedAsThatOfItsExamples) {
  options_.job.mutable_optimizer()->set_clip_global_norm(0.01);
  Join();
  // Divided by the four of the step.
  EXPECT_NEAR(NormOf(ComputeShare(0, 3, absl::nullopt)), 0.0075, 1e-5);
  EXPECT_NEAR(NormOf(ComputeShare(3, 4, absl::nullopt)), 0.0025, 1e-5);
}

TEST_F(WorkerProcessTest, ABatchOfWhichNothingIsLeftChangesNoWeight) {
  LeaveNoExample();
  Join();
  GivePortion(0, 4);
  AnswerPull(0);
  EXPECT_TRUE(Do<v1::FetchPortion>().status.ok());
  const IoResult result = Do<v1::ComputeGradient>();
  ASSERT_TRUE(result.status.ok()) << result.status;
  const auto& head =
      static_cast<const v1::ComputeGradientResult&>(*result.head);
  EXPECT_EQ(head.examples(), 0u);
  EXPECT_THAT(Numbers({result.payload[0]}), Each(0.0f));
  EXPECT_THAT(Numbers({result.payload[1]}), Each(0.0f));
}

TEST_F(WorkerProcessTest, AnEvaluationOfNoExamplesSaysWhy) {
  LeaveNoExample();
  Join();
  v1::HeartbeatReply news;
  news.set_term(1);
  news.set_evaluate_epoch(1);
  driver_->Reply(*driver_->TakeSend<v1::HeartbeatRequest>(), news);
  AnswerPull(0);
  AnswerPull(0);
  const absl::Status status = Do<v1::EvaluateWeights>().status;
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("none could be read"));
}

}  // namespace
}  // namespace paramd
