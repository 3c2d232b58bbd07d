#include "config/initial_values.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::Not;

v1::Variable Uniform() {
  v1::Variable variable;
  variable.set_name("w");
  variable.mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
  variable.mutable_initializer()->set_low(-2);
  variable.mutable_initializer()->set_high(1);
  return variable;
}

std::vector<float> Fill(const InitialValues& initial, uint64_t first,
                        size_t count) {
  std::vector<float> values(count);
  initial.Fill(first, absl::MakeSpan(values));
  return values;
}

TEST(InitialValuesTest, APartIsThatOfTheWhole) {
  const InitialValues initial(Uniform(), 7);
  const std::vector<float> whole = Fill(initial, 0, 1000);
  EXPECT_THAT(Fill(initial, 300, 100),
              ElementsAreArray(whole.begin() + 300, whole.begin() + 400));
  EXPECT_LT(*std::min_element(whole.begin(), whole.end()), -1.9f);
  EXPECT_GT(*std::max_element(whole.begin(), whole.end()), 0.9f);
}

TEST(InitialValuesTest, SeedAndNameMatter) {
  v1::Variable other = Uniform();
  other.set_name("v");
  const std::vector<float> values = Fill(InitialValues(Uniform(), 7), 0, 10);
  EXPECT_NE(Fill(InitialValues(Uniform(), 8), 0, 10), values);
  EXPECT_NE(Fill(InitialValues(other, 7), 0, 10), values);
}

TEST(InitialValuesTest, AKeyHasARowOfItsOwn) {
  const InitialValues initial(Uniform(), 7);
  std::vector<float> row(8);
  initial.FillRow(3, absl::MakeSpan(row));
  EXPECT_EQ(row, Fill(initial, 24, 8));
  initial.FillRow(~uint64_t{0}, absl::MakeSpan(row));
  EXPECT_EQ(row, Fill(initial, ~uint64_t{0} - 7, 8));
}

TEST(InitialValuesTest, Zeros) {
  v1::Variable variable = Uniform();
  variable.mutable_initializer()->set_kind(v1::Initializer::ZEROS);
  EXPECT_THAT(Fill(InitialValues(variable, 7), 5, 10), Each(0.0f));
  EXPECT_THAT(Fill(InitialValues(Uniform(), 7), 5, 10), Not(Each(0.0f)));
}

}  // namespace
}  // namespace paramd
