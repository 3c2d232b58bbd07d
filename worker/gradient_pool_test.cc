#include "worker/gradient_pool.h"

#include <memory>

#include "gtest/gtest.h"

#include "tensor/testing/fake_unified_memory.h"

namespace paramd {
namespace {

TEST(GradientPoolTest, ABufferThatSomebodyHoldsIsNotGivenAgain) {
  GradientPool pool({16, 4});
  GradientPool::Set first = pool.Take();
  const Buffer in_flight = first.buffers[1].Part(0, 4);
  const float* const held = first.mutables[0].data();
  first = {};
  EXPECT_NE(pool.Take().mutables[0].data(), held);
}

TEST(GradientPoolTest, AFreeBufferIsUsedAgain) {
  GradientPool pool({16});
  const float* const memory = pool.Take().mutables[0].data();
  EXPECT_EQ(pool.Take().mutables[0].data(), memory);
}

TEST(GradientPoolTest, OnADeviceAreTheGradientsThatItFinishes) {
  testing::FakeUnifiedMemory device(3 * 64);
  GradientPool pool({16, 4}, &device);
  const GradientPool::Set there = pool.Take({}, /*on_device=*/true);
  const GradientPool::Set here = pool.Take();
  for (size_t v = 0; v < 2; ++v) {
    EXPECT_TRUE(device.Has(there.buffers[v].bytes()));
    EXPECT_FALSE(device.Has(here.buffers[v].bytes()));
  }
  // The third has room for one.
  const GradientPool::Set more = pool.Take({}, /*on_device=*/true);
  EXPECT_TRUE(device.Has(more.buffers[0].bytes()));
  EXPECT_FALSE(device.Has(more.buffers[1].bytes()));
  EXPECT_EQ(more.mutables[1].size(), 1u);
}

TEST(GradientPoolTest, OthersArePinnedAsFarAsThereIsRoom) {
  alignas(64) std::byte memory[2 * 64];
  const auto pinned =
      BufferArena::Create(memory, /*page=*/64, std::make_shared<int>());
  testing::FakeUnifiedMemory device(4 * 64);
  GradientPool pool({16, 4}, &device, pinned.get());
  const GradientPool::Set first = pool.Take();
  const GradientPool::Set there = pool.Take({}, /*on_device=*/true);
  const GradientPool::Set second = pool.Take();
  for (size_t v = 0; v < 2; ++v) {
    EXPECT_TRUE(pinned->Has(first.buffers[v].bytes()));
    EXPECT_TRUE(device.Has(there.buffers[v].bytes()));
    EXPECT_FALSE(pinned->Has(second.buffers[v].bytes()));
  }
}

}  // namespace
}  // namespace paramd
