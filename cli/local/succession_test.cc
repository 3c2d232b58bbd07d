#include "cli/local/succession.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paramd {
namespace {

using ::testing::SizeIs;

std::string ValueOf(const std::string& argument) {
  const std::vector<std::string> parts = absl::StrSplit(argument, '=');
  return parts[1];
}

TEST(SuccessionTest, TheFirstProcessOfATaskReplacesNobody) {
  Succession succession;
  const auto first = succession.NextOf("worker-1");
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0], absl::StrCat("--incarnation=", ValueOf(first[0])));
  EXPECT_THAT(succession.NextOf("worker-2"), SizeIs(1));
}

TEST(SuccessionTest, EachOtherReplacesTheOneBefore) {
  Succession succession;
  std::string before = ValueOf(succession.NextOf("worker-1")[0]);
  for (int i = 0; i < 3; ++i) {
    const auto next = succession.NextOf("worker-1");
    ASSERT_THAT(next, SizeIs(2));
    EXPECT_EQ(next[1], absl::StrCat("--replaces=", before));
    EXPECT_NE(ValueOf(next[0]), before);
    before = ValueOf(next[0]);
  }
}

}  // namespace
}  // namespace paramd
