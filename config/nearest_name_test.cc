#include "config/nearest_name.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(NearestNameTest, AMisspeltNameIsRecognised) {
  const std::vector<std::string> known = {"epochs", "seed", "learning_rate"};
  EXPECT_EQ(NearestName("epoch", known), "epochs");
  EXPECT_EQ(NearestName("epcohs", known), "epochs");
  EXPECT_EQ(NearestName("SEED", known), "seed");
  EXPECT_EQ(NearestName("lerning_rte", known), "learning_rate");
}

TEST(NearestNameTest, AStrangerIsNearNothing) {
  EXPECT_EQ(NearestName("dropout", {"epochs", "seed"}), "");
  EXPECT_EQ(NearestName("xy", {"ps"}), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 'e'), {"epochs"}), "");
  EXPECT_EQ(NearestName("", {"ps"}), "");
}

TEST(NearestNameTest, TheHintNamesTheNearestOrAll) {
  EXPECT_EQ(NearestNameHint("sed", {"seed", "epochs"}),
            "; did you mean 'seed'?");
  EXPECT_EQ(NearestNameHint("dropout", {"seed", "epochs"}),
            "; known here: seed, epochs");
}

}  // namespace
}  // namespace paramd
