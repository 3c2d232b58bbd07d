// Blocks of pruned variables, pulled by who takes them packed.
#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"
#include "tensor/number_format.h"
#include "tensor/number_reader.h"
#include "tensor/packed_numbers.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::ShardDriver;
using testing::Zeros;

constexpr uint32_t kWeights = 1000;
constexpr uint32_t kLeft = 250;  // Of these, at a sparsity of 0.75.

// "w" is pruned with its first gradient, "b" of as many is not.
v1::Configuration PrunedWeights(double sparsity, uint64_t begin_step = 1) {
  v1::Configuration configuration =
      MakeConfiguration({Zeros("w", {kWeights}), Zeros("b", {kWeights})});
  v1::OptimizerConfig::Pruning* const pruning =
      configuration.mutable_optimizer()->add_pruning();
  pruning->set_variables("w");
  pruning->set_sparsity(sparsity);
  pruning->set_begin_step(begin_step);
  pruning->set_end_step(begin_step);
  return configuration;
}

v1::PullRequest PullOf(uint32_t slice, v1::Encoding encoding = v1::FP32,
                       bool takes_packed = true) {
  v1::PullRequest pull;
  pull.set_encoding(encoding);
  pull.set_takes_packed(takes_packed);
  pull.add_blocks()->set_slice(slice);
  return pull;
}

class ShardPackedTest : public ::testing::Test {
 protected:
  void Start(const v1::Configuration& configuration, uint64_t limit = 0) {
    Shard::Options options;
    options.incarnation = 100;
    options.life_seed = 1000;
    options.memory_limit_bytes = limit;
    driver_ = std::make_unique<ShardDriver>(options);
    driver_->MakeReady(configuration);
  }
  static std::vector<float> Gradient() {
    std::vector<float> gradient(kWeights);
    for (uint32_t i = 0; i < kWeights; ++i) {
      gradient[i] = 0.001f * static_cast<float>(i * 7 % kWeights + 1);
    }
    return gradient;
  }
  void Push(uint64_t sequence, uint32_t slice = 0) {
    const auto pushed = driver_->Push(
        driver_->MakePush(sequence, {{slice, 0}}, kWeights), Gradient());
    ASSERT_TRUE(pushed.ok()) << pushed.status();
  }
  v1::PulledBlock Pull(const v1::PullRequest& request, BufferChain* payload) {
    ShardDriver::Answer answer = driver_->Call(PeerId::Worker(1), request);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    *payload = std::move(answer.payload);
    return static_cast<const v1::PullReply&>(*answer.head).blocks(0);
  }
  static std::vector<uint32_t> Bits(const std::vector<float>& numbers) {
    std::vector<uint32_t> bits(numbers.size());
    std::transform(
        numbers.begin(), numbers.end(), bits.begin(),
        [](float number) { return std::bit_cast<uint32_t>(number); });
    return bits;
  }
  static std::vector<float> Unpacked(const BufferChain& payload,
                                     NumberFormat format) {
    ChainReader reader(payload);
    const Bitmap bitmap(&reader, kWeights);
    EXPECT_EQ(bitmap.nonzero(), kLeft);
    EXPECT_FALSE(bitmap.IsTooLong());
    std::vector<float> numbers(kWeights);
    bitmap.ForEachRun(&reader, format,
                      [&](const float* run, size_t offset, size_t length) {
                        std::copy_n(run, length, &numbers[offset]);
                      });
    EXPECT_EQ(reader.remaining(), 0u);
    return numbers;
  }

  std::unique_ptr<ShardDriver> driver_;
};

TEST_F(ShardPackedTest, APrunedBlockHasTheSameBitsInFewerBytes) {
  Start(PrunedWeights(0.75));
  Push(1);
  for (const auto& [encoding, format] :
       {std::pair(v1::FP32, NumberFormat::kFp32),
        std::pair(v1::BF16, NumberFormat::kBf16),
        std::pair(v1::FP16, NumberFormat::kFp16)}) {
    BufferChain dense;
    const v1::PulledBlock whole =
        Pull(PullOf(0, encoding, /*takes_packed=*/false), &dense);
    EXPECT_FALSE(whole.has_nonzero());
    EXPECT_EQ(ChainSize(dense), kWeights * BytesOf(format));
    std::vector<float> wanted(kWeights);
    ChainReader reader(dense);
    NumberReader(&reader, format).ReadTo(wanted.data(), kWeights);

    BufferChain packed;
    const v1::PulledBlock block = Pull(PullOf(0, encoding), &packed);
    EXPECT_EQ(block.elements(), kWeights);
    EXPECT_EQ(block.nonzero(), kLeft);
    EXPECT_EQ(block.version().counter(), whole.version().counter());
    EXPECT_EQ(ChainSize(packed), 125 + kLeft * BytesOf(format));
    EXPECT_EQ(Bits(Unpacked(packed, format)), Bits(wanted));
  }
}

