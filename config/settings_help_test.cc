#include "config/settings_help.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

SettingHelp HelpOf(const std::string& path) {
  for (const SettingHelp& help : SettingsHelp()) {
    if (help.path == path) return help;
  }
  ADD_FAILURE() << "no setting " << path;
  return {};
}

TEST(SettingsHelpTest, ASettingIsDescribedInFull) {
  const SettingHelp help = HelpOf("optimizer.learning_rate");
  EXPECT_EQ(help.type, "number");
  EXPECT_EQ(help.bounds, "greater than 0, at most 1000000");
  EXPECT_EQ(help.sentence, "Size of a step, before the schedule.");
  EXPECT_EQ(help.example_json, "0.001");
  EXPECT_TRUE(help.is_required);
  EXPECT_FALSE(help.is_local);
  EXPECT_EQ(help.flag(), "--set optimizer.learning_rate");
  EXPECT_EQ(help.variable(), "PARAMD_OPTIMIZER_LEARNING_RATE");
}

TEST(SettingsHelpTest, TheTopLevelHasFlagsOfItsOwn) {
  EXPECT_EQ(HelpOf("epochs").flag(), "--epochs");
  EXPECT_EQ(HelpOf("model").flag(), "--set model");
  EXPECT_TRUE(HelpOf("run_dir").is_local);
}

TEST(SettingsHelpTest, ListsAreWalkedInto) {
  const SettingHelp help = HelpOf("model.layers[].dense.units");
  EXPECT_EQ(help.flag(), "--set model.layers[I].dense.units");
  EXPECT_EQ(help.variable(), "");
  EXPECT_TRUE(HelpOf("model.layers[].dense").is_alternative);
  EXPECT_EQ(HelpOf("model.layers").type, "list");
  EXPECT_EQ(HelpOf("model.loss").type,
            "one of softmax_cross_entropy, binary_cross_entropy, "
            "mean_squared_error, kl_divergence, in_batch_softmax");
}

// Each of them stands in help, the documentation and the schema.
TEST(SettingsHelpTest, NoSettingLacksItsWords) {
  for (const SettingHelp& help : SettingsHelp()) {
    EXPECT_THAT(help.sentence, ::testing::EndsWith(".")) << help.path;
    // They stand in tables of Markdown.
    EXPECT_EQ(help.sentence.find_first_of("<>|`"), std::string::npos)
        << help.path;
    EXPECT_NE(help.example_json, "") << help.path;
    const bool is_single = help.field->message_type() == nullptr;
    if (is_single && !help.is_required) {
      EXPECT_NE(help.default_json, "") << help.path;
    }
  }
}

TEST(SettingsHelpTest, TheTextNamesEverySingleValue) {
  const std::string text = SettingsHelpText();
  EXPECT_THAT(text, HasSubstr("  --seed VALUE\n      Seed of initial values "
                              "and of the order of examples. [1]\n"));
  EXPECT_THAT(text, HasSubstr("  --set optimizer.learning_rate=VALUE\n      "
                              "Size of a step, before the schedule. [for "
                              "example 0.001]\n"));
  for (const SettingHelp& help : SettingsHelp()) {
    if (help.field->message_type() != nullptr) continue;
    EXPECT_THAT(text, HasSubstr("  " + help.flag())) << help.path;
  }
}

}  // namespace
}  // namespace paramd
