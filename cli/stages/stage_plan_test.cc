#include "cli/stages/stage_plan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kThree[] = R"({
  "name": "a", "epochs": 2, "input": {"format": "idx", "directory": "/data"},
  "model": {"layers": ["flatten", {"dense": 10}], "loss": "softmax_cross_entropy"},
  "optimizer": {"sgd": {}, "learning_rate": 0.5},
  "stages": [{"name": "one"}, {"name": "two", "from": "one"},
             {"name": "int8", "from": "two", "quantize": {"batches": 3}}]})";

std::vector<LoadedJob> Load(
    const std::string& text = kThree,
    std::vector<std::pair<std::string, std::string>> settings = {}) {
  JobSources sources;
  sources.file = "job.json";
  sources.text = text;
  sources.settings = std::move(settings);
  auto stages = LoadStages(sources);
  EXPECT_TRUE(stages.ok()) << stages.status();
  return *std::move(stages);
}

FoundStage Finished(const LoadedJob& stage) {
  FoundStage found;
  found.trained = true;
  found.record.emplace();
  found.record->name = stage.stage.name();
  found.record->settings = StageLines(stage);
  return found;
}

FoundStage Trained() {
  FoundStage found;
  found.trained = true;
  return found;
}

TEST(StagePlanTest, TheFirstThatIsNotFinishedIsNext) {
  const std::vector<LoadedJob> stages = Load();
  using What = NextStage::What;
  struct Case {
    std::vector<FoundStage> found;
    int number;
    What what;
  };
  const FoundStage one = Finished(stages[0]);
  const FoundStage two = Finished(stages[1]);
  const FoundStage three = Finished(stages[2]);
  const std::vector<Case> cases = {
      {{{}, {}, {}}, 0, What::kTrain},
      {{Trained(), {}, {}}, 0, What::kFinish},
      {{one, {}, {}}, 1, What::kTrain},
      {{one, Trained(), {}}, 1, What::kFinish},
      {{one, two, {}}, 2, What::kFinish},
      {{one, two, three}, 0, What::kNothing},
      // One whose record was removed is measured again, alone.
      {{Trained(), two, three}, 0, What::kFinish},
  };
  for (const Case& one_case : cases) {
    const auto next = FindNext(stages, one_case.found);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(next->number, one_case.number);
    EXPECT_EQ(next->what, one_case.what);
  }
}

TEST(StagePlanTest, AFinishedStageThatIsToldSomethingElseIsRefused) {
  const std::vector<LoadedJob> before = Load();
  const std::vector<FoundStage> found = {
      Finished(before[0]), Finished(before[1]), Finished(before[2])};
  const auto refusal = [&](const std::vector<LoadedJob>& now) {
    const absl::Status status = FindNext(now, found).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(
      refusal(Load(kThree,
                   {{"optimizer.learning_rate", "0.25"}, {"run_dir", "/r"}})),
      HasSubstr(
          "the stage 'one' is finished in '/r/one' and was told something "
          "else: optimizer.learning_rate is 0.25, was 0.5; give another "
          "run_dir, or what it was told"));
  EXPECT_THAT(refusal(Load(kThree, {{"stages[1].epochs", "3"}})),
              HasSubstr("the stage 'two' is finished in '' and was told "
                        "something else: epochs is 3, was 2"));
  EXPECT_THAT(refusal(Load(kThree, {{"stages[2].quantize.batches", "4"}})),
              HasSubstr("stage.quantize.batches is 4, was 3"));
  EXPECT_THAT(refusal(Load(kThree, {{"stages[1].from.variables", "dense*"}})),
              HasSubstr("warm_start.variables is \"dense*\", was \"*\""));
}

TEST(StagePlanTest, WhatWasMadeOfAModelThatIsGoneIsRefused) {
  constexpr char kTaught[] = R"({
    "name": "a", "epochs": 2, "run_dir": "/r",
    "input": {"format": "idx", "directory": "/data"},
    "model": {"layers": ["flatten", {"dense": 10}],
              "loss": "softmax_cross_entropy"},
    "optimizer": {"sgd": {}, "learning_rate": 0.5},
    "stages": [{"name": "teacher"}, {"name": "alone"},
               {"name": "labels", "from": "teacher", "label": {}},
               {"name": "student", "input": {"stages": [
                 {"relabel": "stage:labels"}, "shuffle"]}},
               {"name": "distilled", "distill": {"teachers": "stage:teacher"}},
               {"name": "int8", "from": "student", "quantize": "dynamic"}]})";
  const std::vector<LoadedJob> stages = Load(kTaught);
  ASSERT_EQ(stages.size(), 6u);
  const auto next = [&](const std::vector<size_t>& there) {
    std::vector<FoundStage> found(stages.size());
    for (const size_t i : there) found[i] = Finished(stages[i]);
    return FindNext(stages, found);
  };
  EXPECT_EQ(next({1, 4}).status().message(),
            "the stage 'distilled' in '/r/distilled' was made of an earlier "
            "'teacher', which is not there and would be trained again: remove "
            "the later one too, or give another run_dir");
  EXPECT_THAT(std::string(next({1, 2}).status().message()),
              HasSubstr("the stage 'labels' in '/r/labels' was made of"));
  EXPECT_THAT(std::string(next({1, 3}).status().message()),
              HasSubstr("the stage 'student' in '/r/student' was made of an "
                        "earlier 'teacher'"));
  EXPECT_THAT(std::string(next({1, 5}).status().message()),
              HasSubstr("the stage 'int8'"));
  EXPECT_EQ(next({1})->number, 0);
  EXPECT_EQ(next({0, 2, 3, 4, 5})->number, 1) << "nothing is made of it";
  std::vector<FoundStage> trained(stages.size());
  trained[4] = Trained();
  EXPECT_FALSE(FindNext(stages, trained).ok());
}

