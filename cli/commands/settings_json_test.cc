#include "cli/commands/settings_json.h"

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "proto/paramd/v1/input.pb.h"

namespace paramd {
namespace {

TEST(SettingsJsonTest, WhatIsTheDefaultIsLeftOut) {
  v1::InputConfig input;
  input.set_format(v1::InputConfig::IDX);
  input.set_parallelism("1");
  input.set_memory_mb(64);
  EXPECT_EQ(SettingsJson("input", input), "{\"input\": {\"memory_mb\": 64}}\n");
  input.clear_memory_mb();
  EXPECT_EQ(SettingsJson("input", input), "{\"input\": {}}\n");
}

TEST(SettingsJsonTest, ListsAlternativesAndEmptyMessagesKeepTheirPlaces) {
  v1::InputConfig input;
  v1::InputSource* const train = input.mutable_train();
  train->set_directory("/data/\"a\"");
  v1::InputFeature* const feature = train->mutable_records()->add_features();
  train->mutable_records()->add_files("train-*.records");
  feature->set_name("x");
  feature->set_type(v1::InputFeature::TYPE_INT64);
  feature->add_dims(3);
  feature->add_dims(2);
  input.add_stages()->mutable_skip()->set_examples(7);
  input.add_stages()->mutable_shuffle()->set_buffer(0);  // Its default.
  input.add_stages()->mutable_log()->set_feature("x");
  const std::string text = SettingsJson("input", input);
  EXPECT_EQ(nlohmann::json::parse(text), nlohmann::json::parse(R"({"input": {
    "train": {
      "directory": "/data/\"a\"",
      "records": {"files": ["train-*.records"],
                  "features": [{"name": "x", "type": "int64", "dims": [3, 2]}]}
    },
    "stages": [{"skip": {"examples": 7}}, {"shuffle": {}},
               {"log": {"feature": "x"}}]}})"));
  // What fits into a line stands in one.
  EXPECT_NE(text.find("\n    \"stages\": [{\"skip\": {\"examples\": 7}}, "
                      "{\"shuffle\": {}}, {\"log\": {\"feature\": \"x\"}}]\n"),
            std::string::npos)
      << text;
}

TEST(SettingsJsonTest, AJobFileHasWhatIsNotTheDefault) {
  v1::JobConfig job;
  job.set_name("small");
  job.set_run_dir("");
  job.mutable_checkpoint()->set_directory("");
  job.mutable_optimizer()->mutable_adam()->set_beta1(0.9);
  job.mutable_model()->add_layers()->mutable_dense()->set_units(4);
  job.mutable_model()->add_layers()->mutable_relu();
  EXPECT_EQ(nlohmann::json::parse(JobJson(job)), nlohmann::json::parse(R"({
    "name": "small",
    "model": {"layers": [{"dense": {"units": 4}}, {"relu": {}}]},
    "optimizer": {"adam": {}}})"));
}

}  // namespace
}  // namespace paramd
