#include "base/log.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paramd {
namespace {

using ::testing::HasSubstr;

std::string Logged(const std::string& value) {
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "event", {{"key", value}});
  return ::testing::internal::GetCapturedStderr();
}

TEST(LogTest, AValueIsQuotedWhereItNeedsToBe) {
  EXPECT_THAT(Logged("plain"), HasSubstr("info paramd event key=plain\n"));
  EXPECT_THAT(Logged("the chief's"), HasSubstr("key=\"the chief's\"\n"));
  EXPECT_THAT(Logged("a \"b\"\n\\"), HasSubstr(R"(key="a \"b\"\n\\")"));
  EXPECT_THAT(Logged(""), HasSubstr("key=\"\"\n"));
}

TEST(LogTest, AnEventStaysInItsLine) {
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "two\nlines");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(R"(info paramd two\nlines)"));
}

TEST(LogTest, WhatATerminalWouldObeyIsEscaped) {
  EXPECT_THAT(Logged("\x1b[2J\r"), HasSubstr(R"(key="\x1b[2J\x0d")"));
  EXPECT_THAT(Logged("a\x7f"), HasSubstr(R"(key="a\x7f")"));
  // C1 as UTF-8, and alone as a terminal of eight bits takes it.
  EXPECT_THAT(Logged("\xc2\x9b"
                     "31m"),
              HasSubstr(R"(key="\xc2\x9b31m")"));
  EXPECT_THAT(Logged("\x9b"), HasSubstr(R"(key="\x9b")"));
  EXPECT_THAT(Logged("größe→\U0001F600"), HasSubstr("key=größe→\U0001F600\n"));
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "a stranger's \x1b]0;title\x07");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(R"(a stranger's \x1b]0;title\x07)"));
}

TEST(LogTest, AsJsonNothingIsWrittenThatATerminalWouldObey) {
  ::testing::internal::CaptureStderr();
  InitLogging("ps-0", LogLevel::kInfo, LogFormat::kJson);
  Log(LogLevel::kWarning, "\x7f",
      {{"key",
        "\xc2\x9b"
        "31m\x1b"}});
  InitLogging("paramd", LogLevel::kInfo);
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, HasSubstr(R"("\u009b31m\u001b")"));
  EXPECT_THAT(line, HasSubstr(R"("message":"\u007f")"));
}

// What one event looks like as JSON; the format is text again after it.
template <typename Value>
nlohmann::json LoggedAsJson(absl::string_view key, const Value& value) {
  ::testing::internal::CaptureStderr();
  InitLogging("ps-0", LogLevel::kInfo, LogFormat::kJson);
  Log(LogLevel::kWarning, "what \"happened\"", {{key, value}});
  InitLogging("paramd", LogLevel::kInfo);
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  return nlohmann::json::parse(line);
}

TEST(LogTest, AsJsonEachLineIsAnObjectWithItsFieldsAndTheirTypes) {
  const nlohmann::json line = LoggedAsJson("step", 5000);
  EXPECT_EQ(line.size(), 5u);
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["task"], "ps-0");
  EXPECT_EQ(line["message"], "what \"happened\"");
  EXPECT_EQ(line["step"], 5000);
  EXPECT_THAT(line["time"].get<std::string>(),
              ::testing::MatchesRegex(
                  "....-..-..T..:..:..[.][0-9]+[+-][0-9][0-9]:[0-9][0-9]"));
  EXPECT_EQ(LoggedAsJson("rate", 0.5)["rate"], 0.5);
  EXPECT_EQ(LoggedAsJson("on", true)["on"], true);
  EXPECT_EQ(LoggedAsJson("digits", "17")["digits"], "17");
}

TEST(LogTest, AsJsonWhatJsonCannotSayIsText) {
  EXPECT_EQ(LoggedAsJson("loss", std::nan(""))["loss"], "nan");
  EXPECT_EQ(LoggedAsJson("loss", -HUGE_VAL)["loss"], "-inf");
  EXPECT_EQ(LoggedAsJson("name", "a\xff\n")["name"], "a\uFFFD\n");
}

TEST(LogTest, AsJsonAFieldDoesNotHideAKeyOfEveryLine) {
  const nlohmann::json line = LoggedAsJson("message", "mine");
  EXPECT_EQ(line["message"], "what \"happened\"");
  EXPECT_EQ(line["field_message"], "mine");
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
