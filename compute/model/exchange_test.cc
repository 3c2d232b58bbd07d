// A network on a device with a memory and a time of its own.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "base/check.h"
#include "base/chrome_trace.h"
#include "base/clock.h"
#include "base/random.h"
#include "compute/device/testing/emulated_device.h"
#include "compute/device/testing/emulated_kernels.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

const InputSpec kInput = LabelledImages({6, 6}, 4);

v1::ModelConfig Parsed(const std::string& layers) {
  v1::ModelConfig config;
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  CHECK(google::protobuf::TextFormat::MergeFromString(layers, &config),
        "the test's models are read");
  return config;
}

// Has a layer of each kind that draws, or that keeps what it computed.
v1::ModelConfig Convolutional() {
  return Parsed(R"(
      layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 bias: true } }
      layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
      layers { residual { drop_rate: 0.2
        layers { relu {} }
        layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 } } } }
      layers { max_pool { size: 2 stride: 2 } }
      layers { flatten {} }
      layers { dense { units: 30 } } layers { relu {} }
      layers { dense { units: 30 } } layers { gelu {} }
      layers { dropout { rate: 0.3 } } layers { dense { units: 4 } })");
}

// The same, all but its last layer in groups of three that are computed again.
v1::ModelConfig Recomputed() {
  const v1::ModelConfig whole = Convolutional();
  v1::ModelConfig config = Parsed("");
  v1::Layer::Recompute* group = nullptr;
  for (int i = 0; i + 1 < whole.layers_size(); ++i) {
    if (i % 3 == 0) group = config.add_layers()->mutable_recompute();
    *group->add_layers() = whole.layers(i);
  }
  *config.add_layers() = whole.layers(whole.layers_size() - 1);
  return config;
}

Batch RandomBatch(size_t size, uint64_t seed) {
  RandomStream random(seed);
  Batch batch;
  batch.Reset(kInput, size);
  batch.range = {.epoch = 1, .begin = 10, .end = 10 + size};
  for (float& value : batch.Find("image")->values<float>()) {
    value = random.Uniform();
  }
  for (int32_t& label : batch.Find("label")->values<int32_t>()) {
    label = static_cast<int32_t>(random.Below(4));
  }
  return batch;
}

// A network with weights, on a device whose accelerator is seen.
class Trial {
 public:
  // Null options: on the processor.
  Trial(const v1::ModelConfig& config,
        const EmulatedAccelerator::Options* options,
        ComputeFormat format = ComputeFormat::kFp32) {
    const auto make = [=, this]() -> std::unique_ptr<Device> {
      auto device = std::make_unique<EmulatedDevice>(*options);
      device->SetComputeFormat(format);
      accelerator_ = device->accelerator();
      return device;
    };
    model_ = options == nullptr ? *Network::Create(config, kInput)
                                : *Network::Create(config, kInput, make);
    RandomStream random(5);
    for (const v1::Variable& variable : model_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      values_.emplace_back(size);
      for (float& value : values_.back()) value = random.Uniform() - 0.3f;
      gradients_.emplace_back(size, 0.0f);
    }
  }

  absl::StatusOr<Metrics> Step(
      const Batch& batch, TrainedModel::Ready ready = [](size_t) {}) {
    const std::vector<absl::Span<const float>> weights(values_.begin(),
                                                       values_.end());
    std::vector<absl::Span<float>> spans;
    for (auto& one : gradients_) {
      std::fill(one.begin(), one.end(),
                std::numeric_limits<float>::quiet_NaN());
      spans.push_back(absl::MakeSpan(one));
    }
    TrainedModel::StepOptions options{
        .divisor = 8, .abandoned = &abandoned, .seed = 3};
    if (next != nullptr) options.next = [this] { return next; };
    return model_->Step(weights, batch, options, spans, ready);
  }
  absl::StatusOr<Metrics> Evaluate(const Batch& batch) {
    const std::vector<absl::Span<const float>> weights(values_.begin(),
                                                       values_.end());
    return model_->Evaluate(weights, batch);
  }

  void SetTrace(ChromeTrace* trace) { model_->SetTrace(trace); }

