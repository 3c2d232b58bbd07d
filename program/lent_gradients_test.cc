#include "program/lent_gradients.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LentGradientsTest, ALoanComesBackOnceWhenNobodyHoldsAnyOfIt) {
  LentGradients lent;
  const std::vector<float> values = {1, 2, 3};
  Buffer w = lent.Lend(values, 7);
  Buffer b = lent.Lend(values, 7);
  Buffer next = lent.Lend(values, 8);
  EXPECT_EQ(w.bytes().data(),
            reinterpret_cast<const std::byte*>(values.data()));
  Buffer part = w.Part(4, 4);
  w = Buffer();
  b = Buffer();
  EXPECT_THAT(lent.TakeReturned(), IsEmpty());
  EXPECT_FALSE(lent.AwaitAll(absl::ZeroDuration()));
  part = Buffer();
  EXPECT_THAT(lent.TakeReturned(), ElementsAre(7));
  EXPECT_THAT(lent.TakeReturned(), IsEmpty());
  next = Buffer();
  EXPECT_TRUE(lent.AwaitAll(absl::ZeroDuration()));
  EXPECT_THAT(lent.TakeReturned(), ElementsAre(8));
}

TEST(LentGradientsTest, ABufferMayBeDroppedOnAnyThreadAndLater) {
  const std::vector<float> values = {1};
  Buffer outlives;
  {
    LentGradients lent;
    Buffer buffer = lent.Lend(values, 1);
    outlives = lent.Lend(values, 2);
    std::thread elsewhere([dropped = std::move(buffer)] {});
    while (lent.TakeReturned().empty()) std::this_thread::yield();
    elsewhere.join();
  }
  EXPECT_EQ(outlives.size(), sizeof(float));
}

}  // namespace
}  // namespace paramd
