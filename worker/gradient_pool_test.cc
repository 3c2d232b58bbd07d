#include "worker/gradient_pool.h"

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace paramd
