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

TEST(TextLayoutTest, ADurationIsToldInTheUnitsThatMatter) {
  EXPECT_EQ(SecondsText(0.24), "0.2 s");
  EXPECT_EQ(SecondsText(12.6), "13 s");
  EXPECT_EQ(SecondsText(125), "2 min 5 s");
  EXPECT_EQ(SecondsText(7290), "2 h 1 min");
}

}  // namespace
}  // namespace paramd
