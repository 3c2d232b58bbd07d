#include "process/incarnation.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

TEST(IncarnationTest, EachOneIsDrawnAnew) {
  EXPECT_NE(DrawIncarnation(), DrawIncarnation());
  EXPECT_NE(DrawIncarnation(), 0u);
}

TEST(IncarnationTest, ItsTextIsReadBack) {
  EXPECT_EQ(IncarnationText(0xf8a27f0d433623cd), "f8a27f0d433623cd");
  EXPECT_EQ(IncarnationText(0x2a), "000000000000002a");
  EXPECT_EQ(*ParseIncarnation("--replaces", "000000000000002a"), 0x2au);
  EXPECT_EQ(*ParseIncarnation("--replaces", "f8a27f0d433623cd"),
            0xf8a27f0d433623cd);
}

TEST(IncarnationTest, WhatIsNoneIsRefusedByName) {
  for (const char* text :
       {"", "0", "x", "0x2a", "-1", " 2a", "10000000000000000"}) {
    const auto parsed = ParseIncarnation("--replaces", text);
    EXPECT_EQ(parsed.status().message(),
              absl::StrCat("--replaces is '", text,
                           "': it must be up to 16 hexadecimal digits, and "
                           "not 0"));
  }
}

}  // namespace
}  // namespace paramd
