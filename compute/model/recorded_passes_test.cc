// How often a network's device records, and what it is given again.
#include "compute/model/recorded_passes.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "base/random.h"
#include "compute/device/testing/emulated_device.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

const InputSpec kInput = LabelledImages({6, 6}, 4);
constexpr char kMlp[] = R"(
    layers { flatten {} } layers { dense { units: 12 } } layers { relu {} }
    layers { dense { units: 9 } } layers { tanh {} }
    layers { dense { units: 4 } } loss: SOFTMAX_CROSS_ENTROPY)";
constexpr char kDropping[] = R"(
    layers { flatten {} } layers { dense { units: 12 } }
    layers { dropout { rate: 0.3 } } layers { dense { units: 4 } }
    loss: SOFTMAX_CROSS_ENTROPY)";
// Of the MLP: what lies between the kernels and biases of three layers.
constexpr uint64_t kPiecesOfAPass = 3;

Batch RandomBatch(size_t size, uint64_t seed, uint64_t epoch = 1) {
  RandomStream random(seed);
  Batch batch;
  batch.Reset(kInput, size);
  batch.range = {.epoch = epoch, .begin = seed, .end = seed + size};
  for (float& value : batch.Find("image")->values<float>()) {
    value = random.Uniform();
  }
  for (int32_t& label : batch.Find("label")->values<int32_t>()) {
    label = static_cast<int32_t>(random.Below(4));
  }
  return batch;
}

// A network on an emulated device; with null options on the processor.
class Recorded {
 public:
  Recorded(const char* layers, const EmulatedAccelerator::Options* options,
           bool records = true) {
    v1::ModelConfig config;
    CHECK(google::protobuf::TextFormat::ParseFromString(layers, &config),
          "the test's models are read");
    Network::MakeDevice make;
    if (options != nullptr) {
      make = [=, this] {
        auto device = std::make_unique<EmulatedDevice>(
            *options, nullptr, AcceleratedDevice::Options{.records = records});
        accelerator_ = device->accelerator();
        return device;
      };
    }
    model_ = *Network::Create(config, kInput, make);
    RandomStream random(5);
    for (const v1::Variable& variable : model_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      values_.emplace_back(size);
      for (float& value : values_.back()) value = random.Uniform() - 0.3f;
      gradients_.emplace_back(size, 0.0f);
    }
  }

  absl::Status Step(
      const Batch& batch, TrainedModel::Ready ready = [](size_t) {}) {
    const std::vector<absl::Span<const float>> weights(values_.begin(),
                                                       values_.end());
    std::vector<absl::Span<float>> spans;
    for (auto& one : gradients_) spans.push_back(absl::MakeSpan(one));
    TrainedModel::StepOptions options{
        .divisor = 8, .abandoned = &abandoned, .seed = 3};
    if (next != nullptr) options.next = [this] { return next; };
    return model_->Step(weights, batch, options, spans, ready).status();
  }

  EmulatedAccelerator& accelerator() { return *accelerator_; }
  const std::vector<std::vector<float>>& gradients() const {
    return gradients_;
  }
  uint64_t replays() const { return model_->link()->counts().replays; }

  std::atomic<bool> abandoned{false};
  const Batch* next = nullptr;

 private:
  EmulatedAccelerator* accelerator_ = nullptr;
  std::unique_ptr<Network> model_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<float>> gradients_;
};

TEST(RecordedPassesTest, AStepThatCameTwiceIsGivenInAFewPieces) {
  const EmulatedAccelerator::Options options{};
  Recorded run(kMlp, &options);
  for (uint64_t step = 0; step < 4; ++step) {
    ASSERT_TRUE(run.Step(RandomBatch(8, step)).ok());
  }
  const uint64_t recorded = run.accelerator().recorded_calls();
  EXPECT_GT(recorded, 0u);
  for (uint64_t step = 4; step < 9; ++step) {
    const uint64_t before = run.replays();
    ASSERT_TRUE(run.Step(RandomBatch(8, step)).ok());
    EXPECT_EQ(run.replays() - before, 2 * kPiecesOfAPass);
  }
  EXPECT_EQ(run.accelerator().recorded_calls(), recorded);
}

// Two of an input, one of which is brought ahead.
TEST(RecordedPassesTest, EachMemoryOfTheInputHasARecording) {
  const EmulatedAccelerator::Options options{};
  Recorded cpu(kMlp, nullptr);
  Recorded run(kMlp, &options);
  std::vector<Batch> batches;
  for (uint64_t step = 0; step < 12; ++step) {
    batches.push_back(RandomBatch(8, step));
  }
  for (size_t step = 0; step + 1 < batches.size(); ++step) {
    run.next = &batches[step + 1];
    ASSERT_TRUE(run.Step(batches[step]).ok());
    ASSERT_TRUE(cpu.Step(batches[step]).ok());
    ASSERT_EQ(run.gradients(), cpu.gradients()) << step;
  }
  EXPECT_GT(run.replays(), 8 * kPiecesOfAPass);
}

