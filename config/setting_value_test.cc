#include "config/setting_value.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

std::vector<std::string> TextOf(const v1::JobConfig& config) {
  std::vector<std::string> lines;
  for (const SettingValue& value : ValuesOf(config)) {
    lines.push_back(value.path + "=" + value.json +
                    (value.is_local ? " local" : ""));
  }
  return lines;
}

TEST(SettingValueTest, EveryValueHasItsPathInOrder) {
  v1::JobConfig config;
  config.set_epochs(5);
  config.set_name("a \"b\"");
  config.set_log_level(v1::JobConfig::LOG_LEVEL_DEBUG);
  config.mutable_input()->set_directory("/data");
  config.mutable_model()->add_layers()->mutable_flatten();
  config.mutable_model()->add_layers()->mutable_dense()->set_units(7);
  config.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  EXPECT_THAT(TextOf(config),
              ::testing::ElementsAre("name=\"a \\\"b\\\"\"",
                                     "model.layers[0].flatten={}",
                                     "model.layers[1].dense.units=7",
                                     "input.directory=\"/data\" local",
                                     "optimizer.sgd.momentum=0.5", "epochs=5",
                                     "log_level=\"debug\" local"));
}

TEST(SettingValueTest, NumbersAreShortAndToldApart) {
  v1::JobConfig config;
  const auto text = [&config](double rate) {
    config.mutable_optimizer()->set_learning_rate(rate);
    return TextOf(config).back();
  };
  EXPECT_EQ(text(0.001), "optimizer.learning_rate=0.001");
  EXPECT_EQ(text(0.0010000000000000002),
            "optimizer.learning_rate=0.0010000000000000002");
  EXPECT_EQ(text(1e-7), "optimizer.learning_rate=1e-07");
  EXPECT_EQ(text(1), "optimizer.learning_rate=1");
}

TEST(SettingValueTest, NothingHasNoValues) {
  EXPECT_THAT(ValuesOf(v1::JobConfig()), ::testing::IsEmpty());
}

}  // namespace
}  // namespace paramd