TEST_F(ShardPackedTest, WhatDoesNotPayTravelsAsItIs) {
  Start(PrunedWeights(0.25));
  Push(1);
  BufferChain payload;
  EXPECT_FALSE(Pull(PullOf(0), &payload).has_nonzero());
  EXPECT_EQ(ChainSize(payload), kWeights * sizeof(float));
}

TEST_F(ShardPackedTest, ZerosThatAreNoMaskTravelAsTheyAre) {
  Start(PrunedWeights(0.75, /*begin_step=*/2));
  BufferChain payload;
  for (const uint32_t slice : {0, 1}) {
    EXPECT_FALSE(Pull(PullOf(slice), &payload).has_nonzero());
    EXPECT_EQ(ChainSize(payload), kWeights * sizeof(float));
  }
}

TEST_F(ShardPackedTest, AVersionIsPackedOnceForAllWhoPullIt) {
  Start(PrunedWeights(0.75));
  Push(1);
  BufferChain first;
  BufferChain second;
  Pull(PullOf(0), &first);
  Pull(PullOf(0), &second);
  EXPECT_EQ(first[0].bytes().data(), second[0].bytes().data());
  const std::vector<float> before = Unpacked(first, NumberFormat::kFp32);

  Push(2);
  BufferChain next;
  EXPECT_EQ(Pull(PullOf(0), &next).version().counter(), 2u);
  EXPECT_EQ(Unpacked(next, NumberFormat::kFp32), driver_->Pull(0));
  EXPECT_NE(Unpacked(next, NumberFormat::kFp32), before);
  // A reader has what it was given.
  EXPECT_EQ(Unpacked(first, NumberFormat::kFp32), before);

  BufferChain half;
  Pull(PullOf(0, v1::BF16), &half);
  EXPECT_EQ(ChainSize(half), 125 + kLeft * 2);
}

TEST_F(ShardPackedTest, APushIsAnsweredWithPackedBlocksToo) {
  Start(PrunedWeights(0.75));
  v1::PushRequest push = driver_->MakePush(1, {{0, 0}}, kWeights);
  *push.mutable_pull() = PullOf(0);
  push.mutable_pull()->clear_blocks();
  const ShardDriver::Answer answer =
      driver_->Call(PeerId::Worker(1), push, testing::Payload(Gradient()));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const auto& reply = static_cast<const v1::PushReply&>(*answer.head);
  EXPECT_EQ(reply.pulled().blocks(0).nonzero(), kLeft);
  EXPECT_EQ(Unpacked(answer.payload, NumberFormat::kFp32), driver_->Pull(0));
}

constexpr uint64_t kDense = kWeights * sizeof(float);
constexpr uint64_t kPacked = 125 + kLeft * sizeof(float);

TEST_F(ShardPackedTest, Promise8_WithoutMemoryABlockTravelsAsItIs) {
  Start(PrunedWeights(0.75), 2 * kDense + kPacked - 1);
  Push(1);
  BufferChain payload;
  EXPECT_FALSE(Pull(PullOf(0), &payload).has_nonzero());
  EXPECT_EQ(testing::Numbers(payload), driver_->Pull(0));
}

TEST_F(ShardPackedTest, Promise8_ANewVersionNeedsNoRoomBesideTheOldOne) {
  v1::Configuration configuration = PrunedWeights(0.75);
  configuration.mutable_optimizer()->mutable_pruning(0)->set_variables("w,b");
  Start(configuration, 2 * kDense + 2 * kPacked);
  Push(1);
  Push(1, /*slice=*/1);
  BufferChain other;
  EXPECT_TRUE(Pull(PullOf(1), &other).has_nonzero());
  BufferChain payload;
  EXPECT_TRUE(Pull(PullOf(0), &payload).has_nonzero());
  payload.clear();

  Push(2);
  EXPECT_TRUE(Pull(PullOf(0), &payload).has_nonzero());
  // Nothing else had to go for it.
  BufferChain again;
  Pull(PullOf(1), &again);
  EXPECT_EQ(again[0].bytes().data(), other[0].bytes().data());
}

TEST_F(ShardPackedTest, Promise8_WhatIsPackedGivesWayToOtherMemory) {
  Start(PrunedWeights(0.75), 2 * kDense + 2 * kWeights);
  Push(1);
  BufferChain payload;
  EXPECT_TRUE(Pull(PullOf(0), &payload).has_nonzero());
  payload.clear();
  // In half the bytes it needs all memory that there is.
  Pull(PullOf(0, v1::BF16, /*takes_packed=*/false), &payload);
  EXPECT_EQ(ChainSize(payload), 2 * kWeights);
}

}  // namespace
}  // namespace paramd