  // As a server would.
  void Move() {
    for (size_t v = 0; v < values_.size(); ++v) {
      for (size_t i = 0; i < values_[v].size(); ++i) {
        values_[v][i] -= 0.01f * gradients_[v][i];
      }
    }
  }

  EmulatedAccelerator* accelerator() { return accelerator_; }
  std::vector<std::vector<float>>& values() { return values_; }
  const std::vector<std::vector<float>>& gradients() { return gradients_; }

  std::atomic<bool> abandoned{false};
  const Batch* next = nullptr;

 private:
  EmulatedAccelerator* accelerator_ = nullptr;
  std::unique_ptr<Network> model_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<float>> gradients_;
};

TEST(ExchangeTest, AStepGivesTheBitsOfTheProcessorWhateverTheDelays) {
  Trial cpu(Convolutional(), nullptr);
  std::vector<std::vector<std::vector<float>>> wanted;
  for (uint64_t step = 0; step < 5; ++step) {
    ASSERT_TRUE(cpu.Step(RandomBatch(8 - step, step)).ok());
    wanted.push_back(cpu.gradients());
    cpu.Move();
  }
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const EmulatedAccelerator::Options options{.seed = seed};
    Trial run(Convolutional(), &options);
    for (uint64_t step = 0; step < 5; ++step) {
      ASSERT_TRUE(run.Step(RandomBatch(8 - step, step)).ok());
      ASSERT_EQ(run.gradients(), wanted[step]) << "seed " << seed;
      run.Move();
    }
    EXPECT_EQ(run.accelerator()->unpinned_copies(), 0u);
  }
}

TEST(ExchangeTest, LayersThatAreComputedAgainGiveTheSameBits) {
  Trial cpu(Convolutional(), nullptr);
  std::vector<std::vector<std::vector<float>>> wanted;
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(cpu.Step(RandomBatch(8 - step, step)).ok());
    wanted.push_back(cpu.gradients());
    cpu.Move();
  }
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const EmulatedAccelerator::Options options{.seed = seed};
    Trial run(Recomputed(), &options);
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(run.Step(RandomBatch(8 - step, step)).ok());
      ASSERT_EQ(run.gradients(), wanted[step]) << "seed " << seed;
      run.Move();
    }
    EXPECT_EQ(run.accelerator()->unpinned_copies(), 0u);
  }
}

TEST(ExchangeTest, AGradientIsThereWhenItsVariableIsReady) {
  const EmulatedAccelerator::Options options{.seed = 4};
  Trial cpu(Convolutional(), nullptr);
  ASSERT_TRUE(cpu.Step(RandomBatch(8, 1)).ok());
  Trial run(Convolutional(), &options);
  size_t heard = 0;
  ASSERT_TRUE(run.Step(RandomBatch(8, 1),
                       [&](size_t v) {
                         EXPECT_EQ(run.gradients()[v], cpu.gradients()[v]);
                         ++heard;
                       })
                  .ok());
  EXPECT_EQ(heard, run.gradients().size());
}

TEST(ExchangeTest, AStepAfterTheFirstAllocatesNothingOnTheDevice) {
  const EmulatedAccelerator::Options options{};
  Trial run(Convolutional(), &options);
  ASSERT_TRUE(run.Step(RandomBatch(8, 1)).ok());
  const uint64_t before = run.accelerator()->allocations();
  for (uint64_t step = 0; step < 5; ++step) {
    ASSERT_TRUE(run.Step(RandomBatch(8 - step, step)).ok());
    run.Move();
  }
  EXPECT_EQ(run.accelerator()->allocations(), before);
}

// Zeros.
Batch BlankBatch(const InputSpec& input, uint64_t size) {
  Batch batch;
  batch.Reset(input, size);
  for (Column& column : batch.columns) {
    std::memset(column.tensor().data, 0,
                column.tensor().size() * SizeOf(column.spec().dtype));
  }
  return batch;
}

