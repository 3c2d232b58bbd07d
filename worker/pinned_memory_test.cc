#include "worker/pinned_memory.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/emulated_device.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

const InputSpec kImages = LabelledImages({6, 6}, 4);

std::unique_ptr<Network> MakeNetwork(Network::MakeDevice make) {
  v1::ModelConfig config;
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  config.add_layers()->mutable_flatten();
  config.add_layers()->mutable_dense()->set_units(30);
  config.add_layers()->mutable_relu();
  config.add_layers()->mutable_dense()->set_units(4);
  return *Network::Create(config, kImages, std::move(make));
}

Batch SomeBatch(uint64_t seed) {
  RandomStream random(seed);
  Batch batch;
  batch.Reset(kImages, 8);
  for (float& value : batch.Find("image")->values<float>()) {
    value = random.Uniform();
  }
  for (int32_t& label : batch.Find("label")->values<int32_t>()) {
    label = static_cast<int32_t>(random.Below(4));
  }
  return batch;
}

std::vector<uint64_t> BytesOf(const Network& network) {
  std::vector<uint64_t> bytes;
  for (const v1::Variable& variable : network.variables()) {
    uint64_t elements = 1;
    for (const uint64_t dimension : variable.shape()) elements *= dimension;
    bytes.push_back(elements * sizeof(float));
  }
  return bytes;
}

// Numbers of each variable, in such memory; null: of the heap.
struct Arrays {
  Arrays(const std::vector<uint64_t>& bytes, BufferArena* pinned) {
    for (const uint64_t size : bytes) {
      buffers.push_back(pinned == nullptr ? Buffer::Allocate(size)
                                          : pinned->Allocate(size));
      EXPECT_FALSE(buffers.back().empty());
      spans.push_back(
          {reinterpret_cast<float*>(buffers.back().mutable_bytes().data()),
           size / sizeof(float)});
    }
  }

  std::vector<Buffer> buffers;
  std::vector<absl::Span<float>> spans;
};

// Weights of this seed, and what a step makes of them.
std::vector<std::vector<float>> StepOf(Network* network, uint64_t seed,
                                       const Arrays& weights,
                                       const Arrays& gradients) {
  RandomStream random(seed);
  for (const auto& values : weights.spans) {
    for (float& value : values) value = random.Uniform() - 0.5f;
  }
  const std::vector<absl::Span<const float>> views(weights.spans.begin(),
                                                   weights.spans.end());
  const auto metrics = network->Step(views, SomeBatch(seed), {.divisor = 8},
                                     gradients.spans, [](size_t) {});
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  std::vector<std::vector<float>> result;
  for (const auto& values : gradients.spans) {
    result.emplace_back(values.begin(), values.end());
  }
  return result;
}

TEST(PinnedMemoryTest, WhatLiesThereCrossesFromAndToThereWithTheSameBits) {
  const auto cpu = MakeNetwork(nullptr);
  const std::vector<uint64_t> bytes = BytesOf(*cpu);
  const Arrays weights(bytes, nullptr), gradients(bytes, nullptr);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EmulatedAccelerator* accelerator = nullptr;
    const auto network = MakeNetwork([&] {
      auto device = std::make_unique<EmulatedDevice>(
          EmulatedAccelerator::Options{.seed = seed});
      accelerator = device->accelerator();
      return device;
    });
    PinMemory(bytes, network->link());
    BufferArena* const pinned = network->link()->pinned_memory();
    ASSERT_NE(pinned, nullptr);
    const Arrays there[] = {{bytes, pinned}, {bytes, pinned}};
    const Arrays received[] = {{bytes, pinned}, {bytes, pinned}};
    EXPECT_TRUE(pinned->Allocate(1).empty());
    // Also between steps with memory of the heap.
    for (uint64_t step = 0; step < 6; ++step) {
      const bool of_heap = step == 3 || step == 4;
      EXPECT_EQ(StepOf(network.get(), step, of_heap ? weights : there[step % 2],
                       of_heap ? gradients : received[step % 2]),
                StepOf(cpu.get(), step, weights, gradients))
          << "seed " << seed << ", step " << step;
    }
    EXPECT_EQ(accelerator->unpinned_copies(), 0u);
  }
}

TEST(PinnedMemoryTest, ItNeedsNoTwinsAndOutlivesTheDevice) {
  Arrays* kept = nullptr;
  std::unique_ptr<Arrays> arrays[2];
  uint64_t allocations[2];
  for (const bool pins : {false, true}) {
    EmulatedAccelerator* accelerator = nullptr;
    const auto network = MakeNetwork([&] {
      auto device = std::make_unique<EmulatedDevice>(
          EmulatedAccelerator::Options{.in_haste = true});
      accelerator = device->accelerator();
      return device;
    });
    const std::vector<uint64_t> bytes = BytesOf(*network);
    if (pins) PinMemory(bytes, network->link());
    BufferArena* const pinned = network->link()->pinned_memory();
    const Arrays weights(bytes, pinned);
    arrays[pins] = std::make_unique<Arrays>(bytes, pinned);
    kept = arrays[pins].get();
    StepOf(network.get(), 1, weights, *kept);
    allocations[pins] = accelerator->allocations();
  }
  // One piece in place of a twin of each variable and of each gradient.
  EXPECT_EQ(allocations[true] + 2 * kept->spans.size(), allocations[false] + 1);
  EXPECT_NE(kept->spans.back()[0], 0);
}

TEST(PinnedMemoryTest, ThereIsNoneWhereItIsOfNoUse) {
  PinMemory({100}, nullptr);
  const auto network = MakeNetwork([] {
    return std::make_unique<EmulatedDevice>(EmulatedAccelerator::Options{});
  });
  PinMemory({0, 0}, network->link());
  EXPECT_EQ(network->link()->pinned_memory(), nullptr);
  PinMemory({uint64_t{1} << 50}, network->link());
  EXPECT_EQ(network->link()->pinned_memory(), nullptr);
}

}  // namespace
}  // namespace paramd
