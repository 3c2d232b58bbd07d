#include "input/window_stage.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "input/order_stages.h"
#include "input/testing/fake_source.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

struct Window {
  uint32_t size = 1;
  uint32_t shift = 0;
  uint32_t stride = 1;
  bool drop_remainder = false;
};

v1::InputStage::Window ConfigOf(const Window& window) {
  v1::InputStage::Window config;
  config.set_size(window.size);
  config.set_shift(window.shift);
  config.set_stride(window.stride);
  config.set_drop_remainder(window.drop_remainder);
  return config;
}

using Windows = std::vector<std::vector<float>>;

// As tf.data has them, one element after the other.
Windows Expected(uint64_t examples, const Window& window) {
  Windows windows;
  const uint64_t shift = window.shift > 0 ? window.shift : window.size;
  for (uint64_t begin = 0; begin < examples; begin += shift) {
    std::vector<float> one;
    for (uint64_t i = begin; i < examples && one.size() < window.size;
         i += window.stride) {
      one.push_back(static_cast<float>(i));
    }
    if (window.drop_remainder && one.size() < window.size) break;
    windows.push_back(one);
  }
  return windows;
}

Windows Found(const Stage& stage, uint64_t epoch = 0) {
  Windows windows;
  Example example;
  for (uint64_t i = 0; i < stage.size(); ++i) {
    const absl::Status status = stage.Get({epoch, i}, &example);
    EXPECT_TRUE(status.ok()) << status;
    const auto values = example.values[0].values<float>();
    windows.push_back({values.begin(), values.end()});
  }
  return windows;
}

TEST(WindowStageTest, WindowsAreThoseOfTfData) {
  const SourceStage numbers(std::make_unique<FakeSource>(7));
  const auto found = [&numbers](const Window& window) {
    return Found(**WindowStage::Create(numbers, ConfigOf(window)));
  };
  // The examples of tf.data.Dataset.window's page.
  EXPECT_EQ(found({.size = 3, .drop_remainder = true}),
            (Windows{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(found({.size = 3}), (Windows{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(found({.size = 3, .shift = 2, .drop_remainder = true}),
            (Windows{{0, 1, 2}, {2, 3, 4}, {4, 5, 6}}));
  EXPECT_EQ(found({.size = 3, .shift = 1, .stride = 2, .drop_remainder = true}),
            (Windows{{0, 2, 4}, {1, 3, 5}, {2, 4, 6}}));
}

TEST(WindowStageTest, WindowsOfAnyShapeAreThoseOfAList) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomStream random(seed);
    const uint64_t examples = 1 + random.Below(25);
    const Window window = {.size = static_cast<uint32_t>(1 + random.Below(6)),
                           .shift = static_cast<uint32_t>(random.Below(7)),
                           .stride = static_cast<uint32_t>(1 + random.Below(4)),
                           .drop_remainder = random.Chance(0.5)};
    const SourceStage numbers(std::make_unique<FakeSource>(examples));
    const Windows expected = Expected(examples, window);
    const auto stage = WindowStage::Create(numbers, ConfigOf(window));
    ASSERT_EQ(stage.ok(), !expected.empty()) << stage.status();
    if (!stage.ok()) continue;
    EXPECT_EQ(Found(**stage), expected) << seed;
    uint64_t shorter = 0;
    for (const auto& one : expected) shorter += one.size() < window.size;
    EXPECT_EQ((*stage)->short_windows(), shorter);
    EXPECT_EQ((*stage)->spec().features[0].dims[0],
              shorter == 0 ? window.size : 0u);
    // One feature alone is the same.
    Example example;
    for (uint64_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE((*stage)->GetFeature({0, i}, 0, &example).ok());
      const auto values = example.values[0].values<float>();
      EXPECT_EQ(std::vector<float>(values.begin(), values.end()), expected[i]);
      EXPECT_EQ((*stage)->IndexAt({0, i}),
                static_cast<uint64_t>(expected[i][0]));
    }
  }
}

TEST(WindowStageTest, OfSomeFeaturesTheLastValueStays) {
  const SourceStage numbers(std::make_unique<FakeSource>(13));
  v1::InputStage::Window config = ConfigOf({.size = 4, .shift = 3});
  config.add_last("label");
  const auto stage = *WindowStage::Create(numbers, config);
  EXPECT_THAT(stage->spec().features[0].dims, ElementsAre(0, 1));
  EXPECT_THAT(stage->spec().features[1].dims, ElementsAre());
  Example example;
  std::vector<int> labels;
  for (uint64_t i = 0; i < stage->size(); ++i) {
    ASSERT_TRUE(stage->Get({0, i}, &example).ok());
    labels.push_back(example.values[1].values<int32_t>()[0]);
    ASSERT_TRUE(stage->GetFeature({0, i}, 1, &example).ok());
    EXPECT_EQ(example.values[1].values<int32_t>()[0], labels.back());
  }
  EXPECT_THAT(labels, ElementsAre(3, 6, 9, 2, 2));  // Of 3, 6, 9, 12 and 12.
  config.set_last(0, "labels");
  EXPECT_EQ(WindowStage::Create(numbers, config).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(WindowStageTest, AnErrorIsAboutTheExampleThatCannotBeRead) {
  auto source = std::make_unique<FakeSource>(10);
  source->set_unreadable(5);
  const SourceStage numbers(std::move(source));
  const auto stage =
      *WindowStage::Create(numbers, ConfigOf({.size = 3, .shift = 1}));
  Example example;
  EXPECT_FALSE(stage->Get({0, 4}, &example).ok());
  EXPECT_EQ(example.index, 5u);
  ASSERT_TRUE(stage->Get({0, 6}, &example).ok());
  EXPECT_EQ(example.index, 6u);
}

TEST(WindowStageTest, FewerExamplesThanAWindowAreRefused) {
  const SourceStage numbers(std::make_unique<FakeSource>(4));
  EXPECT_EQ(
      WindowStage::Create(
          numbers, ConfigOf({.size = 3, .stride = 2, .drop_remainder = true}))
          .status(),
      absl::InvalidArgumentError("with drop_remainder no window is left: there "
                                 "are 4 examples, and one needs 5"));
}

}  // namespace
}  // namespace paramd