// Steps on a device with the kernels of a GPU, whose primitives allocate what
// they need: all do so in the first two.
void ExpectNoAllocationsLater(const v1::ModelConfig& config,
                              const InputSpec& input, ComputeFormat format) {
  EmulatedAccelerator* accelerator = nullptr;
  const auto model = *Network::Create(config, input, [&] {
    auto device = std::make_unique<EmulatedKernelDevice>(
        EmulatedAccelerator::Options{.in_haste = true});
    device->SetComputeFormat(format);
    accelerator = device->accelerator();
    return device;
  });
  std::vector<std::vector<float>> values;
  for (const v1::Variable& variable : model->variables()) {
    size_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    values.emplace_back(size, 0.1f);
  }
  std::vector<std::vector<float>> gradients = values;
  const std::vector<absl::Span<const float>> weights(values.begin(),
                                                     values.end());
  std::vector<absl::Span<float>> spans;
  for (auto& one : gradients) spans.push_back(absl::MakeSpan(one));
  uint64_t before = 0;
  for (uint64_t step = 0; step < 8; ++step) {
    if (step == 2) before = accelerator->allocations();
    const Batch batch = BlankBatch(input, 8 - step % 3);
    const Batch next = BlankBatch(input, 8 - step % 3);
    values[0][0] += 1;
    ASSERT_TRUE(model
                    ->Step(weights, batch,
                           {.divisor = 8, .next = [&] { return &next; }}, spans,
                           [](size_t) {})
                    .ok());
  }
  EXPECT_GT(before, 0u);
  EXPECT_EQ(accelerator->allocations(), before) << NameOf(format);
  EXPECT_EQ(accelerator->unpinned_copies(), 0u);
}

TEST(ExchangeTest, StepsAfterTheSecondAllocateNothingOnADeviceWithKernels) {
  const InputSpec text{
      {FeatureSpec{
           .name = "text", .dtype = DType::kInt32, .dims = {6}, .classes = 5},
       FeatureSpec{.name = "label",
                   .dtype = DType::kInt32,
                   .dims = {6},
                   .classes = 5}}};
  const v1::ModelConfig mlp = Parsed(R"(
      layers { flatten {} } layers { dense { units: 30 } } layers { relu {} }
      layers { dense { units: 30 } } layers { relu {} }
      layers { dense { units: 4 } })");
  const v1::ModelConfig gpt = Parsed(R"(
      layers { embedding { width: 8 name: "tokens" } }
      layers { positional_embedding {} }
      layers { residual { layers { layer_norm { epsilon: 1e-5 } }
                          layers { attention { heads: 2 causal: true } } } }
      layers { residual { layers { layer_norm { epsilon: 1e-5 } }
                          layers { dense { units: 16 } } layers { gelu {} }
                          layers { dense { units: 8 } } } }
      layers { dense { units: 5 } })");
  v1::ModelConfig again = gpt;
  for (const int block : {2, 3}) {
    *again.mutable_layers(block)->mutable_recompute()->add_layers() =
        gpt.layers(block);
  }
  for (const auto format : {ComputeFormat::kFp32, ComputeFormat::kBf16}) {
    for (const auto& [config, input] :
         {std::pair(mlp, kInput), std::pair(Convolutional(), kInput),
          std::pair(Recomputed(), kInput), std::pair(gpt, text),
          std::pair(again, text)}) {
      ExpectNoAllocationsLater(config, input, format);
    }
  }
}

TEST(ExchangeTest, FewerRowsToSumNeedNoMoreMemory) {
  EmulatedKernelDevice device({.in_haste = true});
  constexpr uint64_t kMost = 9000;
  const Device::Memory in = device.Allocate(kMost * sizeof(float));
  const Device::Memory out = device.Allocate(sizeof(float));
  const auto sum = [&](uint64_t rows) {
    device.SumRows({in.get(), DType::kFloat32, {rows, 1}},
                   {out.get(), DType::kFloat32, {1}});
  };
  sum(kMost);
  const uint64_t before = device.accelerator()->allocations();
  for (uint64_t rows = kMost; rows > 8000; rows -= 7) sum(rows);
  EXPECT_EQ(device.accelerator()->allocations(), before);
  device.Finish();
}

