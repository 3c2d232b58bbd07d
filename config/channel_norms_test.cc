#include "config/channel_norms.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::ChannelSizes SizesOf(const ChannelNorms& norms) {
  v1::ChannelSizes sizes;
  norms.Fill(&sizes);
  return sizes;
}

TEST(ChannelNormsTest, TheSmallestChannelsAreOfTheWholeColumn) {
  ChannelNorms norms(3);
  norms.AddValues({3, -1, 0, 0, 2, 1}, 0);  // 9, 5, 1
  EXPECT_THAT(norms.Smallest(1.0 / 3), ElementsAre(2));
  EXPECT_THAT(norms.Smallest(2.0 / 3), ElementsAre(1, 2));
  EXPECT_THAT(norms.Smallest(0.99), ElementsAre(1, 2)) << "one is left";
  EXPECT_THAT(norms.Smallest(0), IsEmpty());
}

TEST(ChannelNormsTest, OfEqualsTheFirstGoes) {
  ChannelNorms norms(4);
  norms.AddValues({1, -1, 1, 1}, 0);
  EXPECT_THAT(norms.Smallest(0.5), ElementsAre(0, 1));
}

TEST(ChannelNormsTest, AnyCutInAnyOrderHasTheSameBits) {
  std::mt19937 random(7);
  std::normal_distribution<float> weights(0, 0.3F);
  std::vector<float> values(5 * 7 * 11);
  for (float& value : values) value = weights(random);
  ChannelNorms whole(7);
  whole.AddValues(values, 0);
  ChannelNorms sum(7);
  const size_t cuts[] = {0, 1, 50, 123, values.size()};
  for (const size_t part : {2, 0, 3, 1}) {
    ChannelNorms one(7);
    one.AddValues(absl::MakeConstSpan(values).subspan(
                      cuts[part], cuts[part + 1] - cuts[part]),
                  cuts[part]);
    ASSERT_TRUE(sum.AddSizes(SizesOf(one)));
  }
  EXPECT_EQ(SizesOf(sum).SerializeAsString(),
            SizesOf(whole).SerializeAsString());
}

TEST(ChannelNormsTest, OnlyZerosAreZeroAndNothingWraps) {
  ChannelNorms norms(4);
  norms.AddValues({0, 1e-30F, 1e30F, std::nanf("")}, 0);
  norms.AddValues({0, 0, 1e30F, 1}, 0);
  const auto most = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(SizesOf(norms).squares(), ElementsAre(0, 1, most, most));
}

TEST(ChannelNormsTest, OtherChannelsAreNotAdded) {
  ChannelNorms norms(2);
  EXPECT_FALSE(norms.AddSizes(SizesOf(ChannelNorms(3))));
  EXPECT_THAT(SizesOf(norms).squares(), ElementsAre(0, 0));
}

}  // namespace
}  // namespace paramd
