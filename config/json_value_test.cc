#include "config/json_value.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

struct Parsed {
  absl::optional<JsonValue> value;
  std::string message;
};

Parsed Parse(absl::string_view text) {
  Mistakes mistakes;
  Parsed parsed;
  parsed.value = ParseJson(text, {"job.json"}, {}, &mistakes);
  parsed.message = std::string(mistakes.ToStatus().message());
  return parsed;
}

TEST(JsonValueTest, EveryValueKnowsItsLine) {
  const Parsed parsed =
      Parse("{\"a\": 1,\n \"b\": 2\n,\"c\":\n[3\n,true], \"d\": 4.5\n\n}");
  ASSERT_TRUE(parsed.value) << parsed.message;
  EXPECT_EQ(parsed.value->line, 1);
  EXPECT_EQ(parsed.value->Find("a")->line, 1);
  EXPECT_EQ(parsed.value->Find("b")->line, 2);
  EXPECT_EQ(parsed.value->Find("c")->line, 4);
  EXPECT_EQ(parsed.value->Find("c")->elements[0].line, 4);
  EXPECT_EQ(parsed.value->Find("c")->elements[1].line, 5);
  EXPECT_EQ(parsed.value->Find("d")->line, 5);
  EXPECT_EQ(parsed.value->Find("e"), nullptr);
}

TEST(JsonValueTest, NumbersKeepTheirKind) {
  const Parsed parsed = Parse(
      "[18446744073709551615, -9223372036854775808, 1.5, -2, 5.0, 1e3, 1e300]");
  ASSERT_TRUE(parsed.value) << parsed.message;
  const auto& e = parsed.value->elements;
  EXPECT_TRUE(e[0].is_whole);
  EXPECT_EQ(e[0].magnitude, 18446744073709551615u);
  EXPECT_TRUE(e[1].is_negative);
  EXPECT_EQ(e[1].magnitude, 9223372036854775808u);
  EXPECT_FALSE(e[2].is_whole);
  EXPECT_EQ(e[3].Describe(), "-2");
  EXPECT_TRUE(e[4].is_whole);
  EXPECT_EQ(e[5].magnitude, 1000u);
  EXPECT_TRUE(e[5].is_whole);
  EXPECT_FALSE(e[6].is_whole);
}

TEST(JsonValueTest, ARepeatedKeyIsNamedAndItsFirstValueHolds) {
  const Parsed parsed =
      Parse("{\"a\": {\"b\": 1,\n\"c\": 3,\n\"b\": {\"x\": 2}, \"d\": 4}}");
  ASSERT_TRUE(parsed.value);
  EXPECT_EQ(parsed.message,
            "job.json:3: a.b: given twice, first in line 1; keep one");
  const JsonValue& a = *parsed.value->Find("a");
  ASSERT_EQ(a.members.size(), 3u);
  EXPECT_EQ(a.Find("b")->magnitude, 1u);
  EXPECT_EQ(a.Find("d")->magnitude, 4u);
}

TEST(JsonValueTest, UsualSlipsAreNamed) {
  EXPECT_THAT(Parse("{\"a\": 1,\n}").message,
              HasSubstr("job.json:2: not valid JSON"));
  EXPECT_THAT(Parse("{\"a\": 1,\n}").message,
              HasSubstr("leave out the comma before '}'"));
  EXPECT_THAT(Parse("{'a': 1}").message, HasSubstr("double quotes"));
  EXPECT_THAT(Parse("{\"a\":}").message, HasSubstr("no value after ':'"));
  EXPECT_THAT(Parse("{\"a\": 1").message, HasSubstr("the end is missing"));
  EXPECT_THAT(Parse("{\"a\": 1 // one\n}").message, HasSubstr("no comments"));
  EXPECT_THAT(Parse("").message, HasSubstr("it is empty"));
  EXPECT_THAT(Parse(" \n ").message, HasSubstr("it is empty"));
  EXPECT_THAT(Parse("{} {}").message, HasSubstr("not valid JSON"));
}

TEST(JsonValueTest, HostileTextIsRefusedWithASentence) {
  EXPECT_THAT(Parse(std::string(10 << 20, ' ')).message,
              HasSubstr("10485760 bytes are too many"));
  EXPECT_THAT(Parse(std::string(10000, '[')).message,
              HasSubstr("nested deeper than 32 levels"));
  std::string objects;
  for (int i = 0; i < 10000; ++i) absl::StrAppend(&objects, "{\"a\":");
  EXPECT_THAT(Parse(objects).message,
              HasSubstr("nested deeper than 32 levels"));
  EXPECT_THAT(Parse("{\"a\": 1e999}").message, HasSubstr("number overflow"));
  EXPECT_THAT(Parse("{\"a\": \"\xff\xfe\"}").message,
              HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(Parse(absl::string_view("{}\0{", 4)).message,
              HasSubstr("NUL byte at offset 2"));
  EXPECT_THAT(Parse("{\"a\": \"x\\u0000y\"}").message,
              HasSubstr("NUL character"));
  EXPECT_THAT(Parse("{\"a\\u0000\": 1}").message, HasSubstr("NUL character"));
  EXPECT_THAT(Parse("\xff\xff").message, HasSubstr("not valid JSON"));
}

TEST(JsonValueTest, MessagesArePrintable) {
  for (const char* text :
       {"\xff\x01\x1b[31m", "{\"\xc3\xa9\": \x1b}", "{\"a\": \"\x1b\"}"}) {
    for (const char c : Parse(text).message) EXPECT_TRUE(isprint(c)) << int(c);
  }
}

TEST(JsonValueTest, QuotingIsReadBack) {
  const std::string text = "a\"b\\c\n\x01\xc3\xa9";
  const Parsed parsed = Parse(QuoteJson(text));
  ASSERT_TRUE(parsed.value) << parsed.message;
  EXPECT_EQ(parsed.value->text, text);
}

}  // namespace
}  // namespace paramd
