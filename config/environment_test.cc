#include "config/environment.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(EnvironmentTest, VariablesOfTheProcessAreRead) {
  ASSERT_EQ(setenv("PARAMD_ENVIRONMENT_TEST", "a=b\nc", 1), 0);
  const Variables variables = ReadEnvironment();
  EXPECT_EQ(FindVariable(variables, "PARAMD_ENVIRONMENT_TEST"), "a=b\nc");
  EXPECT_EQ(FindVariable(variables, "PARAMD_NO_SUCH"), absl::nullopt);
}

TEST(EnvironmentTest, OfEqualNamesTheFirstHolds) {
  EXPECT_EQ(FindVariable({{"A", "1"}, {"A", "2"}, {"B", ""}}, "A"), "1");
  EXPECT_EQ(FindVariable({{"A", "1"}, {"B", ""}}, "B"), "");
}

TEST(EnvironmentTest, AMachineHasAName) { EXPECT_NE(ReadHostName(), ""); }

}  // namespace
}  // namespace paramd
