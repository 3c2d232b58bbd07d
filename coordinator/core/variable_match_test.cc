#include "coordinator/core/variable_match.h"

#include <initializer_list>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
                             {Variable("b", {}), Variable("a", {2})}, "")
                  ->empty());
}

TEST(VariableMatchTest, EveryDifferenceIsNamedWithItsShapes) {
  const absl::Status status =
      CheckVariables(
          "/run/checkpoints/c",
          With({Variable("a", {2, 3}), Variable("b", {4}), Variable("s", {})}),
          {Variable("a", {3, 2}), Variable("c", {5, 6}), Variable("s", {})}, "")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("checkpoint '/run/checkpoints/c' has other variables "
                        "than the job: 'a' has the shape 2x3 there and 3x2 "
                        "here; 'c' (5x6) is not in it; 'b' (4) is not one of "
                        "the job's; "));
  EXPECT_THAT(status.message(), HasSubstr("checkpoint.allow_missing"));
}

TEST(VariableMatchTest, RowsByKeyAreOthersThanRowsByNumber) {
  v1::Variable keyed = Variable("t", {4, 2});
  keyed.set_sparse(true);
  keyed.set_keyed(true);
  EXPECT_TRUE(CheckVariables("/c", With({keyed}), {keyed}, "").ok());
  EXPECT_THAT(CheckVariables("/c", With({keyed}), {Variable("t", {4, 2})}, "")
                  .status()
                  .message(),
              HasSubstr("'t' has the shape 4x2 by key there and 4x2 here"));
}

TEST(VariableMatchTest, ATableMayHaveHadAnotherCapacityButNoOtherWidth) {
  const auto keyed = [](uint64_t rows, uint64_t width) {
    v1::Variable variable = Variable("t", {rows, width});
    variable.set_sparse(true);
    variable.set_keyed(true);
    return variable;
  };
  const auto same =
      CheckVariables("/c", With({keyed(4, 2)}), {keyed(9, 2)}, "");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE(same->empty());
  EXPECT_THAT(
      CheckVariables("/c", With({keyed(4, 2)}), {keyed(9, 3)}, "")
          .status()
          .message(),
      HasSubstr("'t' has the shape 4x2 by key there and 9x3 by key here"));
}

TEST(VariableMatchTest, ATableWhoseBlocksAreOthersWhenItIsSparseStaysSparse) {
  v1::Variable table = Variable("t", {4, 3});
  const v1::Variable dense = table;
  table.set_sparse(true);
  EXPECT_TRUE(CheckVariables("/c", With({table}), {table}, "").ok());
  EXPECT_THAT(
      CheckVariables("/c", With({table}), {dense}, "").status().message(),
      HasSubstr("'t' has the shape 4x3 by row there and 4x3 here"));
  EXPECT_FALSE(CheckVariables("/c", With({dense}), {table}, "").ok());
  // Of a power of two they are the same.
  v1::Variable even = Variable("t", {4, 2});
  even.set_sparse(true);
  EXPECT_TRUE(
      CheckVariables("/c", With({Variable("t", {4, 2})}), {even}, "").ok());
}

TEST(VariableMatchTest, WhatMayDifferIsNamedToo) {
  const v1::Manifest manifest = With(
      {Variable("head/w", {2, 3}), Variable("old", {4}), Variable("s", {})});
  const std::vector<v1::Variable> job = {
      Variable("head/w", {2, 5}), Variable("head/b", {5}), Variable("s", {})};
  const auto all = CheckVariables("/c", manifest, job, "head/*,old");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, ElementsAre("'head/b' (5) is not in it",
                                "'head/w' has the shape 2x3 there and 2x5 here",
                                "'old' (4) is not one of the job's"));
  const absl::Status one =
      CheckVariables("/c", manifest, job, "head/*").status();
  EXPECT_TRUE(absl::IsInvalidArgument(one));
  EXPECT_THAT(one.message(), HasSubstr("'old' (4) is not one"));
  EXPECT_THAT(one.message(), Not(HasSubstr("head/b")));
}

TEST(VariableMatchTest, RowsByKeyAreTakenBesideOthersThatDiffer) {
  v1::Variable keyed = Variable("t", {4, 2});
  keyed.set_sparse(true);
  keyed.set_keyed(true);
  const v1::Manifest manifest = With({keyed, Variable("w", {3})});
  const std::vector<v1::Variable> job = {keyed, Variable("w", {5})};
  EXPECT_TRUE(CheckVariables("/c", manifest, job, "w").ok());
}

TEST(VariableMatchTest, OfMoreDifferencesThanCanBeReadTheFirstAreNamed) {
  std::vector<v1::Variable> variables;
  for (int i = 0; i < 60; ++i) {
    variables.push_back(Variable("v" + std::to_string(i), {1}));
  }
  const absl::Status status =
      CheckVariables("/c", With({}), variables, "").status();
  EXPECT_THAT(status.message(), HasSubstr("; and 10 more; "));
}

}  // namespace
}  // namespace paramd
