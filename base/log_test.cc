#include "base/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

std::string Logged(const std::string& value) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "event", {{"key", value}});
  return testing::internal::GetCapturedStderr();
}

TEST(LogTest, AValueIsQuotedWhereItNeedsToBe) {
  EXPECT_THAT(Logged("plain"), HasSubstr("info paramd event key=plain\n"));
  EXPECT_THAT(Logged("the chief's"), HasSubstr("key=\"the chief's\"\n"));
  EXPECT_THAT(Logged("a \"b\"\n\\"), HasSubstr(R"(key="a \"b\"\n\\")"));
  EXPECT_THAT(Logged(""), HasSubstr("key=\"\"\n"));
}

TEST(LogTest, ALevelHasAName) {
  LogLevel level = LogLevel::kInfo;
  EXPECT_TRUE(ParseLogLevel("warning", &level));
  EXPECT_EQ(level, LogLevel::kWarning);
  EXPECT_FALSE(ParseLogLevel("loud", &level));
  EXPECT_EQ(level, LogLevel::kWarning);
}

}  // namespace
}  // namespace paramd
