#include "proto/data_meaning.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::DataMeaning Meaning(const std::string& source) {
  v1::DataMeaning meaning;
  meaning.set_source(source);
  return meaning;
}

// `hash` stands for that of the values.
void AddFact(const std::string& name, const std::string& feature,
             const std::vector<std::string>& values, uint64_t hash,
             v1::DataMeaning* meaning) {
  v1::DataMeaning::Fact* fact = meaning->add_facts();
  fact->set_name(name);
  fact->set_feature(feature);
  for (const std::string& value : values) fact->add_values(value);
  fact->set_count(static_cast<uint32_t>(values.size()));
  fact->set_hash(hash);
}

TEST(DataMeaningTest, WhatDiffersIsNamedWithBothValues) {
  v1::DataMeaning ours = Meaning("csv");
  v1::DataMeaning meant = ours;
  AddFact("csv.columns", "features", {"b", "a"}, 1, &ours);
  AddFact("csv.columns", "features", {"a", "b"}, 2, &meant);
  AddFact("csv.hash_buckets", "features", {"8"}, 3, &ours);
  AddFact("csv.hash_buckets", "features", {"8"}, 3, &meant);
  AddFact("stages of 'features'", "features", {}, 0, &ours);
  AddFact("stages of 'features'", "features", {"normalise mean 1"}, 4, &meant);
  EXPECT_EQ(MeaningDifference(ours, meant),
            "csv.columns b, a, not a, b; stages of 'features' none, not "
            "normalise mean 1");
  EXPECT_EQ(MeaningDifference(ours, ours), "");
}

TEST(DataMeaningTest, WhatOneOfThemDoesNotSayIsUnknown) {
  v1::DataMeaning ours = Meaning("csv");
  AddFact("csv.newer", "features", {"1"}, 1, &ours);
  EXPECT_EQ(MeaningDifference(ours, Meaning("csv")), "");
  EXPECT_EQ(MeaningDifference(Meaning("csv"), ours), "");
}

TEST(DataMeaningTest, WhatNobodyReadsMayDiffer) {
  v1::DataMeaning ours = Meaning("csv");
  v1::DataMeaning meant = ours;
  AddFact("csv.label", "label", {}, 0, &ours);
  AddFact("csv.label", "label", {"price"}, 1, &meant);
  EXPECT_EQ(MeaningDifference(ours, meant), "csv.label none, not price");
  const std::vector<std::string> unread = {"label"};
  EXPECT_EQ(MeaningDifference(ours, meant, unread), "");
}

TEST(DataMeaningTest, OfLongListsTheFirstDifferenceIsNamed) {
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("c" + std::to_string(i));
  v1::DataMeaning meant = Meaning("csv");
  AddFact("csv.columns", "features", names, 1, &meant);
  v1::DataMeaning ours = Meaning("csv");
  names[12] = "other";
  AddFact("csv.columns", "features", names, 2, &ours);
  EXPECT_EQ(MeaningDifference(ours, meant),
            "csv.columns with other in place 13, not c12");
}

TEST(DataMeaningTest, AnotherKindAgreesInStagesUnlessOneHasNamesOfItsOwn) {
  v1::DataMeaning idx = Meaning("idx");
  AddFact("stages of 'image'", "image", {"cast type float32 scale 0.00392157"},
          1, &idx);
  v1::DataMeaning npy = Meaning("npy");
  AddFact("stages of 'image'", "image", {}, 0, &npy);
  EXPECT_EQ(MeaningDifference(npy, idx), "") << "it is real from the start";
  v1::DataMeaning bytes = Meaning("npy");
  AddFact("stages of 'image'", "image", {"cast type float32 scale 1"}, 2,
          &bytes);
  EXPECT_EQ(
      MeaningDifference(bytes, idx),
      "stages of 'image' cast type float32 scale 1, not cast type float32 "
      "scale 0.00392157");
  for (const char* named : {"csv", "libsvm", "image_folders"}) {
    EXPECT_NE(MeaningDifference(npy, Meaning(named)), "") << named;
    EXPECT_NE(MeaningDifference(Meaning(named), npy), "") << named;
  }
  const std::vector<std::string> unread = {"label"};
  EXPECT_EQ(MeaningDifference(npy, Meaning("image_folders"), unread), "");
}

}  // namespace
}  // namespace paramd
