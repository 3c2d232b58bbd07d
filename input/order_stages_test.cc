#include "input/order_stages.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/example_order.h"
#include "input/testing/fake_source.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<SourceStage> Numbers(uint64_t size,
                                     std::vector<uint64_t> starts = {0}) {
  auto source = std::make_unique<FakeSource>(size);
  source->set_file_starts(std::move(starts));
  return std::make_unique<SourceStage>(std::move(source));
}

// The numbers of the examples of an epoch, in order.
std::vector<uint32_t> EpochOf(const Stage& stage, uint64_t epoch) {
  std::vector<uint32_t> numbers;
  Example example;
  for (uint64_t i = 0; i < stage.size(); ++i) {
    EXPECT_TRUE(stage.Get({epoch, i}, &example).ok());
    numbers.push_back(
        static_cast<uint32_t>(example.values[0].values<float>()[0]));
  }
  return numbers;
}

bool IsPermutation(std::vector<uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != i) return false;
  }
  return true;
}

TEST(OrderStagesTest, AShuffleIsTheOrderOfSeedAndEpoch) {
  const auto source = Numbers(100);
  const auto shuffle = MakeShuffle(*source, /*seed=*/3, /*buffer=*/0);
  for (const uint64_t epoch : {0u, 1u, 7u, 2u, 9u, 0u}) {
    EXPECT_EQ(EpochOf(*shuffle, epoch), ExampleOrder(3, epoch, 100));
  }
}

TEST(OrderStagesTest, AShuffleWithABufferStaysWithinItsRuns) {
  const auto source = Numbers(25);
  const auto shuffle = MakeShuffle(*source, 3, /*buffer=*/10);
  const std::vector<uint32_t> order = EpochOf(*shuffle, 1);
  EXPECT_TRUE(IsPermutation(order));
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i] / 10, i / 10);
  EXPECT_NE(order, EpochOf(*shuffle, 2));
  EXPECT_NE(order, EpochOf(*source, 1));
}

TEST(OrderStagesTest, AShuffleOfFilesKeepsTheRecordsOfAFileTogether) {
  const auto source = Numbers(30, {0, 4, 5, 20});
  const auto shuffle = MakeFileShuffle(*source, 3);
  bool moved = false;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    const std::vector<uint32_t> order = EpochOf(*shuffle, epoch);
    EXPECT_TRUE(IsPermutation(order));
    moved |= order[0] != 0;
    const std::vector<uint64_t> starts = shuffle->FileStarts(epoch);
    ASSERT_EQ(starts.size(), 4u);
    for (size_t i = 1; i < order.size(); ++i) {
      const bool begins =
          std::find(starts.begin(), starts.end(), i) != starts.end();
      EXPECT_TRUE(begins || order[i] == order[i - 1] + 1) << epoch;
    }
  }
  EXPECT_TRUE(moved);
}

TEST(OrderStagesTest, FilesAreInterleavedByBlocks) {
  const auto source = Numbers(10, {0, 4, 6});
  EXPECT_THAT(EpochOf(*MakeInterleave(*source, 2, 1), 0),
              ElementsAre(0, 4, 1, 5, 2, 6, 3, 7, 8, 9));
  EXPECT_THAT(EpochOf(*MakeInterleave(*source, 3, 2), 0),
              ElementsAre(0, 1, 4, 5, 6, 7, 2, 3, 8, 9));
  EXPECT_THAT(EpochOf(*MakeInterleave(*source, 1, 5), 0),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

// Counts who is in it at a time.
class CountingStage : public PlaceStage {
 public:
  explicit CountingStage(const Stage& upstream)
      : PlaceStage("counting", upstream, upstream.size()) {}

  int most() const { return most_; }
  std::vector<uint64_t> FileStarts(uint64_t epoch) const override {
    return upstream().FileStarts(epoch);
  }

 protected:
  ExamplePlace UpstreamOf(const ExamplePlace& place) const override {
    return place;
  }
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override {
    const int inside = ++inside_;
    for (int most = most_; inside > most;) {
      if (most_.compare_exchange_weak(most, inside)) break;
    }
    std::this_thread::yield();
    const absl::Status status = PlaceStage::DoGet(place, example);
    --inside_;
    return status;
  }

 private:
  mutable std::atomic<int> inside_{0};
  mutable std::atomic<int> most_{0};
};

TEST(OrderStagesTest, AnInterleaveLetsSoManyThreadsRead) {
  const auto source = Numbers(400, {0, 100, 200, 300});
  const CountingStage counting(*source);
  const auto limited = MakeInterleave(counting, 4, 1, /*most_readers=*/2);
  const auto free = MakeInterleave(*source, 4, 1);
  std::vector<std::thread> threads;
  std::vector<float> found(400);
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Example example;
      for (uint64_t i = t; i < 400; i += 4) {
        EXPECT_TRUE(limited->Get({0, i}, &example).ok());
        found[i] = example.values[0].values<float>()[0];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(counting.most(), 2);
  const std::vector<uint32_t> expected = EpochOf(*free, 0);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin()));
}

TEST(OrderStagesTest, EveryInterleavedExampleComesOnce) {
  for (const uint64_t cycle : {1u, 2u, 3u, 5u, 9u}) {
    for (const uint64_t block : {1u, 2u, 7u}) {
      const auto source = Numbers(50, {0, 1, 9, 10, 30, 47});
      EXPECT_TRUE(
          IsPermutation(EpochOf(*MakeInterleave(*source, cycle, block), 0)))
          << cycle << " " << block;
    }
  }
}

TEST(OrderStagesTest, ASliceKeepsTheFilesWithinIt) {
  const auto source = Numbers(10, {0, 4, 6});
  const auto slice = MakeSlice("skip", *source, 2, 9);
  EXPECT_THAT(EpochOf(*slice, 0), ElementsAre(2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(slice->FileStarts(0), ElementsAre(0, 2, 4));
}

TEST(OrderStagesTest, ARepeatHasSeveralEpochsOfItsUpstream) {
  const auto source = Numbers(5);
  const auto shuffle = MakeShuffle(*source, 1, 0);
  const auto repeat = MakeRepeat(*shuffle, 3);
  EXPECT_EQ(repeat->size(), 15u);
  std::vector<uint32_t> expected;
  for (const uint64_t epoch : {6u, 7u, 8u}) {
    for (const uint32_t i : EpochOf(*shuffle, epoch)) expected.push_back(i);
  }
  EXPECT_EQ(EpochOf(*repeat, 2), expected);
}

}  // namespace
}  // namespace paramd
