// Lists of single values and types that hold themselves, from the text to what
// is printed, documented and given to editors.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "config/job_schema.h"
#include "config/setting_reader.h"
#include "config/setting_value.h"
#include "config/settings_help.h"
#include "config/settings_page.h"
#include "config/testing/garden.pb.h"

namespace paramd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Garden;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Plot;

class SettingListsTest : public ::testing::Test {
 protected:
  void Read(absl::string_view text) {
    const JsonSource source = {"job.json"};
    const absl::optional<JsonValue> value =
        ParseJson(text, source, {}, &mistakes_);
    ASSERT_TRUE(value.has_value()) << Message();
    reader_.ReadMessage(*value, source, "", &garden_);
    reader_.FillDefaults(&garden_);
  }
  void Assign(absl::string_view path, absl::string_view text) {
    reader_.Assign(path, text, {"--set", false}, &garden_);
  }
  std::string Message() { return std::string(mistakes_.ToStatus().message()); }
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (const SettingValue& value : ValuesOf(garden_)) {
      lines.push_back(value.path + "=" + value.json +
                      (value.is_default ? " default" : ""));
    }
    return lines;
  }

  Origins origins_;
  Mistakes mistakes_;
  SettingReader reader_{&origins_, &mistakes_};
  Garden garden_;
};

TEST_F(SettingListsTest, EachTypeIsReadAndPrinted) {
  Read(R"({"sizes": [3, 4], "depths": [0.25, 1e1], "owners": ["a", "b\""],
           "colours": ["red", "dark_blue"], "open": [true, false], "slope": -2,
           "steps": [-7, 9007199254740993]})");
  EXPECT_EQ(Message(), "");
  EXPECT_THAT(
      Lines(),
      ElementsAre("sizes=[3,4]", "depths=[0.25,10]", "owners=[\"a\",\"b\\\"\"]",
                  "colours=[\"red\",\"dark_blue\"]", "open=[true,false]",
                  "slope=-2", "steps=[-7,9007199254740993]"));
}

TEST_F(SettingListsTest, DefaultsAreFilledInAndKnownAsSuch) {
  Read(R"({"sizes": [3, 4], "depths": []})");
  EXPECT_EQ(Message(), "");
  EXPECT_THAT(garden_.depths(), ElementsAre(0.5, 1));
  EXPECT_THAT(garden_.owners(), IsEmpty());
  EXPECT_THAT(Lines(), ElementsAre("sizes=[3,4]", "depths=[0.5,1] default",
                                   "colours=[\"dark_blue\"] default",
                                   "slope=-1 default"));
  EXPECT_EQ(OriginOf(origins_, "colours").ToString(), "default");
  EXPECT_EQ(OriginOf(origins_, "sizes").ToString(), "job.json:1");
}

TEST_F(SettingListsTest, TheOnlyElementMayStandAlone) {
  Read(R"({"sizes": [1, 1], "depths": 7, "owners": "me", "colours": "red"})");
  EXPECT_EQ(Message(), "");
  EXPECT_THAT(garden_.depths(), ElementsAre(7));
  EXPECT_THAT(garden_.owners(), ElementsAre("me"));
  EXPECT_THAT(garden_.colours(), ElementsAre(Garden::COLOUR_RED));
}

TEST_F(SettingListsTest, WhatIsWrongNamesItsElement) {
  Read(R"({"sizes": [3, "x"], "depths": [1, 0], "owners": {}, "slope": -6,
           "colours": ["red", "dark_blu"], "steps": [9223372036854775808],
           "open": 1, "plots": "bed"})");
  EXPECT_THAT(Message(), HasSubstr("sizes[1]: wants a whole number, for "
                                   "example [3, 4]; found \"x\""));
  EXPECT_THAT(Message(), HasSubstr("depths[1]: must be greater than 0; found "
                                   "0"));
  EXPECT_THAT(Message(), HasSubstr("owners: wants a list, for example "
                                   "[\"a\", \"b\"]; found an object"));
  EXPECT_THAT(Message(), HasSubstr("slope: must be at least -5; found -6"));
  EXPECT_THAT(Message(), HasSubstr("did you mean 'dark_blue'?"));
  EXPECT_THAT(Message(), HasSubstr("steps[0]: must be at most "
                                   "9223372036854775807"));
  EXPECT_THAT(Message(), HasSubstr("open: wants true or false"));
  EXPECT_THAT(Message(), HasSubstr("plots: wants a list"));
  EXPECT_THAT(Message(), Not(HasSubstr("is missing")));
}

TEST_F(SettingListsTest, LengthsAreChecked) {
  Read(R"({"sizes": 3, "depths": [1, 1, 1, 1, 1]})");
  EXPECT_THAT(Message(), HasSubstr("sizes: must have at least 2 elements; "
                                   "found 1"));
  EXPECT_THAT(Message(), HasSubstr("depths: must have at most 4 elements; "
                                   "found 5"));
}

TEST_F(SettingListsTest, AMissingListIsNamed) {
  Read("{}");
  EXPECT_EQ(Message(),
            "job.json:1: sizes: is missing; give it, for example "
            "[3, 4]");
}