TEST(ExchangeTest, WhatIsStillReadIsNotOverwrittenByTheNextPass) {
  constexpr uint64_t kPasses = 200;
  constexpr uint64_t kSize = 1000;
  EmulatedDevice device({.seed = 7});
  Exchange exchange(&device, /*variables=*/0);
  const Device::Memory sums = device.Allocate(kPasses * kSize * sizeof(float));
  const auto sum = [&](uint64_t pass) {
    return Tensor{static_cast<float*>(sums.get()) + pass * kSize,
                  DType::kFloat32,
                  {kSize}};
  };
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    exchange.Begin();
    const std::vector<float> values(kSize, static_cast<float>(pass));
    const ConstTensor there =
        exchange.BringInput(0, {values.data(), DType::kFloat32, {kSize}});
    device.Add(there, 1, there, sum(pass));
  }
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    for (const float value : exchange.TakeOutput(sum(pass)).values<float>()) {
      ASSERT_EQ(value, static_cast<float>(2 * pass));
    }
  }
}

// Consecutive ones, of different sizes.
std::vector<Batch> RandomBatches(size_t count) {
  std::vector<Batch> batches;
  for (size_t i = 0; i < count; ++i) {
    batches.push_back(RandomBatch(8 - i % 3, i));
    batches.back().range.begin = 100 * i;
    batches.back().range.end = 100 * i + batches.back().size();
  }
  return batches;
}

TEST(ExchangeTest, ABatchThatIsBroughtAheadIsTheOneThatIsComputed) {
  const std::vector<Batch> batches = RandomBatches(8);
  // Its first layer waits for no weights.
  const v1::ModelConfig pooling = Parsed(R"(
      layers { max_pool { size: 2 stride: 2 } } layers { flatten {} }
      layers { dense { units: 4 } })");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const EmulatedAccelerator::Options options{.seed = seed};
    const v1::ModelConfig config = seed % 2 == 0 ? pooling : Convolutional();
    Trial cpu(config, nullptr);
    Trial run(config, &options);
    for (size_t i = 0; i < batches.size(); ++i) {
      // Some do not come, and some are not made yet.
      run.next = i % 4 == 3 ? nullptr : &batches[(i + 1 + i / 5) % 8];
      ASSERT_TRUE(cpu.Step(batches[i]).ok());
      ASSERT_TRUE(run.Step(batches[i]).ok());
      ASSERT_EQ(run.gradients(), cpu.gradients()) << "seed " << seed;
      // What is evaluated meanwhile is not it.
      EXPECT_EQ(run.Evaluate(batches[7 - i])->loss_sum,
                cpu.Evaluate(batches[7 - i])->loss_sum);
      cpu.Move();
      run.Move();
    }
    EXPECT_EQ(run.accelerator()->unpinned_copies(), 0u);
  }
}

TEST(ExchangeTest, ABatchThatWasBroughtAheadDoesNotCrossAgain) {
  std::vector<Batch> batches = RandomBatches(2);
  const EmulatedAccelerator::Options options{.in_haste = true};
  Trial run(Convolutional(), &options);
  const auto copied_by = [&](const Batch& batch) {
    const uint64_t before = run.accelerator()->bytes_copied();
    CHECK(run.Step(batch).ok(), "a step is computed");
    return run.accelerator()->bytes_copied() - before;
  };
  copied_by(batches[1]);
  const uint64_t whole = copied_by(batches[1]);
  const uint64_t input = batches[1].size() * 36 * sizeof(float);
  run.next = &batches[1];
  copied_by(batches[0]);
  run.next = nullptr;
  EXPECT_EQ(copied_by(batches[1]), whole - input);
  EXPECT_EQ(copied_by(batches[1]), whole);
  // Its memory is another one's by now.
  run.next = &batches[1];
  copied_by(batches[0]);
  run.next = nullptr;
  batches[1].range.begin += 1;
  EXPECT_EQ(copied_by(batches[1]), whole);
}

TEST(ExchangeTest, WithoutMemoryForAnotherBatchNoneIsBroughtAhead) {
  const std::vector<Batch> batches = RandomBatches(2);
  EmulatedAccelerator::Options options;
  Trial measured(Convolutional(), &options);
  ASSERT_TRUE(measured.Step(batches[0]).ok());
  ASSERT_TRUE(measured.Step(batches[1]).ok());
  // Room for offsets, which may come, and not for a batch.
  options.memory_bytes -= measured.accelerator()->FreeBytes() - 200;
  Trial run(Convolutional(), &options);
  for (int again = 0; again < 3; ++again) {
    run.next = &batches[1];
    ASSERT_TRUE(run.Step(batches[0]).ok());
    run.next = &batches[0];
    ASSERT_TRUE(run.Step(batches[1]).ok());
  }
}

