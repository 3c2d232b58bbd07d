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
      if (key->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE ||
          key->name() == "learning_rate") {
        continue;
      }
      v1::OptimizerConfig config;
      auto* const constants =
          config.GetReflection()->MutableMessage(&config, kind);
      const FieldDescriptor* const own =
          constants->GetDescriptor()->FindFieldByName(key->name());
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

// Each kind that all variables may have, a group may have.
TEST(OptimizerGroupsTest, AGroupMayNameEachKindButNoTwo) {
  const auto* const kinds =
      v1::OptimizerConfig::descriptor()->FindOneofByName("kind");
  const auto* const keys = v1::OptimizerConfig::Group::descriptor();
  for (int k = 0; k < kinds->field_count(); ++k) {
    const FieldDescriptor* const kind = kinds->field(k);
    const FieldDescriptor* const named = keys->FindFieldByName(kind->name());
    ASSERT_NE(named, nullptr) << kind->name();
    ASSERT_EQ(named->message_type(), kind->message_type());
    v1::OptimizerConfig config;
    // Of another kind.
    k == 0 ? (void)config.mutable_adam() : (void)config.mutable_sgd();
    v1::OptimizerConfig::Group* const group = config.add_groups();
    group->GetReflection()->MutableMessage(group, named);
    v1::OptimizerConfig used = config;
    EXPECT_FALSE(UseGroup(0, &used).has_value());
    EXPECT_TRUE(used.GetReflection()->HasField(used, kind)) << kind->name();
  }
  v1::OptimizerConfig config;
  config.mutable_sgd();
  config.add_groups()->mutable_adam();
  config.mutable_groups(0)->mutable_lamb();
  const auto mistake = UseGroup(0, &config);
  ASSERT_TRUE(mistake.has_value());
  EXPECT_EQ(mistake->key, "lamb");
  EXPECT_EQ(mistake->sentence, "conflicts with 'adam'; keep one");
}

TEST(OptimizerGroupsTest, ConstantsAndRateBesideAKindAreOfThatKind) {
  v1::OptimizerConfig config = AdamwOfGroups();
  config.set_learning_rate(0.001);
  config.mutable_groups(0)->mutable_adagrad()->set_row_wise(true);
  config.mutable_groups(0)->set_epsilon(1e-3);
  config.mutable_groups(0)->set_weight_decay(0.25);
  config.mutable_groups(0)->set_learning_rate(0.05);
  v1::OptimizerConfig used = config;
  EXPECT_FALSE(UseGroup(0, &used).has_value());
  EXPECT_FALSE(used.has_adamw());
  EXPECT_TRUE(used.adagrad().row_wise());
  EXPECT_EQ(used.adagrad().epsilon(), 1e-3);
  EXPECT_EQ(used.weight_decay(), 0.25);
  EXPECT_EQ(used.learning_rate(), 0.05);
  used = config;
  used.mutable_groups(0)->set_beta1(0.5);
  EXPECT_EQ(UseGroup(0, &used)->sentence, "adagrad has no beta1");
  used = config;
  used.mutable_groups(0)->set_learning_rate(0);
  EXPECT_EQ(UseGroup(0, &used)->sentence, "is 0; it must be above 0, or -1");
}

TEST(OptimizerGroupsTest, AVariableHasTheKindOfItsGroup) {
  v1::OptimizerConfig config = AdamwOfGroups();
  config.mutable_groups(1)->mutable_lamb();
  EXPECT_TRUE(KindOf(config, "foot").has_adamw());
  EXPECT_TRUE(KindOf(config, "head/kernel").has_adamw());
  EXPECT_TRUE(KindOf(config, "body").has_lamb());
  EXPECT_TRUE(UsesLamb(config));
  config.mutable_groups(1)->clear_lamb();
  EXPECT_FALSE(UsesLamb(config));
  config.mutable_lamb();
  EXPECT_TRUE(UsesLamb(config));
}

TEST(OptimizerGroupsTest, MomentumMayBeOfSomeAlone) {
  for (const bool have : {true, false}) {
    v1::OptimizerConfig config;
    config.mutable_sgd()->set_momentum(have ? 0.9 : 0);
    config.add_groups()->set_momentum(have ? 0 : 0.9);
    EXPECT_FALSE(UseGroup(0, &config).has_value());
    EXPECT_EQ(config.sgd().momentum() > 0, !have);
  }
}

}  // namespace
}  // namespace paramd
