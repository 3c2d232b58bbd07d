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
  ASSERT_TRUE(lent.Begin(7));
  Buffer w = lent.Lend(values);
  ASSERT_TRUE(lent.Begin(7));
  Buffer b = lent.Lend(values);
  ASSERT_TRUE(lent.Begin(8));
  Buffer next = lent.Lend(values);
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

TEST(LentGradientsTest, ANumberIsThatOfOneLoanUntilItHasComeBack) {
  LentGradients lent;
  const std::vector<float> values = {1};
  ASSERT_TRUE(lent.Begin(1));
  Buffer first = lent.Lend(values);
  ASSERT_TRUE(lent.Begin(2));
  EXPECT_FALSE(lent.Begin(1));
  EXPECT_THAT(lent.TakeReturned(), ElementsAre(2));  // Nothing was lent.
  first = Buffer();
  EXPECT_THAT(lent.TakeReturned(), ElementsAre(1));
  EXPECT_TRUE(lent.Begin(1));
}

TEST(LentGradientsTest, ABufferMayBeDroppedOnAnyThreadAndLater) {
  const std::vector<float> values = {1};
  Buffer outlives;
  {
    LentGradients lent;
    ASSERT_TRUE(lent.Begin(1));
    Buffer buffer = lent.Lend(values);
    ASSERT_TRUE(lent.Begin(2));
    outlives = lent.Lend(values);
    std::thread elsewhere([dropped = std::move(buffer)] {});
    while (lent.TakeReturned().empty()) std::this_thread::yield();
    elsewhere.join();
  }
  EXPECT_EQ(outlives.size(), sizeof(float));
}

}  // namespace
}  // namespace paramd