// By lane, the events of a trace, each with its begin and end in microseconds.
struct Traced {
  std::string name;
  double begin;
  double end;
};
std::map<std::string, std::vector<Traced>> LanesOf(const ChromeTrace& trace) {
  std::map<int, std::string> lanes;
  std::map<std::string, std::vector<Traced>> found;
  const auto all = nlohmann::json::parse(trace.ToJson());
  for (const auto& event : all.at("traceEvents")) {
    const std::string name = event.at("name");
    if (name == "thread_name") {
      lanes[event.at("tid")] = event.at("args").at("name");
    } else if (name != "process_name") {
      const double begin = event.at("ts");
      found[lanes.at(event.at("tid"))].push_back(
          {name, begin, begin + event.at("dur").get<double>()});
    }
  }
  return found;
}

size_t CountOf(const std::vector<Traced>& events, const std::string& name) {
  return std::count_if(events.begin(), events.end(),
                       [&](const Traced& event) { return event.name == name; });
}

double Microseconds(Time time) {
  return static_cast<double>(time.nanoseconds()) / 1000;
}

TEST(ExchangeTest, ATraceShowsWhatCrossedWhen) {
  const std::vector<Batch> batches = RandomBatches(2);
  ChromeTrace trace("worker-0");
  const EmulatedAccelerator::Options options{.seed = 3};
  Trial run(Convolutional(), &options);
  const Time before = MonotonicNow();
  run.SetTrace(&trace);
  // The trace's clock may be late by as much as its start was waited for.
  const absl::Duration late = MonotonicNow() - before;
  run.next = &batches[1];
  ASSERT_TRUE(run.Step(batches[0]).ok());
  run.Move();
  run.next = nullptr;
  ASSERT_TRUE(run.Step(batches[1]).ok());
  ASSERT_TRUE(run.Evaluate(batches[0]).ok());
  const Time after = MonotonicNow();
  const auto lanes = LanesOf(trace);
  ASSERT_EQ(lanes.size(), 2u);
  const std::vector<Traced>& up = lanes.at("upload");
  const std::vector<Traced>& down = lanes.at("download");
  const size_t variables = run.gradients().size();
  EXPECT_EQ(CountOf(down, "gradients"), 2 * variables);
  EXPECT_EQ(CountOf(down, "losses"), 3u);
  EXPECT_EQ(CountOf(down, "outputs"), 0u);
  // What did not change does not cross.
  EXPECT_GT(CountOf(up, "weights"), variables);
  EXPECT_LE(CountOf(up, "weights"), 2 * variables);
  EXPECT_EQ(CountOf(up, "labels"), 3u);
  EXPECT_EQ(CountOf(up, "weights of labels"), 3u);
  EXPECT_EQ(CountOf(up, "batch"), 2u);
  EXPECT_EQ(CountOf(up, "batch ahead"), 1u);
  for (const auto& [lane, events] : lanes) {
    double last = Microseconds(before);
    for (const Traced& event : events) {
      // In order, one after the other, and when the host was waiting for them.
      EXPECT_GE(event.begin, last - 1) << lane << " " << event.name;
      EXPECT_GE(event.end, event.begin);
      last = event.end;
    }
    EXPECT_LE(last, Microseconds(after + late) + 1);
  }
}

TEST(ExchangeTest, ATraceOfManyStepsMakesNoMoreEvents) {
  ChromeTrace trace("worker-0");
  const EmulatedAccelerator::Options options{.in_haste = true};
  Trial run(Convolutional(), &options);
  const size_t before = run.accelerator()->events();
  run.SetTrace(&trace);
  for (int step = 0; step < 20; ++step) {
    run.Move();
    ASSERT_TRUE(run.Step(RandomBatch(8, 1)).ok());
  }
  // Two for all that crosses in one step, and where times begin.
  const size_t crossings = 2 * run.gradients().size() + 5;
  EXPECT_LE(run.accelerator()->events(), before + 2 * crossings + 1);
}

