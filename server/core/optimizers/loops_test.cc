#include "server/core/optimizers/loops.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

int LoopsWithId(int id) {
  int loops = 0;
  WithLoop(static_cast<LoopId>(id), [&loops](auto /*loop*/) { ++loops; });
  return loops;
}

// A GPU loads the kernels of all up to the last one when a server starts.
TEST(LoopsTest, NoLoopComesAfterTheLast) {
  constexpr int kLast = static_cast<int>(kLastLoop);
  for (int id = 0; id <= kLast; ++id) EXPECT_EQ(LoopsWithId(id), 1) << id;
  EXPECT_EQ(LoopsWithId(kLast + 1), 0);
}

}  // namespace
}  // namespace paramd
