#include "cli/commands/chosen_model.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/recorded_model.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// Of a model with a dense layer that reads `input`.
v1::Manifest ManifestOf(const std::string& input) {
  v1::Manifest manifest;
  for (const char* const line :
       {"model.layers[0].dense.units=2", "model.layers[1].tanh={}",
        "model.loss=\"softmax_cross_entropy\""}) {
    manifest.mutable_job()->add_settings(line);
  }
  manifest.mutable_job()->add_settings("model.input=\"" + input + "\"");
  v1::Variable* const kernel = manifest.add_variables();
  kernel->set_name("dense_1/kernel");
  kernel->add_shape(3);
  kernel->add_shape(2);
  return manifest;
}

InputSpec DataWith(const std::vector<std::string>& names) {
  InputSpec spec;
  for (const std::string& name : names) {
    spec.features.emplace_back().name = name;
  }
  return spec;
}

class CheckTrainedAsTest : public ::testing::Test {
 protected:
  absl::Status Check(const InputSpec& data) const {
    const std::vector<v1::Variable> variables(trained_.variables().begin(),
                                              trained_.variables().end());
    return CheckTrainedAs(ours_, data, variables, "a/b", trained_);
  }

  const v1::Manifest trained_ = ManifestOf("user");
  v1::ModelConfig ours_ = *RecordedModel(trained_.job().settings());
};

TEST_F(CheckTrainedAsTest, WhatLayersReadMayHaveAnotherName) {
  EXPECT_TRUE(Check(DataWith({"user", "label"})).ok());
  ours_.set_input("member");
  EXPECT_TRUE(Check(DataWith({"member", "label"})).ok());
  const absl::Status other = Check(DataWith({"member", "user", "label"}));
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("was trained for: model.input is member, was user"));
}

TEST_F(CheckTrainedAsTest, AModelWithOtherVariablesIsMeantToBeAnother) {
  ours_.mutable_layers()->RemoveLast();
  EXPECT_FALSE(Check(DataWith({"user"})).ok());
  v1::Manifest wider = trained_;
  wider.mutable_variables(0)->set_shape(1, 4);
  const std::vector<v1::Variable> variables(trained_.variables().begin(),
                                            trained_.variables().end());
  EXPECT_TRUE(
      CheckTrainedAs(ours_, DataWith({"user"}), variables, "a/b", wider).ok());
}

TEST_F(CheckTrainedAsTest, OfWhatNobodyHasWrittenDownNothingIsKnown) {
  v1::Manifest unknown = trained_;
  unknown.mutable_job()->clear_settings();
  ours_.mutable_layers()->RemoveLast();
  const std::vector<v1::Variable> variables(trained_.variables().begin(),
                                            trained_.variables().end());
  EXPECT_TRUE(
      CheckTrainedAs(ours_, DataWith({"user"}), variables, "a/b", unknown)
          .ok());
}

}  // namespace
}  // namespace paramd
