#include "process/terminal/text_layout.h"

#include <gtest/gtest.h>

namespace paramd {
namespace {

TEST(TextLayoutTest, ACharacterOfSeveralBytesTakesOneColumn) {
  EXPECT_EQ(Columns("–▇x"), 3u);
  EXPECT_EQ(Padded("–", 3), "–  ");
  EXPECT_EQ(AtRight("–", 3), "  –");
  EXPECT_EQ(Padded("long", 3), "long");
}

TEST(TextLayoutTest, CellsStandUnderEachOtherAndLinesEndWithoutBlanks) {
  EXPECT_EQ(Table({{"a", "–", "x"}, {"longer", "y", ""}}),
            "a       –  x\n"
            "longer  y\n");
  EXPECT_EQ(Table({{"", ""}}), "\n");
}

TEST(TextLayoutTest, LinesAreCutToWhatATerminalHas) {
  EXPECT_EQ(CutLine("–▇x", 2), "–▇");
  EXPECT_EQ(CutLine("ab", 2), "ab");
  EXPECT_EQ(CutLines("abc\n\nd\n", 2, 3), "ab\n\nd\n");
  EXPECT_EQ(CutLines("abc\n\nd\ne\n", 10, 3), "abc\n\nand 2 more\n");
  EXPECT_EQ(CutLines("a\nb\n", 80, 1), "and 2 more lines\n");
  EXPECT_EQ(CutLines("", 80, 1), "");
}

TEST(TextLayoutTest, ADurationIsToldInTheUnitsThatMatter) {
  EXPECT_EQ(SecondsText(0.24), "0.2 s");
  EXPECT_EQ(SecondsText(12.6), "13 s");
  EXPECT_EQ(SecondsText(125), "2 min 5 s");
  EXPECT_EQ(SecondsText(7290), "2 h 1 min");
}

}  // namespace
}  // namespace paramd