TEST(ExchangeTest, OnlyBlocksOfWeightsThatChangedCross) {
  const EmulatedAccelerator::Options options{.in_haste = true};
  // One variable of four blocks and a bit, after it a small one.
  Trial run(Parsed(R"(layers { flatten {} } layers { dense { units: 30000 } }
                    layers { dense { units: 4 } })"),
            &options);
  const auto copied_by = [&](auto change) {
    change();
    const uint64_t before = run.accelerator()->bytes_copied();
    CHECK(run.Evaluate(RandomBatch(1, 1)).ok(), "a pass is computed");
    return run.accelerator()->bytes_copied() - before;
  };
  const uint64_t first = copied_by([] {});
  const uint64_t none = copied_by([] {});
  EXPECT_EQ(first - none, (36 + 1 + 4) * 30000 * 4 + 4 * 4);
  const uint64_t one = copied_by([&] { run.values()[0][5] += 1; });
  EXPECT_EQ(one - none, Exchange::kBlock * sizeof(float));
  const uint64_t last = copied_by([&] { run.values()[0].back() += 1; });
  EXPECT_EQ(last - none, (36 * 30000 - 4 * Exchange::kBlock) * sizeof(float));
}

TEST(ExchangeTest, AChangedWeightIsSeen) {
  const EmulatedAccelerator::Options options{};
  Trial cpu(Convolutional(), nullptr);
  Trial run(Convolutional(), &options);
  const Batch batch = RandomBatch(5, 1);
  for (const float weight : {0.5f, -2.0f, 0.5f}) {
    cpu.values()[0][3] = run.values()[0][3] = weight;
    EXPECT_EQ(run.Evaluate(batch)->loss_sum, cpu.Evaluate(batch)->loss_sum);
  }
}

TEST(ExchangeTest, AnAbandonedStepLeavesNothingBehind) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const EmulatedAccelerator::Options options{.seed = seed};
    Trial cpu(Convolutional(), nullptr);
    Trial run(Convolutional(), &options);
    ASSERT_TRUE(
        run.Step(RandomBatch(8, 1), [&](size_t) { run.abandoned = true; })
            .ok());
    ASSERT_TRUE(run.Step(RandomBatch(8, 2)).ok());
    run.abandoned = false;
    ASSERT_TRUE(run.Step(RandomBatch(7, 3)).ok());
    ASSERT_TRUE(cpu.Step(RandomBatch(7, 3)).ok());
    EXPECT_EQ(run.gradients(), cpu.gradients());
  }
}

TEST(ExchangeTest, ALostDeviceEndsTheStepAndNoGradientIsReady) {
  // Wherever in the step it is lost.
  size_t whole = 0;
  for (uint64_t after = 1; whole == 0; after += 7) {
    const EmulatedAccelerator::Options options{.lost_after = after};
    Trial run(Convolutional(), &options);
    size_t ready = 0;
    const auto metrics = run.Step(RandomBatch(8, 1), [&](size_t) { ++ready; });
    if (metrics.ok()) {
      whole = after;
      break;
    }
    EXPECT_EQ(metrics.status(), absl::UnavailableError("emulated:0 is lost"));
    EXPECT_LT(ready, run.gradients().size());
    EXPECT_EQ(run.Step(RandomBatch(8, 1)).status(), metrics.status());
    EXPECT_EQ(run.Evaluate(RandomBatch(8, 1)).status(), metrics.status());
  }
  EXPECT_GT(whole, 50u);
}

