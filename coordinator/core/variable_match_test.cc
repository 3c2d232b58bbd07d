#include "coordinator/core/variable_match.h"

#include <initializer_list>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

v1::Variable Variable(const std::string& name,
                      std::initializer_list<uint64_t> shape) {
  v1::Variable variable;
  variable.set_name(name);
  variable.mutable_shape()->Assign(shape.begin(), shape.end());
  return variable;
}

v1::Manifest With(const std::vector<v1::Variable>& variables) {
  v1::Manifest manifest;
  *manifest.mutable_variables() = {variables.begin(), variables.end()};
  return manifest;
}

TEST(VariableMatchTest, TheSameVariablesInAnyOrderMatch) {
  EXPECT_TRUE(CheckVariables("/c",
                             With({Variable("a", {2}), Variable("b", {})}),
                             {Variable("b", {}), Variable("a", {2})})
                  .ok());
}

TEST(VariableMatchTest, EveryDifferenceIsNamedWithItsShapes) {
  const absl::Status status = CheckVariables(
      "/run/checkpoints/c",
      With({Variable("a", {2, 3}), Variable("b", {4}), Variable("s", {})}),
      {Variable("a", {3, 2}), Variable("c", {5, 6}), Variable("s", {})});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("checkpoint '/run/checkpoints/c' has other variables "
                        "than the job: 'a' has the shape 2x3 there and 3x2 "
                        "here; 'c' (5x6) is not in it; 'b' (4) is not one of "
                        "the job's; "));
  EXPECT_THAT(status.message(), HasSubstr("warm_start.allow_missing"));
}

TEST(VariableMatchTest, OfMoreDifferencesThanCanBeReadTheFirstAreNamed) {
  std::vector<v1::Variable> variables;
  for (int i = 0; i < 60; ++i) {
    variables.push_back(Variable("v" + std::to_string(i), {1}));
  }
  const absl::Status status = CheckVariables("/c", With({}), variables);
  EXPECT_THAT(status.message(), HasSubstr("; and 10 more; "));
}

}  // namespace
}  // namespace paramd