TEST_F(SettingListsTest, AnAssignmentReplacesAListOrOneElement) {
  Read(R"({"sizes": [3, 4], "owners": ["a"], "plots": ["bed"]})");
  Assign("sizes", "[5, 6]");
  Assign("sizes[1]", "7");
  Assign("depths", "2.5");
  Assign("owners.0", "7");
  Assign("colours[0]", "red");
  EXPECT_EQ(Message(), "");
  EXPECT_THAT(garden_.sizes(), ElementsAre(5, 7));
  EXPECT_THAT(garden_.depths(), ElementsAre(2.5));
  EXPECT_THAT(garden_.owners(), ElementsAre("7"));
  EXPECT_THAT(garden_.colours(), ElementsAre(Garden::COLOUR_RED));
  EXPECT_EQ(OriginOf(origins_, "colours").ToString(), "--set");
  Assign("owners", "[\"x\", \"y\"]");
  EXPECT_THAT(garden_.owners(), ElementsAre("x", "y"));
  Assign("owners", "me");
  EXPECT_THAT(garden_.owners(), ElementsAre("me"));
}

TEST_F(SettingListsTest, AWrongAssignmentChangesNoElement) {
  Read(R"({"sizes": [3, 4]})");
  Assign("sizes[2]", "7");
  Assign("sizes[0]", "10");
  Assign("sizes[0].x", "1");
  EXPECT_THAT(Message(), HasSubstr("sizes: has 2 elements, numbered from 0; "
                                   "'2' is none of them"));
  EXPECT_THAT(Message(), HasSubstr("sizes[0]: must be at most 9; found 10"));
  EXPECT_THAT(Message(), HasSubstr("sizes: holds a single value"));
  EXPECT_THAT(garden_.sizes(), ElementsAre(3, 4));
}

TEST_F(SettingListsTest, ATypeMayHoldItself) {
  Read(R"({"sizes": [1, 1],
           "plots": [{"border": ["bed", {"border": {"inside": ["bed"]}}]},
                     {"bed": {}, "label": "roses"}]})");
  EXPECT_EQ(Message(), "");
  const Plot& inner = garden_.plots(0).border().inside(1);
  EXPECT_TRUE(inner.border().inside(0).has_bed());
  EXPECT_THAT(Lines(),
              Contains("plots[0].border.inside[1].border.inside[0].bed={}"));
  EXPECT_THAT(Lines(), Contains("plots[1].label=\"roses\""));
  Assign("plots[0].border.inside[1].border.inside[0].label", "tulips");
  EXPECT_EQ(inner.border().inside(0).label(), "tulips");
}

TEST_F(SettingListsTest, AMistakeDeepInsideNamesItsPath) {
  Read(R"({"sizes": [1, 1], "plots": [{"border": [{"border": ["bad"]}]},
                                      {"border": {}}]})");
  EXPECT_THAT(Message(), HasSubstr("plots[0].border.inside[0].border.inside[0]:"
                                   " unknown name \"bad\"; did you mean "
                                   "'bed'?"));
  EXPECT_THAT(Message(), HasSubstr("plots[1].border.inside: is missing"));
}

TEST(SettingListsHelpTest, WhatHoldsItselfIsDescribedOnce) {
  std::vector<std::string> paths;
  for (const SettingHelp& help : SettingsHelp(*Garden::descriptor())) {
    paths.push_back(help.path + ": " + help.type + ", " + help.bounds +
                    (help.described_at.empty() ? "" : " as ") +
                    help.described_at);
  }
  EXPECT_THAT(
      paths,
      ElementsAre("sizes: list of whole numbers, each at least 1, each at most "
                  "9, at least 2 elements, at most 3 elements",
                  "depths: list of numbers, each greater than 0, each at most "
                  "100, at most 4 elements",
                  "owners: list of texts, at most 4 elements",
                  "colours: list of red, dark_blue, at most 4 elements",
                  "open: list of true or false, at most 4 elements",
                  "slope: whole number, at least -5, at most 5",
                  "steps: list of whole numbers, at most 4 elements",
                  "plots: list, at most 4 elements", "plots[].bed: object, ",
                  "plots[].border: object, ",
                  "plots[].border.inside: list, at most 4 elements as plots[]",
                  "plots[].label: text, "));
  EXPECT_THAT(FillSettings("@settings@", SettingsHelp(*Garden::descriptor())),
              HasSubstr("| `inside` | What it goes around. | list, at most 4 "
                        "elements, as `plots[]` | must be given |"));
}

TEST(SettingListsHelpTest, TheSchemaDefinesWhatHoldsItself) {
  const nlohmann::json schema =
      nlohmann::json::parse(JobSchema(*Garden::descriptor()));
  EXPECT_EQ(schema["properties"]["plots"]["items"]["$ref"],
            "#/definitions/Plot");
  const nlohmann::json& plot = schema["definitions"]["Plot"]["anyOf"];
  EXPECT_EQ(plot[0], nlohmann::json::parse(R"({"enum": ["bed"]})"));
  const nlohmann::json& border = plot[1]["properties"]["border"]["anyOf"];
  EXPECT_EQ(border[0]["items"]["$ref"], "#/definitions/Plot");
  EXPECT_EQ(border[0]["minItems"], 1);
  EXPECT_EQ(border[1]["properties"]["inside"]["items"]["$ref"],
            "#/definitions/Plot");
  EXPECT_EQ(schema["properties"]["sizes"]["anyOf"], nlohmann::json::parse(R"([
      {"type": "integer", "minimum": 1, "maximum": 9},
      {"type": "array", "minItems": 2, "maxItems": 3,
       "items": {"type": "integer", "minimum": 1, "maximum": 9}}])"));
  EXPECT_EQ(schema["properties"]["slope"]["minimum"], -5);
  EXPECT_FALSE(schema["properties"]["steps"]["anyOf"][0].contains("minimum"));
  EXPECT_FALSE(schema["properties"]["depths"]["anyOf"][1].contains("minItems"));
}

}  // namespace
}  // namespace paramd