TEST(ExchangeTest, ABatchThatDoesNotFitIsRefusedAndTheSentenceSaysWhatWould) {
  const EmulatedAccelerator::Options options{.memory_bytes = 3 << 20};
  Trial run(Convolutional(), &options);
  const auto refused = run.Step(RandomBatch(2000, 1));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string sentence(refused.status().message());
  EXPECT_THAT(sentence, HasSubstr("a batch of 2000 examples needs "));
  EXPECT_THAT(sentence,
              HasSubstr("emulated:0, which has 3 MiB free; a batch "));
  // What it says is so, to the last example.
  const size_t begin = sentence.rfind("a batch of ") + 11;
  const size_t fits = std::stoul(sentence.substr(begin));
  constexpr char kHalves[] = ", with compute_format bf16 one of ";
  ASSERT_THAT(sentence, HasSubstr(kHalves));
  const size_t halves =
      std::stoul(sentence.substr(sentence.find(kHalves) + sizeof(kHalves) - 1));
  EXPECT_GT(halves, fits);
  EXPECT_FALSE(run.Step(RandomBatch(fits + 1, 1)).ok());
  const auto fitting = run.Step(RandomBatch(fits, 1));
  EXPECT_TRUE(fitting.ok()) << fitting.status();
}

// Dense blocks around which there is a way.
v1::ModelConfig Blocks(bool recompute) {
  v1::ModelConfig config = Parsed("layers { flatten {} }");
  for (int i = 0; i < 6; ++i) {
    v1::Layer* layer = config.add_layers();
    if (recompute) layer = layer->mutable_recompute()->add_layers();
    *layer = Parsed(R"(layers { residual {
        layers { dense { units: 150 } } layers { gelu {} }
        layers { dense { units: 36 } } } })")
                 .layers(0);
  }
  config.add_layers()->mutable_dense()->set_units(4);
  return config;
}

TEST(ExchangeTest, TheSentenceSaysWhatWouldFitIfLayersWereComputedAgain) {
  const EmulatedAccelerator::Options options{.memory_bytes = 4 << 20};
  Trial run(Blocks(/*recompute=*/false), &options);
  const auto refused = run.Step(RandomBatch(2000, 1));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string sentence(refused.status().message());
  constexpr char kWith[] =
      ", with each residual or parallel layer in a \"recompute\" one of ";
  ASSERT_THAT(sentence, HasSubstr(kWith));
  const size_t fits =
      std::stoul(sentence.substr(sentence.find(kWith) + sizeof(kWith) - 1));
  EXPECT_FALSE(run.Step(RandomBatch(fits, 1)).ok());
  Trial again(Blocks(/*recompute=*/true), &options);
  const auto refused_again = again.Step(RandomBatch(fits + 1, 1));
  EXPECT_EQ(refused_again.status().code(),
            absl::StatusCode::kResourceExhausted);
  // There is nothing more to be had of it.
  EXPECT_THAT(std::string(refused_again.status().message()),
              ::testing::Not(HasSubstr("recompute")));
  const auto fitting = again.Step(RandomBatch(fits, 1));
  EXPECT_TRUE(fitting.ok()) << fitting.status();
}

TEST(ExchangeTest, MemoryThatLacksLaterIsSaidWithTheBatchThatNeededIt) {
  uint64_t enough = 1 << 22;
  uint64_t too_few = 0;
  const auto step = [](uint64_t bytes, ComputeFormat format) {
    const EmulatedAccelerator::Options options{.memory_bytes = bytes};
    Batch batch = RandomBatch(8, 1);
    batch.offsets = {3, 1, 4, 15, 9, 2, 6, 5};  // Else there is room for them.
    return Trial(Convolutional(), &options, format).Step(batch);
  };
  while (too_few + 1 < enough) {
    const uint64_t middle = too_few + (enough - too_few) / 2;
    (step(middle, ComputeFormat::kFp32).ok() ? enough : too_few) = middle;
  }
  // Where gradients of fp16 overflow is noted beside what is reckoned with.
  const auto refused = step(enough, ComputeFormat::kFp16);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::MatchesRegex(
                  "a batch of 8 examples needs more memory: emulated:0 has "
                  "[0-9]+ bytes free; [0-9]+ were asked for; give a smaller "
                  "batch_per_replica"));
  EXPECT_TRUE(step(enough + 1000, ComputeFormat::kFp16).ok());
}

TEST(ExchangeTest, AModelThatDoesNotFitAtAllIsRefused) {
  const EmulatedAccelerator::Options options{.memory_bytes = 1000};
  Trial run(Convolutional(), &options);
  EXPECT_THAT(std::string(run.Step(RandomBatch(1, 1)).status().message()),
              HasSubstr("no batch would fit"));
}

}  // namespace
}  // namespace paramd
