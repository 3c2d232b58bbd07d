#include "server/core/block.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

Optimizer Make(bool adam) {
  v1::OptimizerConfig config;
  if (adam) {
    config.mutable_adam();
  } else {
    config.mutable_sgd();
  }
  config.set_learning_rate(0.5);
  return *Optimizer::Create(config, 0);
}

Block Filled(const Optimizer& optimizer, const std::vector<float>& values) {
  Block block(values.size(), optimizer.slots().size(), /*life=*/9);
  std::copy(values.begin(), values.end(), block.mutable_values().begin());
  for (size_t s = 0; s < optimizer.slots().size(); ++s) {
    std::fill(block.mutable_slot(s).begin(), block.mutable_slot(s).end(), 0.0f);
  }
  return block;
}

std::vector<float> Numbers(const Buffer& buffer) {
  const auto* first = reinterpret_cast<const float*>(buffer.bytes().data());
  return {first, first + buffer.size() / sizeof(float)};
}

void Push(const Optimizer& optimizer, const std::vector<float>& gradient,
          Block* block, SpareBuffers* spare) {
  const BufferChain chain = {
      Buffer::Copy(AsBytes(absl::MakeConstSpan(gradient)))};
  ChainReader reader(chain);
  block->Apply(optimizer, &reader, spare);
}

TEST(BlockTest, APushIsAppliedInPlaceWhenNobodyReads) {
  const Optimizer sgd = Make(false);
  SpareBuffers spare;
  Block block = Filled(sgd, {1, 2, 3});
  const std::byte* const place = block.values().bytes().data();
  Push(sgd, {2, 2, 2}, &block, &spare);
  EXPECT_EQ(Numbers(block.values()), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(block.values().bytes().data(), place);
  EXPECT_EQ(spare.count(), 0u);
}

TEST(BlockTest, Promise2_AReferenceThatLeftKeepsItsContent) {
  for (const bool adam : {false, true}) {
    const Optimizer optimizer = Make(adam);
    SpareBuffers spare;
    Block block = Filled(optimizer, {1, 2, 3});
    Push(optimizer, {1, -1, 1}, &block, &spare);
    const Buffer values = block.values();
    const Buffer slots = block.slots();
    const std::vector<float> old_values = Numbers(values);
    const std::vector<float> old_slots = Numbers(slots);
    Block alone = Filled(optimizer, {1, 2, 3});
    Push(optimizer, {1, -1, 1}, &alone, &spare);

    Push(optimizer, {3, 3, 3}, &block, &spare);
    Push(optimizer, {3, 3, 3}, &alone, &spare);
    EXPECT_EQ(Numbers(values), old_values);
    EXPECT_EQ(Numbers(slots), old_slots);
    EXPECT_EQ(Numbers(block.values()), Numbers(alone.values()));
    EXPECT_EQ(Numbers(block.slots()), Numbers(alone.slots()));
  }
}

TEST(BlockTest, AReplacedBufferIsUsedAgainOnceItWasRead) {
  const Optimizer sgd = Make(false);
  SpareBuffers spare;
  Block block = Filled(sgd, {1, 2});
  const std::byte* first;
  {
    const Buffer reply = block.values();
    first = reply.bytes().data();
    Push(sgd, {1, 1}, &block, &spare);
  }
  const Buffer reply = block.values();
  EXPECT_NE(reply.bytes().data(), first);
  Push(sgd, {1, 1}, &block, &spare);
  EXPECT_EQ(block.values().bytes().data(), first);
}

TEST(BlockTest, TheVersionNamesTheLifeAndCountsPushes) {
  const Optimizer sgd = Make(false);
  SpareBuffers spare;
  Block block = Filled(sgd, {1});
  block.set_applied(40);
  EXPECT_EQ(block.version().life(), 9u);
  EXPECT_EQ(block.version().counter(), 40u);
  Push(sgd, {1}, &block, &spare);
  EXPECT_EQ(block.version().counter(), 41u);
  EXPECT_EQ(block.applied(), 41u);
}

}  // namespace
}  // namespace paramd
