#include "cli/stages/stages_page.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<StageRecord> Samples() {
  StageRecord teacher;
  teacher.name = "teacher";
  teacher.kind = "trains";
  teacher.metrics = {{"loss", 0.25}, {"accuracy", 0.90625}};
  teacher.bytes = 880936;
  teacher.compressed_bytes = 816000;
  teacher.zeros = 0;
  teacher.examples_per_second = 6000;
  StageRecord small = teacher;
  small.name = "int8";
  small.kind = "quantises";
  small.from = "teacher";
  small.metrics = {{"loss", 0.5}, {"accuracy", 0.875}};
  small.bytes = 100500;
  small.compressed_bytes = 90000;
  small.zeros = 0.755;
  small.examples_per_second = 12345.6;
  StageRecord file;
  file.name = "onnx";
  file.kind = "exports";
  file.from = "int8";
  file.bytes = 101000;
  return {teacher, small, file};
}

TEST(StagesPageTest, TheTableHasARowForEachStage) {
  EXPECT_EQ(
      StagesTable(Samples()),
      "stage                            accuracy    bytes  compressed   zeros  "
      "examples/s\n"
      "teacher  trains                    0.9062  880,936     816,000   0.0 %  "
      "     6,000\n"
      "int8     quantises from teacher    0.8750  100,500      90,000  75.5 %  "
      "    12,346\n"
      "onnx     exports from int8                 101,000\n");
}

TEST(StagesPageTest, WithoutAnAccuracyTheFirstMetricOfAllIsShown) {
  std::vector<StageRecord> stages = Samples();
  stages[0].metrics = {{"loss", 0.25}, {"auc", 0.75}, {"mse", 0.5}};
  stages[1].metrics = {{"loss", 0.5}, {"mse", 0.125}};
  EXPECT_THAT(StagesTable(stages), HasSubstr("mse"));
  EXPECT_THAT(StagesTable(stages), HasSubstr("0.1250"));
  stages[1].metrics = {{"loss", 0.5}};
  EXPECT_THAT(StagesTable(stages), HasSubstr("loss"));
}

TEST(StagesPageTest, TheJsonHasAllThatIsRecorded) {
  const auto json = nlohmann::json::parse(StagesJson("chain", Samples()));
  EXPECT_EQ(json["job"], "chain");
  ASSERT_EQ(json["stages"].size(), 3u);
  EXPECT_EQ(json["stages"][1]["name"], "int8");
  EXPECT_EQ(json["stages"][1]["metrics"]["accuracy"], 0.875);
  EXPECT_EQ(json["stages"][1]["bytes"], 100500);
  EXPECT_TRUE(json["stages"][2]["examples_per_second"].is_null());
}

TEST(StagesPageTest, TheDrawingHasABarForEachFigure) {
  const std::string svg = StagesSvg("a<b", Samples());
  EXPECT_THAT(svg, HasSubstr(">a&lt;b</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  size_t bars = 0;
  for (size_t at = svg.find("<rect"); at != std::string::npos;
       at = svg.find("<rect", at + 1)) {
    ++bars;
  }
  // Two accuracies, three of bytes, two of them compressed, two speeds.
  EXPECT_EQ(bars, 9u);
  // The longest one of each column.
  EXPECT_THAT(svg, HasSubstr("width=\"130.0\""));
  EXPECT_THAT(svg, HasSubstr(">880,936</text>"));
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 750 156\""));
}

TEST(StagesPageTest, ARunWithoutStagesYetHasAPageToo) {
  EXPECT_THAT(StagesTable({}), HasSubstr("stage"));
  EXPECT_THAT(StagesSvg("chain", {}), HasSubstr("</svg>"));
}

TEST(StagesPageTest, BothFilesAreWrittenInTheRunsDirectory) {
  const std::string root = ::testing::TempDir();
  ASSERT_TRUE(WriteStagesPage(root, "chain", Samples()).ok());
  for (const char* name : {"stages.json", "stages.svg"}) {
    std::ifstream file(absl::StrCat(root, "/", name));
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(text, HasSubstr("int8")) << name;
  }
}

}  // namespace
}  // namespace paramd
