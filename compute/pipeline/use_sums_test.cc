#include "compute/pipeline/use_sums.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

TEST(UseSumsTest, AGradientIsTheSumOfAllUsesOfItsVariable) {
  // The first variable has three uses, the second one.
  UseSums sums({0, 1, 0, 0});
  std::vector<float> first(2), second(1);
  const std::vector<absl::Span<float>> gradients = {absl::MakeSpan(first),
                                                    absl::MakeSpan(second)};
  const auto places = sums.Place(gradients);
  ASSERT_EQ(places.size(), 4u);
  EXPECT_EQ(places[1].data(), second.data());
  EXPECT_EQ(places[3].data(), first.data());
  float value = 1;
  for (const absl::Span<float> place : places) {
    for (float& one : place) one = value;
    value *= 10;
  }
  sums.AddTo(gradients);
  EXPECT_THAT(first, ElementsAre(1101, 1101));
  EXPECT_THAT(second, ElementsAre(10));
}

}  // namespace
}  // namespace paramd
