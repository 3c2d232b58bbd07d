#include "compute/pipeline/partition.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

std::vector<LayerTimes> LayersOf(const std::vector<double>& seconds) {
  std::vector<LayerTimes> layers;
  for (const double one : seconds) {
    layers.push_back({.name = absl::StrCat("layer_", layers.size()),
                      .forward_s = one,
                      .backward_s = 2 * one,
                      .kept_bytes = 1 << 20,
                      .variable_bytes = 1 << 20});
  }
  return layers;
}

PartitionOptions StagesOf(uint32_t stages) {
  PartitionOptions options;
  options.stages = stages;
  return options;
}

PartitionOptions SmallDevices() {
  PartitionOptions options = StagesOf(2);
  options.memory_bytes = 3 << 20;
  return options;
}

// By trying every cut; infinite if none fits.
double SlowestOfBest(const std::vector<LayerTimes>& layers, size_t begin,
                     uint32_t stage, const PartitionOptions& options) {
  const bool is_last = stage + 1 == options.stages;
  double best = std::numeric_limits<double>::infinity();
  for (size_t end = begin + 1; end <= layers.size(); ++end) {
    if (is_last && end < layers.size()) continue;
    double seconds = 0;
    uint64_t bytes = 0;
    for (size_t i = begin; i < end; ++i) {
      seconds += layers[i].forward_s + layers[i].backward_s;
      bytes += options.live(stage) * layers[i].kept_bytes +
               options.versions(stage) * layers[i].variable_bytes +
               options.deferred(stage) * layers[i].deferred_bytes;
    }
    if (begin > 0) seconds += layers[begin - 1].border_s;
    if (end < layers.size()) seconds += layers[end - 1].border_s;
    if (bytes > options.memory_bytes) continue;
    best = std::min(
        best,
        std::max(seconds,
                 is_last ? 0 : SlowestOfBest(layers, end, stage + 1, options)));
  }
  return best;
}

TEST(PartitionTest, TheSlowestStage_IsAsFastAsAnyCutMakesIt) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<LayerTimes> layers =
        LayersOf(std::vector<double>(2 + random() % 8));
    for (LayerTimes& layer : layers) {
      layer.forward_s = 1 + random() % 9;
      layer.backward_s = 1 + random() % 9;
      layer.border_s = random() % 4;
      layer.kept_bytes = random() % 10;
      layer.variable_bytes = random() % 10;
      layer.deferred_bytes = random() % 5;
    }
    PartitionOptions options;
    options.stages = 1 + random() % layers.size();
    options.memory_bytes = 1 + random() % 100;
    options.live = [&](uint32_t s) { return options.stages - s; };
    options.versions = [](uint32_t s) { return 1 + s % 2; };
    options.deferred = [](uint32_t s) { return s; };
    const double best = SlowestOfBest(layers, 0, 0, options);
    const auto partition = PartitionLayers(layers, options);
    ASSERT_EQ(best < std::numeric_limits<double>::infinity(), partition.ok())
        << partition.status();
    if (partition.ok()) {
      EXPECT_DOUBLE_EQ(best, partition->slowest_s);
    }
  }
}

TEST(PartitionTest, BeginsAreThoseOfTheStages) {
  const auto partition =
      PartitionLayers(LayersOf({1, 1, 1, 3, 3}), StagesOf(3));
  ASSERT_TRUE(partition.ok());
  EXPECT_THAT(partition->begins, ElementsAre(0, 3, 4));
  EXPECT_DOUBLE_EQ(9, partition->slowest_s);
  const Partition equal = EqualCounts(LayersOf({1, 1, 1, 3, 3}), 3);
  EXPECT_THAT(equal.begins, ElementsAre(0, 1, 3));
  EXPECT_DOUBLE_EQ(18, equal.slowest_s);
}

TEST(PartitionTest, WhatDoesNotFit_IsNamedWithNumbers) {
  EXPECT_EQ("the model has 2 layers that can be cut; it can't have 3 stages",
            PartitionLayers(LayersOf({1, 1}), StagesOf(3)).status().message());
  std::vector<LayerTimes> layers = LayersOf({1, 1, 1});
  EXPECT_EQ(
      "no cut into 2 stages fits devices of 3 MiB: give more stages, "
      "more micro-batches or more memory",
      PartitionLayers(layers, SmallDevices()).status().message());
  layers[1].variable_bytes = 8 << 20;
  EXPECT_EQ("the layer 'layer_1' alone needs 9 MiB; a device has 3 MiB",
            PartitionLayers(layers, SmallDevices()).status().message());
}

}  // namespace
}  // namespace paramd
