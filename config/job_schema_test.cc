#include "config/job_schema.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "config/settings_help.h"

namespace paramd {
namespace {

using Json = nlohmann::json;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

bool IsOfType(const Json& value, const Json& type) {
  if (type.is_array()) {
    return std::any_of(type.begin(), type.end(),
                       [&](const Json& one) { return IsOfType(value, one); });
  }
  return (type == "object" && value.is_object()) ||
         (type == "array" && value.is_array()) ||
         (type == "string" && value.is_string()) ||
         (type == "boolean" && value.is_boolean()) ||
         (type == "number" && value.is_number()) ||
         (type == "integer" && value.is_number_integer());
}

bool IsWithin(const Json& schema, double value) {
  return (!schema.count("minimum") || value >= schema["minimum"]) &&
         (!schema.count("maximum") || value <= schema["maximum"]) &&
         (!schema.count("exclusiveMinimum") ||
          value > schema["exclusiveMinimum"]) &&
         (!schema.count("exclusiveMaximum") ||
          value < schema["exclusiveMaximum"]);
}

const Json& Schema() {
  static const Json* const kSchema = new Json(Json::parse(JobSchema()));
  return *kSchema;
}

// Whether `value` keeps to the words of JSON Schema that JobSchema uses.
bool Accepts(const Json& schema, const Json& value) {
  if (schema.count("$ref")) {
    const std::string path = schema["$ref"].get<std::string>().substr(1);
    return Accepts(Schema()[Json::json_pointer(path)], value);
  }
  const auto count_of = [&](const char* word) {
    int count = 0;
    for (const Json& one : schema[word]) count += Accepts(one, value);
    return count;
  };
  if (schema.count("anyOf") && count_of("anyOf") == 0) return false;
  if (schema.count("oneOf") && count_of("oneOf") != 1) return false;
  if (schema.count("type") && !IsOfType(value, schema["type"])) return false;
  if (schema.count("enum")) {
    const Json& values = schema["enum"];
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      return false;
    }
  }
  if (value.is_number() && !IsWithin(schema, value)) return false;
  if (value.is_array() && schema.count("items")) {
    if (value.size() < schema.value("minItems", 0u) ||
        value.size() > schema.value("maxItems", 1u << 30)) {
      return false;
    }
    for (const Json& item : value) {
      if (!Accepts(schema["items"], item)) return false;
    }
  }
  if (!value.is_object()) return true;
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.count(name)) return false;
  }
  for (const auto& [name, member] : value.items()) {
    if (!schema.count("properties")) continue;
    if (!schema["properties"].count(name)) return false;
    if (!Accepts(schema["properties"][name], member)) return false;
  }
  return true;
}

TEST(JobSchemaTest, TheSchemaInTheTreeIsUpToDate) {
  EXPECT_EQ(Read("config/job.schema.json"), JobSchema())
      << "bazel run //config:print_docs -- --update";
}

TEST(JobSchemaTest, EveryExampleKeepsToIt) {
  for (const auto& entry :
       std::filesystem::directory_iterator("config/examples")) {
    const std::string path = entry.path();
    EXPECT_TRUE(Accepts(Schema(), Json::parse(Read(path)))) << path;
  }
}

TEST(JobSchemaTest, EverySettingStandsInIt) {
  const std::string schema = JobSchema();
  for (const SettingHelp& help : SettingsHelp()) {
    EXPECT_THAT(schema, ::testing::HasSubstr(Json(help.sentence).dump()))
        << help.path;
  }
}

// What the reader refuses and a schema can tell.
TEST(JobSchemaTest, MistakesAreSeen) {
  const Json good = Json::parse(Read("config/examples/fashion_mnist.json"));
  ASSERT_TRUE(Accepts(Schema(), good));
  const auto with = [&good](const char* path, const Json& value) {
    Json job = good;
    job[Json::json_pointer(path)] = value;
    return Accepts(Schema(), job);
  };
  EXPECT_TRUE(with("/epochs", 7));
  EXPECT_TRUE(with("/$schema", "x"));
  EXPECT_TRUE(with("/model/layers", {"relu", {{"dense", {{"units", 5}}}}}));
  EXPECT_FALSE(with("/epoch", 7));
  EXPECT_FALSE(with("/epochs", 0));
  EXPECT_FALSE(with("/epochs", "7"));
  EXPECT_FALSE(with("/name", 7));
  EXPECT_FALSE(with("/model/layers", Json::array()));
  EXPECT_FALSE(with("/model/layers", {"relo"}));
  EXPECT_FALSE(with("/model/layers", {"dense"}));
  EXPECT_FALSE(with("/model/layers", {{{"dense", 0}}}));
  EXPECT_FALSE(
      with("/model/layers", {{{"dense", 1}, {"relu", Json::object()}}}));
  EXPECT_FALSE(with("/optimizer/sgd", Json::object()));
  EXPECT_FALSE(with("/optimizer/learning_rate", 0));
  EXPECT_FALSE(with("/optimizer/adam/beta1", 1));
  EXPECT_FALSE(with("/log_level", "loud"));
  Json job = good;
  job.erase("name");
  EXPECT_FALSE(Accepts(Schema(), job));
}

}  // namespace
}  // namespace paramd
