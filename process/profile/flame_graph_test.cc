#include "process/profile/flame_graph.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

void AddStack(const std::vector<uint32_t>& names, uint64_t samples,
              v1::ProfileReply* profile) {
  v1::SampledStack* const stack = profile->add_stacks();
  stack->mutable_names()->Add(names.begin(), names.end());
  stack->set_samples(samples);
}

// Two threads; Apply is called from two places.
v1::ProfileReply Example() {
  v1::ProfileReply profile;
  profile.set_process("ps-1");
  profile.set_cpu_us(1234000);
  for (const char* const name :
       {"core", "io", "Run()", "Apply<>()", "operator<(A, B)"}) {
    profile.add_names(name);
  }
  AddStack({0, 2, 3}, 6, &profile);
  AddStack({0, 2}, 1, &profile);
  AddStack({1, 3}, 3, &profile);
  AddStack({1, 3, 4}, 10, &profile);
  return profile;
}

TEST(FlameGraphTest, SamplesAreOfTheInnermostFunction) {
  EXPECT_EQ(SamplesIn(Example()), 20);
  EXPECT_THAT(HottestFunctions(Example(), 2),
              ElementsAre(Pair("operator<(A, B)", 10), Pair("Apply<>()", 9)));
}

TEST(FlameGraphTest, FoldedStacksAreALineEach) {
  EXPECT_EQ(FoldedStacks(Example()),
            "core;Run();Apply<>() 6\ncore;Run() 1\nio;Apply<>() 3\n"
            "io;Apply<>();operator<(A, B) 10\n");
}

TEST(FlameGraphTest, AFunctionIsAsWideAsItsSamples) {
  const std::string svg = FlameGraph(Example());
  EXPECT_THAT(svg, HasSubstr("ps-1: 1.23s of processors' time, 20 samples"));
  // Threads stand at the bottom, beside each other.
  EXPECT_THAT(svg, HasSubstr("core: 7 samples, 35.0 %</title>"
                             "<rect x=\"10.0\" y=\"68\" width=\"420.0\""));
  EXPECT_THAT(svg, HasSubstr("io: 13 samples, 65.0 %</title>"
                             "<rect x=\"430.0\" y=\"68\" width=\"780.0\""));
  EXPECT_THAT(svg, HasSubstr("Apply&lt;&gt;(): 13 samples, 65.0 %</title>"
                             "<rect x=\"430.0\" y=\"51\" width=\"780.0\""));
  EXPECT_THAT(svg, HasSubstr("operator&lt;(A, B): 10 samples, 50.0 %"));
}

TEST(FlameGraphTest, NobodysNamesBecomeMarkup) {
  v1::ProfileReply profile;
  profile.set_process("<script>");
  profile.add_names("\"/><script>;\x1b[2J");
  AddStack({0}, 1, &profile);
  EXPECT_THAT(FlameGraph(profile), Not(HasSubstr("<script")));
  EXPECT_THAT(FlameGraph(profile), Not(HasSubstr("\x1b")));
  EXPECT_EQ(FoldedStacks(profile), "\"/><script>:\\x1b[2J 1\n");
}

TEST(FlameGraphTest, AnEmptyProfileIsDrawnToo) {
  v1::ProfileReply profile;
  profile.set_process("ps-0");
  EXPECT_THAT(FlameGraph(profile), HasSubstr("ps-0: 0 of processors' time"));
  EXPECT_THAT(FlameGraph(profile), Not(HasSubstr("nan")));
}

TEST(FlameGraphTest, NamesThatAreNotThereAreDamage) {
  v1::ProfileReply profile = Example();
  EXPECT_TRUE(CheckProfile(profile).ok());
  AddStack({5}, 1, &profile);
  EXPECT_EQ(CheckProfile(profile).message(),
            "the profile has a stack with name 5 of 5");
}

TEST(FlameGraphTest, AStackWithoutEndIsDamage) {
  v1::ProfileReply profile = Example();
  AddStack(std::vector<uint32_t>(256, 3), 1, &profile);
  EXPECT_TRUE(CheckProfile(profile).ok());
  AddStack(std::vector<uint32_t>(1000000, 3), 1, &profile);
  EXPECT_EQ(CheckProfile(profile).message(),
            "the profile has a stack of 1000000 names");
}

}  // namespace
}  // namespace paramd
