#include "config/optimizer_groups.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::testing::HasSubstr;

v1::OptimizerConfig AdamwOfGroups() {
  v1::OptimizerConfig config;
  config.mutable_adamw()->set_beta1(0.9);
  config.add_groups()->set_variables("head/*,*/bias");
  config.mutable_groups(0)->set_weight_decay(0);
  config.add_groups()->set_variables("head/kernel,body");
  config.mutable_groups(1)->set_beta1(0.5);
  config.mutable_groups(1)->set_epsilon(1e-3);
  return config;
}

TEST(OptimizerGroupsTest, TheFirstThatNamesAVariableCounts) {
  const v1::OptimizerConfig config = AdamwOfGroups();
  EXPECT_EQ(GroupOf(config, "head/kernel"), 0);
  EXPECT_EQ(GroupOf(config, "body/bias"), 0);
  EXPECT_EQ(GroupOf(config, "body"), 1);
  EXPECT_FALSE(GroupOf(config, "foot").has_value());
}

TEST(OptimizerGroupsTest, WhatItSaysIsOfTheGroupTheRestOfAll) {
  v1::OptimizerConfig first = AdamwOfGroups();
  EXPECT_FALSE(UseGroup(0, &first).has_value());
  EXPECT_EQ(first.groups_size(), 0);
  EXPECT_TRUE(first.adamw().has_weight_decay());
  EXPECT_EQ(first.adamw().weight_decay(), 0);
  EXPECT_EQ(first.adamw().beta1(), 0.9);
  v1::OptimizerConfig second = AdamwOfGroups();
  EXPECT_FALSE(UseGroup(1, &second).has_value());
  EXPECT_EQ(second.adamw().beta1(), 0.5);
  EXPECT_EQ(second.adamw().epsilon(), 1e-3);
  EXPECT_FALSE(second.adamw().has_weight_decay());
}

// Each key with each optimizer: it is used, or refused by its name.
TEST(OptimizerGroupsTest, EveryKeyIsOfTheOptimizerOrRefused) {
  const auto* const all = v1::OptimizerConfig::descriptor();
  const auto* const kinds = all->FindOneofByName("kind");
  const auto* const keys = v1::OptimizerConfig::Group::descriptor();
  for (int k = 0; k < kinds->field_count(); ++k) {
    const FieldDescriptor* const kind = kinds->field(k);
    for (int f = 0; f < keys->field_count(); ++f) {
      const FieldDescriptor* const key = keys->field(f);
      if (key->name() == "variables") continue;
      v1::OptimizerConfig config;
      auto* const constants =
          config.GetReflection()->MutableMessage(&config, kind);
      const FieldDescriptor* const own =
          constants->GetDescriptor()->FindFieldByName(key->name());
      if (key->name() == "momentum" && own != nullptr) {
        constants->GetReflection()->SetDouble(constants, own, 0.9);
      }
      v1::OptimizerConfig::Group* const group = config.add_groups();
      group->GetReflection()->SetDouble(group, key, 0.25);
      const auto mistake = UseGroup(0, &config);
      const std::string which = absl::StrCat(kind->name(), " ", key->name());
      if (own == nullptr && key->name() != "weight_decay") {
        ASSERT_TRUE(mistake.has_value()) << which;
        EXPECT_EQ(mistake->key, key->name());
        EXPECT_THAT(mistake->sentence, HasSubstr(kind->name()));
        continue;
      }
      EXPECT_FALSE(mistake.has_value()) << which;
      EXPECT_EQ(own == nullptr
                    ? config.weight_decay()
                    : constants->GetReflection()->GetDouble(*constants, own),
                0.25)
          << which;
    }
  }
}

TEST(OptimizerGroupsTest, BelowZeroIsNothingButAsTheOthers) {
  v1::OptimizerConfig config = AdamwOfGroups();
  config.mutable_groups(1)->set_beta1(-1);
  EXPECT_FALSE(UseGroup(1, &config).has_value());
  EXPECT_EQ(config.adamw().beta1(), 0.9);
  for (const double wrong : {-0.5, -2.0}) {
    config = AdamwOfGroups();
    config.mutable_groups(1)->set_beta1(wrong);
    EXPECT_EQ(UseGroup(1, &config)->key, "beta1");
  }
  config = AdamwOfGroups();
  config.mutable_groups(1)->set_epsilon(0);
  EXPECT_THAT(UseGroup(1, &config)->sentence,
              HasSubstr("must be above 0, or -1"));
}

TEST(OptimizerGroupsTest, MomentumIsKeptForAllOrForNone) {
  for (const bool have : {true, false}) {
    v1::OptimizerConfig config;
    config.mutable_sgd()->set_momentum(have ? 0.9 : 0);
    config.add_groups()->set_momentum(have ? 0 : 0.9);
    const auto mistake = UseGroup(0, &config);
    ASSERT_TRUE(mistake.has_value());
    EXPECT_EQ(mistake->key, "momentum");
    EXPECT_THAT(mistake->sentence, HasSubstr("all variables have some"));
  }
}

}  // namespace
}  // namespace paramd
