#include "config/setting.h"

#include <set>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/json_value.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

void ForEachField(const Descriptor& type, std::set<const Descriptor*>* seen,
                  const std::function<void(const FieldDescriptor&)>& check) {
  if (!seen->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    check(*type.field(i));
    const Descriptor* inner = type.field(i)->message_type();
    if (inner != nullptr) ForEachField(*inner, seen, check);
  }
}

void ForEachSetting(const std::function<void(const FieldDescriptor&)>& check) {
  std::set<const Descriptor*> seen;
  ForEachField(*v1::JobConfig::descriptor(), &seen, check);
}

TEST(SettingTest, EverySettingIsDescribed) {
  ForEachSetting([](const FieldDescriptor& field) {
    const v1::SettingOptions& setting = SettingOf(field);
    EXPECT_THAT(setting.sentence(), ::testing::EndsWith("."))
        << field.full_name();
    EXPECT_FALSE(setting.example_json().empty()) << field.full_name();
    for (const std::string& json :
         {setting.example_json(), setting.default_json()}) {
      if (json.empty()) continue;
      Mistakes mistakes;
      ParseJson(json, {"option"}, {}, &mistakes);
      EXPECT_EQ(mistakes.ToStatus(), absl::OkStatus()) << field.full_name();
    }
  });
}

// A value is given, has a default or is asked for: none stays open.
TEST(SettingTest, EverySingleValueHasADefaultOrIsRequired) {
  ForEachSetting([](const FieldDescriptor& field) {
    if (field.message_type() != nullptr) return;
    const v1::SettingOptions& setting = SettingOf(field);
    EXPECT_NE(setting.default_json().empty(), !setting.required())
        << field.full_name();
    EXPECT_TRUE(field.has_presence() || field.is_repeated())
        << field.full_name();
  });
}

TEST(SettingTest, WhatASettingIsRequiredUnlessIsABoolOrAListOfTheJob) {
  ForEachSetting([](const FieldDescriptor& field) {
    for (absl::string_view path : absl::StrSplit(
             SettingOf(field).required_unless(), ',', absl::SkipEmpty())) {
      EXPECT_TRUE(SettingOf(field).required()) << field.full_name();
      if (absl::ConsumePrefix(&path, "../")) {
        const Descriptor* around = field.containing_type()->containing_type();
        ASSERT_NE(around, nullptr) << path;
        EXPECT_NE(around->FindFieldByName(std::string(path)), nullptr) << path;
        continue;
      }
      const google::protobuf::Descriptor* message = v1::JobConfig::descriptor();
      const FieldDescriptor* found = nullptr;
      for (const absl::string_view key : absl::StrSplit(path, '.')) {
        ASSERT_NE(message, nullptr) << path;
        found = message->FindFieldByName(std::string(key));
        ASSERT_NE(found, nullptr) << path;
        message = found->message_type();
      }
      EXPECT_TRUE(found->is_repeated() ||
                  found->cpp_type() == FieldDescriptor::CPPTYPE_BOOL)
          << path;
    }
  });
}

// What the reader and the digest can carry.
TEST(SettingTest, OnlyTypesThatTheReaderKnowsAreUsed) {
  ForEachSetting([](const FieldDescriptor& field) {
    EXPECT_THAT(
        field.cpp_type(),
        ::testing::AnyOf(
            FieldDescriptor::CPPTYPE_MESSAGE, FieldDescriptor::CPPTYPE_STRING,
            FieldDescriptor::CPPTYPE_ENUM, FieldDescriptor::CPPTYPE_BOOL,
            FieldDescriptor::CPPTYPE_DOUBLE, FieldDescriptor::CPPTYPE_INT32,
            FieldDescriptor::CPPTYPE_INT64, FieldDescriptor::CPPTYPE_UINT32,
            FieldDescriptor::CPPTYPE_UINT64))
        << field.full_name();
  });
}

TEST(SettingTest, NumbersHaveBounds) {
  ForEachSetting([](const FieldDescriptor& field) {
    const v1::SettingOptions& setting = SettingOf(field);
    const bool is_number =
        field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
        field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    if (field.is_repeated()) {
      EXPECT_TRUE(setting.has_max_elements()) << field.full_name();
    }
    if (!is_number) return;
    EXPECT_TRUE(setting.has_max() || setting.has_below()) << field.full_name();
  });
}

// Help, schema and defaults would have no end.
TEST(SettingTest, NoTypeHoldsItselfButThroughAList) {
  std::set<const Descriptor*> around;
  const std::function<void(const Descriptor&)> check =
      [&](const Descriptor& type) {
        ASSERT_TRUE(around.insert(&type).second) << type.full_name();
        for (int i = 0; i < type.field_count(); ++i) {
          const Descriptor* inside = type.field(i)->message_type();
          if (inside != nullptr && !type.field(i)->is_repeated()) {
            check(*inside);
          }
        }
        around.erase(&type);
      };
  ForEachSetting([&](const FieldDescriptor& field) {
    if (field.message_type() != nullptr) check(*field.message_type());
  });
}

TEST(SettingTest, NumbersThatAreNotSetGetTheirDefaults) {
  v1::OptimizerConfig::Adam adam;
  adam.set_beta1(0);
  adam = WithDefaultNumbers(adam);
  EXPECT_EQ(adam.beta1(), 0) << "it was set";
  EXPECT_EQ(adam.beta2(), 0.999);
  EXPECT_EQ(adam.epsilon(), 1e-7);
  v1::OptimizerConfig config;
  config.add_pruning()->set_sparsity(0.5);
  SetDefaultNumbers(&config);
  EXPECT_EQ(config.decay_factor(), 0.1);
  EXPECT_FALSE(config.has_learning_rate()) << "it has none";
  EXPECT_FALSE(config.pruning(0).has_power()) << "a message of its own";
  EXPECT_FALSE(config.has_schedule()) << "no number";
  EXPECT_EQ(WithDefaultNumbers(config.pruning(0)).every_steps(), 100u);
  v1::ModelConfig model;
  SetDefaultNumbers(&model);
  EXPECT_EQ(model.ignore_label(), -100);
  EXPECT_EQ(model.top_k(), 5u);
  EXPECT_TRUE(model.has_custom());
  EXPECT_FALSE(model.custom());
  EXPECT_TRUE(model.metrics().empty());
}

TEST(SettingTest, NoTwoSettingsShareAVariable) {
  std::set<std::string> names;
  for (const std::string& path : SettingPaths(*v1::JobConfig::descriptor())) {
    EXPECT_TRUE(names.insert(EnvironmentName(path)).second) << path;
  }
  EXPECT_TRUE(names.count("PARAMD_OPTIMIZER_ADAM_BETA1"));
  // Kubernetes sets it for a Service named paramd.
  EXPECT_FALSE(names.count("PARAMD_PORT"));
}

TEST(SettingTest, EnumsAreWrittenInLowerCaseWithoutTheirTypesName) {
  EXPECT_THAT(EnumNames(*v1::JobConfig::LogLevel_descriptor()),
              ::testing::ElementsAre("debug", "info", "warning", "error"));
  EXPECT_THAT(EnumNames(*v1::Loss_descriptor()),
              ::testing::ElementsAre(
                  "softmax_cross_entropy", "binary_cross_entropy",
                  "mean_squared_error", "kl_divergence", "in_batch_softmax"));
}

}  // namespace
}  // namespace paramd
