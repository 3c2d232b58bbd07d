#include "config/name_pattern.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

using Texts = std::vector<std::string>;

TEST(NamePatternTest, WithoutAStarItIsOneName) {
  EXPECT_EQ(NamePattern("dense/bias").Match("dense/bias"), Texts{});
  EXPECT_EQ(NamePattern("dense/bias").Match("dense/bias2"), absl::nullopt);
  EXPECT_EQ(NamePattern("").Match("dense/bias"), absl::nullopt);
}

TEST(NamePatternTest, AStarStandsForAnyText) {
  EXPECT_EQ(NamePattern("*").Match("a/b"), Texts{"a/b"});
  EXPECT_EQ(NamePattern("*").Match(""), Texts{""});
  EXPECT_EQ(NamePattern("dense_*/kernel").Match("dense_12/kernel"),
            Texts{"12"});
  EXPECT_EQ(NamePattern("dense_*/kernel").Match("dense_12/bias"),
            absl::nullopt);
}

TEST(NamePatternTest, WhatStandsAroundAStarDoesNotOverlap) {
  EXPECT_EQ(NamePattern("ab*ba").Match("aba"), absl::nullopt);
  EXPECT_EQ(NamePattern("ab*ba").Match("abba"), Texts{""});
}

TEST(NamePatternTest, TheFirstStarTakesAsLittleAsPossible) {
  EXPECT_EQ(NamePattern("*/*").Match("a/b/c"), (Texts{"a", "b/c"}));
  EXPECT_EQ(NamePattern("x*y*z").Match("x1y2yz"), (Texts{"1", "2y"}));
  EXPECT_EQ(NamePattern("x*y*z").Match("x1z"), absl::nullopt);
}

TEST(NamePatternTest, TextsAreFilledIn) {
  EXPECT_EQ(NamePattern("layers.*.*").Fill({"2", "weight"}), "layers.2.weight");
  EXPECT_EQ(NamePattern("w").Fill({}), "w");
  EXPECT_EQ(NamePattern("a*").stars(), 1u);
}

TEST(NamePatternTest, OneOfSeveralIsEnough) {
  EXPECT_TRUE(MatchesAny("head/*,*/bias", "dense_2/bias"));
  EXPECT_TRUE(MatchesAny("head/*,*/bias", "head/kernel"));
  EXPECT_TRUE(MatchesAny("*", "w"));
  EXPECT_FALSE(MatchesAny("head/*,*/bias", "dense_2/kernel"));
  EXPECT_FALSE(MatchesAny("", "w"));
  EXPECT_FALSE(MatchesAny(",", ""));
}

TEST(NamePatternTest, ANameIsThatOfTheFirstPatternWhichFits) {
  EXPECT_EQ(Renamed("*/kernel,*/bias", "*.weight,*.bias", "dense_1/bias"),
            "dense_1.bias");
  EXPECT_EQ(Renamed("a*,*", "x*,y*", "ab"), "xb");
  EXPECT_EQ(Renamed("a,b", "", "b"), "b");
  EXPECT_EQ(Renamed("a,b", "", "c"), absl::nullopt);
}

}  // namespace
}  // namespace paramd