TEST(RecordedPassesTest, AnEpochsDrawsAreRecordedAnew) {
  const EmulatedAccelerator::Options options{};
  Recorded cpu(kDropping, nullptr);
  Recorded run(kDropping, &options);
  for (const uint64_t epoch : {1, 2, 3}) {
    const uint64_t before = run.replays();
    for (uint64_t step = 0; step < 6; ++step) {
      const Batch batch = RandomBatch(8, step, epoch);
      ASSERT_TRUE(run.Step(batch).ok());
      ASSERT_TRUE(cpu.Step(batch).ok());
      ASSERT_EQ(run.gradients(), cpu.gradients()) << epoch << ", " << step;
    }
    EXPECT_GE(run.replays() - before, 6 * 2);
  }
}

TEST(RecordedPassesTest, WithoutItTheBitsAreTheSame) {
  const EmulatedAccelerator::Options options{};
  Recorded cpu(kDropping, nullptr);
  Recorded run(kDropping, &options, /*records=*/false);
  for (uint64_t step = 0; step < 6; ++step) {
    ASSERT_TRUE(run.Step(RandomBatch(8, step)).ok());
    ASSERT_TRUE(cpu.Step(RandomBatch(8, step)).ok());
    ASSERT_EQ(run.gradients(), cpu.gradients());
  }
  EXPECT_EQ(run.replays(), 0u);
  EXPECT_EQ(run.accelerator().recorded_calls(), 0u);
}

TEST(RecordedPassesTest, ADriverThatRefusesIsAskedOnce) {
  const EmulatedAccelerator::Options options{.captures = false};
  Recorded cpu(kMlp, nullptr);
  Recorded run(kMlp, &options);
  ::testing::internal::CaptureStderr();
  for (uint64_t step = 0; step < 6; ++step) {
    ASSERT_TRUE(run.Step(RandomBatch(8, step)).ok());
    ASSERT_TRUE(cpu.Step(RandomBatch(8, step)).ok());
    ASSERT_EQ(run.gradients(), cpu.gradients());
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t sentence = log.find(
      "steps are given to the device call by call: emulated:0 does not record: "
      "its driver can't");
  EXPECT_NE(sentence, std::string::npos) << log;
  EXPECT_EQ(log.find("call by call", sentence + 40), std::string::npos) << log;
  EXPECT_EQ(run.replays(), 0u);
}

TEST(RecordedPassesTest, WhatDoesNotComeAgainIsNotRecordedForEver) {
  const EmulatedAccelerator::Options options{.in_haste = true};
  Recorded run(kMlp, &options);
  ASSERT_TRUE(run.Step(RandomBatch(100, 0)).ok());
  const auto twice_each = [&] {
    for (uint64_t size = 1; size < 40; ++size) {
      ASSERT_TRUE(run.Step(RandomBatch(size, 1)).ok());
      ASSERT_TRUE(run.Step(RandomBatch(size, 2)).ok());
    }
  };
  twice_each();
  const uint64_t recorded = run.accelerator().recorded_calls();
  EXPECT_GT(recorded, 0u);
  twice_each();
  EXPECT_EQ(run.accelerator().recorded_calls(), recorded);
  EXPECT_EQ(run.replays(), 0u);
}

TEST(RecordedPassesTest, AReplayEndsWhereItsStepIsAbandoned) {
  const EmulatedAccelerator::Options options{};
  Recorded cpu(kMlp, nullptr);
  Recorded run(kMlp, &options);
  for (uint64_t step = 0; step < 5; ++step) {
    ASSERT_TRUE(run.Step(RandomBatch(8, step)).ok());
  }
  ASSERT_GT(run.replays(), 0u);
  const uint64_t before = run.replays();
  run.abandoned = true;
  ASSERT_TRUE(run.Step(RandomBatch(8, 6)).ok());
  EXPECT_EQ(run.replays(), before);
  run.abandoned = false;
  // After all pieces of the backward pass: gradients are waited for then.
  ASSERT_TRUE(
      run.Step(RandomBatch(8, 7), [&](size_t) { run.abandoned = true; }).ok());
  run.abandoned = false;
  ASSERT_TRUE(run.Step(RandomBatch(8, 8)).ok());
  ASSERT_TRUE(cpu.Step(RandomBatch(8, 8)).ok());
  EXPECT_EQ(run.gradients(), cpu.gradients());
}

// Wherever in six steps it is lost, recordings and replays among them.
TEST(RecordedPassesTest, ALostDeviceEndsItsStep) {
  bool was_lost = true;
  for (uint64_t after = 1; was_lost; after += 5) {
    const EmulatedAccelerator::Options options{.lost_after = after,
                                               .in_haste = true};
    Recorded run(kMlp, &options);
    absl::Status status;
    for (uint64_t step = 0; step < 6 && status.ok(); ++step) {
      status = run.Step(RandomBatch(8, step));
    }
    was_lost = !status.ok();
    if (was_lost) {
      EXPECT_EQ(status, absl::UnavailableError("emulated:0 is lost"));
    } else {
      EXPECT_GT(run.replays(), 2u);
    }
  }
}

}  // namespace
}  // namespace paramd