TEST(StagePlanTest, WhatIsOfAProcessAndWhereTheRunLiesMayDiffer) {
  const std::vector<LoadedJob> before = Load();
  std::vector<FoundStage> found;
  for (const LoadedJob& stage : before) found.push_back(Finished(stage));
  const auto next = FindNext(
      Load(kThree, {{"log_level", "error"}, {"run_dir", "/elsewhere"}}), found);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->what, NextStage::What::kNothing);
}

// Of a setting that a later version has, with its default.
TEST(StagePlanTest, ARecordOfAnEarlierVersionLacksWhatIsNewerThanIt) {
  const std::vector<LoadedJob> stages = Load();
  std::vector<FoundStage> found;
  for (const LoadedJob& stage : stages) found.push_back(Finished(stage));
  std::vector<std::string>& lines = found[2].record->settings;
  const auto is_of = [](const std::string& beginning) {
    return [beginning](const std::string& line) {
      return absl::StartsWith(line, beginning);
    };
  };
  const auto newer = std::remove_if(lines.begin(), lines.end(),
                                    is_of("stage.quantize.activation_bits="));
  ASSERT_EQ(lines.end() - newer, 1);
  lines.erase(newer, lines.end());
  const auto next = FindNext(stages, found);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->what, NextStage::What::kNothing);
  EXPECT_THAT(
      std::string(
          FindNext(Load(kThree, {{"stages[2].quantize.activation_bits", "16"}}),
                   found)
              .status()
              .message()),
      HasSubstr("stage.quantize.activation_bits is 16, was not there"));
  // One that did not quantise is another stage.
  lines.erase(
      std::remove_if(lines.begin(), lines.end(), is_of("stage.quantize.")),
      lines.end());
  EXPECT_THAT(std::string(FindNext(stages, found).status().message()),
              HasSubstr("stage.quantize.mode is \"static\", was not there"));
}

TEST(StagePlanTest, StagesAreFoundInTheirDirectories) {
  const std::string root = absl::StrCat(::testing::TempDir(), "/found");
  const std::vector<LoadedJob> stages = Load(kThree, {{"run_dir", root}});
  EXPECT_FALSE(FindStages(stages)->at(0).trained);
  StageRecord record = *Finished(stages[0]).record;
  record.kind = "trains";
  ASSERT_TRUE(WriteStageRecord(root + "/one", record).ok());
  std::filesystem::create_directories(root + "/two");
  std::ofstream(root + "/two/result.json") << "{}";
  const auto found = FindStages(stages);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE((*found)[0].record.has_value());
  EXPECT_TRUE((*found)[1].trained);
  EXPECT_FALSE((*found)[1].record.has_value());
  EXPECT_FALSE((*found)[2].trained);
  std::ofstream(root + "/one/stage.json") << "{";
  EXPECT_EQ(FindStages(stages).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paramd
