#include "config/settings_page.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "config/print_config.h"
#include "config/settings_help.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

TEST(SettingsPageTest, ThePageInTheTreeIsUpToDate) {
  EXPECT_EQ(Read("docs/configuration.md"),
            FillSettings(Read("config/configuration.md.in")))
      << "bazel run //config:print_docs -- --update";
}

TEST(SettingsPageTest, EverySettingHasARow) {
  const std::string page = FillSettings("<@settings@>");
  for (const SettingHelp& help : SettingsHelp()) {
    const std::string key = help.path.substr(help.path.rfind('.') + 1);
    EXPECT_THAT(page,
                HasSubstr(absl::StrCat("| `", key, "` | ", help.sentence)))
        << help.path;
    EXPECT_THAT(page, HasSubstr(absl::StrCat("`", help.example_json, "` |")))
        << help.path;
  }
  EXPECT_THAT(page, HasSubstr("### `model.layers[].dense`\n"));
  EXPECT_THAT(page, ::testing::EndsWith("|>"));
}

// The keys of `json` below `path`, as the page writes them; those of one
// setting stand for all.
void CollectKeys(const Json& json, const std::string& path,
                 std::vector<std::string>* keys) {
  for (const auto& [key, value] : json.items()) {
    const bool is_setting = path == "settings.";
    const std::string at = path + (is_setting ? "*" : key);
    if (value.is_object() && !value.empty() && path != "settings.*.") {
      CollectKeys(value, at + ".", keys);
    } else {
      keys->push_back(at);
    }
  }
}

TEST(SettingsPageTest, EveryKeyOfPrintedConfigurationsIsDocumented) {
  JobSources sources;
  sources.file = "config/examples/fashion_mnist.json";
  const absl::StatusOr<ClusterSpec> cluster = ParseTfConfig(
      R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]},
          "task": {"type": "ps", "index": 0}})");
  const Json json =
      Json::parse(*PrintConfig(*LoadJob(sources), *cluster, "json"));
  std::vector<std::string> keys;
  CollectKeys(json, "", &keys);
  EXPECT_THAT(keys, ::testing::Contains("settings.*.at"));
  EXPECT_THAT(keys, ::testing::Contains("cluster.task.index_source"));
  const std::string page = Read("docs/configuration.md");
  for (const std::string& key : keys) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("`", key, "`")));
  }
}

}  // namespace
}  // namespace paramd
