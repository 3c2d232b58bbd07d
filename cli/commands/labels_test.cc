#include "cli/commands/labels.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Examples 0, 1, 2 and so on, of such labels and confidences.
std::vector<GivenLabel> Given(
    const std::vector<std::pair<uint32_t, float>>& labels) {
  std::vector<GivenLabel> given;
  for (const auto& [label, confidence] : labels) {
    given.push_back({.example = static_cast<uint32_t>(given.size()),
                     .label = label,
                     .confidence = confidence});
  }
  return given;
}

std::vector<uint32_t> Chosen(const LabelChoice& choice,
                             const std::vector<GivenLabel>& labels) {
  std::vector<uint32_t> examples;
  for (const GivenLabel& one : ChooseLabels(choice, labels)) {
    examples.push_back(one.example);
  }
  return examples;
}

const auto kSix =
    Given({{0, 0.9f}, {1, 0.5f}, {0, 0.7f}, {0, 0.9f}, {1, 0.8f}, {2, 0.4f}});

TEST(LabelsTest, WithoutAChoiceAllAreKept) {
  EXPECT_THAT(Chosen({}, kSix), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(LabelsTest, ThoseBelowTheThresholdAreLeftOut) {
  EXPECT_THAT(Chosen({.threshold = 0.7}, Given({{0, 0.9f}, {1, 0.6f}})),
              ElementsAre(0));
  EXPECT_THAT(Chosen({.threshold = 0.5}, kSix), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Chosen({.threshold = 0.95}, kSix), IsEmpty());
}

TEST(LabelsTest, WhatIsNoNumberIsNotSure) {
  EXPECT_THAT(Chosen({}, Given({{0, std::nanf("")}, {1, 0.1f}})),
              ElementsAre(1));
}

TEST(LabelsTest, OfEachClassTheSurestOrAllInTurn) {
  // Class 0: examples 0, 3, 2; class 1: 4, 1; class 2: 5.
  EXPECT_THAT(Chosen({.per_class = 1}, kSix), ElementsAre(0, 4, 5));
  EXPECT_THAT(Chosen({.per_class = 2}, kSix), ElementsAre(0, 1, 3, 4, 5, 5));
  EXPECT_THAT(Chosen({.per_class = 3}, kSix),
              ElementsAre(0, 1, 2, 3, 4, 4, 5, 5, 5));
  EXPECT_THAT(Chosen({.threshold = 0.5, .per_class = 2}, kSix),
              ElementsAre(0, 1, 3, 4));
}

TEST(LabelsTest, KnownOnesAreKeptOnceWhateverTheModelSays) {
  EXPECT_THAT(Chosen({.threshold = 0.75, .per_class = 2, .known = 2}, kSix),
              ElementsAre(0, 1, 3, 3, 4, 4));
}

TEST(LabelsTest, AKnownClassIsOneOfTheModels) {
  OwnedTensor label;
  label.Reset(DType::kInt32, {});
  label.values<int32_t>()[0] = 3;
  EXPECT_EQ(KnownClass(label, 4).value_or(9), 3u);
  EXPECT_EQ(KnownClass(label, 3).status(),
            absl::InvalidArgumentError("has the label 3; the model has 3 "
                                       "classes: give a smaller known"));
  label.values<int32_t>()[0] = -1;
  EXPECT_EQ(KnownClass(label, 3).status(),
            absl::InvalidArgumentError("has the label -1; the model has 3 "
                                       "classes: give a smaller known"));
  label.Reset(DType::kFloat32, {3});
  label.values<float>()[0] = label.values<float>()[2] = 0;
  label.values<float>()[1] = 1;
  EXPECT_EQ(KnownClass(label, 3).value_or(9), 1u);
}

v1::DataMeaning MeaningOf(
    const std::vector<std::pair<std::string, std::string>>& facts) {
  v1::DataMeaning meaning;
  meaning.set_source("csv");
  for (const auto& [name, value] : facts) {
    v1::DataMeaning::Fact* const fact = meaning.add_facts();
    fact->set_name(name);
    fact->set_feature("label");
    fact->add_values(value);
    fact->set_count(1);
    fact->set_hash(value.size());
  }
  return meaning;
}

TEST(LabelsTest, KnownOnesHaveTheClassesThatTheModelLearned) {
  const auto trained = MeaningOf({{"csv.label", "kind"},
                                  {"csv.class_names", "cat"},
                                  {"csv.labels.classes of 'label'", "10"},
                                  {"stages of 'label'", "one_hot"}});
  const auto check = [&](const std::string& name, const std::string& value) {
    return CheckKnownLabels(MeaningOf({{name, value}}), trained, "", "a/b");
  };
  EXPECT_TRUE(check("csv.class_names", "cat").ok());
  EXPECT_EQ(check("csv.class_names", "horse").message(),
            "the known labels are not those that checkpoint 'a/b' was trained "
            "on: they have csv.class_names horse, not cat; read them as it "
            "did, or leave known out");
  EXPECT_FALSE(check("csv.label", "colour").ok());
  EXPECT_TRUE(check("stages of 'label'", "").ok());
  EXPECT_TRUE(check("csv.labels.classes of 'label'", "100").ok());
  EXPECT_TRUE(CheckKnownLabels(MeaningOf({{"csv.class_names", "horse"}}),
                               trained, "other", "a/b")
                  .ok())
      << "another feature";
  EXPECT_TRUE(
      CheckKnownLabels(MeaningOf({{"csv.label", "colour"}}), {}, "", "a/b")
          .ok())
      << "nobody has written it down";
}

}  // namespace
}  // namespace paramd
