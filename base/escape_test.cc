#include "base/escape.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

bool IsPrintable(const std::string& text, const std::string& but) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (but.find(c) == std::string::npos && (byte < 0x20 || byte == 0x7f)) {
      return false;
    }
  }
  return text.find("\xc2\x80") == std::string::npos &&
         text.find("\xc2\x9b") == std::string::npos;
}

TEST(EscapeTest, WhateverTheBytesAreNoTerminalObeysThem) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {'a', static_cast<char>(first),
                                static_cast<char>(second), 'z'};
      EXPECT_TRUE(IsPrintable(EscapeControls(text), "\n\t"))
          << first << " " << second;
      EXPECT_TRUE(IsPrintable(EscapeLine(text), "")) << first << " " << second;
    }
  }
}

TEST(EscapeTest, WhatPeopleReadStaysAsItIs) {
  const std::string text = "step 5: 'Größe/核' is 3.5 °C\nnext\tone";
  EXPECT_EQ(EscapeControls(text), text);
  EXPECT_EQ(EscapeControls("a\x1b[2J\x07z"), "a\\x1b[2J\\x07z");
  EXPECT_EQ(EscapeControls("a\xc2\x9bz\xff"), "a\\xc2\\x9bz\\xff");
}

TEST(EscapeTest, WhatUtf8DoesNotHaveIsBytes) {
  EXPECT_EQ(EscapeControls("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(EscapeControls("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  // Their neighbours are characters.
  for (const char* const last : {"\xed\x9f\xbf", "\xee\x80\x80",
                                 "\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80"}) {
    EXPECT_EQ(EscapeControls(last), last);
  }
}

TEST(EscapeTest, ALineStaysOne) {
  EXPECT_EQ(EscapeLine("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(EscapeLine(EscapeLine("a\n\x1b")), EscapeLine("a\n\x1b"));
}

TEST(EscapeTest, WhatXmlWouldObeyIsText) {
  EXPECT_EQ(EscapeXml("<a b=\"c\">&amp;\n\x1b"),
            "&lt;a b=&quot;c&quot;&gt;&amp;amp;\\n\\x1b");
}

}  // namespace
}  // namespace paramd
