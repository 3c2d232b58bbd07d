#include "config/stages.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/job_config.h"
#include "config/setting.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A chain of all that there is.
constexpr char kChain[] = R"({
  "name": "chain", "epochs": 3,
  "input": {"format": "idx", "directory": "/data"},
  "model": {"layers": ["flatten", {"dense": 10}], "loss": "softmax_cross_entropy"},
  "optimizer": {"adam": {}, "learning_rate": 0.5},
  "stages": [
    {"name": "teacher", "epochs": 7, "model": {"layers": ["flatten", {"dense": 64}, {"dense": 10}]}},
    {"name": "student", "distill": {"teachers": "stage:teacher"}},
    {"name": "pruned", "from": "student",
     "optimizer": {"learning_rate": 0.25, "pruning": [{"variables": "*/kernel", "sparsity": 0.5, "begin_step": 1, "end_step": 2}]}},
    {"name": "int8", "from": "pruned", "quantize": {"batches": 5}, "batch_per_replica": 8},
    {"name": "onnx", "from": "int8", "export": "onnx"}
  ]
})";

JobSources ChainFrom(const std::string& text) {
  JobSources sources;
  sources.file = "job.json";
  sources.text = text;
  return sources;
}

JobSources ChainWith(absl::string_view what, absl::string_view in_its_place) {
  const std::string text = absl::StrReplaceAll(kChain, {{what, in_its_place}});
  EXPECT_NE(text, kChain) << what;
  return ChainFrom(text);
}

std::vector<LoadedJob> Stages(const JobSources& sources) {
  auto stages = LoadStages(sources);
  EXPECT_TRUE(stages.ok()) << stages.status();
  return stages.ok() ? *std::move(stages) : std::vector<LoadedJob>();
}

LoadedJob Stage(JobSources sources, const std::string& name) {
  sources.stage = name;
  auto job = LoadJob(sources);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *std::move(job) : LoadedJob();
}

std::string MistakesOf(const JobSources& sources) {
  const auto stages = LoadStages(sources);
  if (stages.ok()) return "";
  EXPECT_EQ(stages.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(stages.status().message());
}

TEST(StagesTest, EachIsTheJobAroundItButForWhatItGives) {
  const std::vector<LoadedJob> stages = Stages(ChainFrom(kChain));
  ASSERT_EQ(stages.size(), 5u);
  EXPECT_EQ(stages[0].stage.name(), "teacher");
  EXPECT_EQ(stages[0].config.epochs(), 7u);
  EXPECT_EQ(stages[0].config.model().layers_size(), 3);
  EXPECT_EQ(stages[0].config.model().loss(), v1::SOFTMAX_CROSS_ENTROPY);
  EXPECT_FALSE(stages[0].config.has_distill());
  EXPECT_EQ(stages[1].config.epochs(), 3u);
  EXPECT_EQ(stages[1].config.model().layers_size(), 2);
  EXPECT_EQ(stages[1].config.optimizer().learning_rate(), 0.5);
  EXPECT_EQ(stages[2].config.optimizer().learning_rate(), 0.25);
  EXPECT_TRUE(stages[2].config.optimizer().has_adam());
  EXPECT_EQ(stages[2].config.optimizer().pruning_size(), 1);
  for (const LoadedJob& stage : stages) {
    EXPECT_EQ(stage.config.name(), "chain");
    EXPECT_THAT(stage.config.stages(), IsEmpty());
    EXPECT_FALSE(stage.stage.has_settings());
  }
}

TEST(StagesTest, WhatTrainsNothingHasTheJobOfWhatDid) {
  const std::vector<LoadedJob> stages = Stages(ChainFrom(kChain));
  ASSERT_EQ(stages.size(), 5u);
  EXPECT_EQ(KindOf(stages[2].stage), StageKind::kTrain);
  EXPECT_EQ(KindOf(stages[3].stage), StageKind::kQuantize);
  EXPECT_EQ(stages[3].stage.quantize().mode(), v1::StageQuantize::MODE_STATIC);
  EXPECT_EQ(stages[3].stage.quantize().batches(), 5u);
  EXPECT_EQ(stages[3].config.batch_per_replica(), 8u);
  EXPECT_EQ(stages[3].config.optimizer().learning_rate(), 0.25);
  EXPECT_EQ(KindOf(stages[4].stage), StageKind::kExport);
  EXPECT_EQ(stages[4].config.batch_per_replica(), 8u);
  EXPECT_EQ(stages[4].config.warm_start().path(), "");
}

TEST(StagesTest, OneThatIsFromAnotherHasItsModel) {
  const std::vector<LoadedJob> stages =
      Stages(ChainWith(R"("from": "student",)", R"("from": "teacher",)"));
  ASSERT_EQ(stages.size(), 5u);
  EXPECT_EQ(stages[2].config.model().layers_size(), 3);
  EXPECT_EQ(stages[2].config.epochs(), 3u);
  EXPECT_EQ(stages[4].config.model().layers_size(), 3);
}

TEST(StagesTest, StagesFindEachOtherInTheRunsDirectory) {
  JobSources sources = ChainFrom(kChain);
  sources.settings = {{"run_dir", "/runs/a"}};
  const std::vector<LoadedJob> stages = Stages(sources);
  ASSERT_EQ(stages.size(), 5u);
  EXPECT_EQ(stages[1].config.run_dir(), "/runs/a/student");
  EXPECT_EQ(stages[1].config.checkpoint().directory(),
            "/runs/a/student/checkpoints");
  EXPECT_THAT(stages[1].config.distill().teachers(),
              ElementsAre("/runs/a/teacher/checkpoints"));
  EXPECT_EQ(stages[2].config.warm_start().path(),
            "/runs/a/student/checkpoints");
  EXPECT_EQ(stages[2].config.warm_start().variables(), "*");
  // In what tells two stages apart, by name.
  EXPECT_EQ(stages[2].as_stage.warm_start().path(), "stage:student");
  EXPECT_EQ(stages[2].as_stage.run_dir(), "/runs/a");
  sources.settings.emplace_back("checkpoint.directory", "/shared/c");
  sources.settings.emplace_back("summary.directory", "/shared/s");
  const LoadedJob pruned = Stage(sources, "pruned");
  EXPECT_EQ(pruned.config.checkpoint().directory(), "/shared/c/pruned");
  EXPECT_EQ(pruned.config.warm_start().path(), "/shared/c/student");
  EXPECT_EQ(pruned.config.summary().directory(), "/shared/s/pruned");
}

TEST(StagesTest, WeightsMayBeTakenByPattern) {
  const std::vector<LoadedJob> stages =
      Stages(ChainWith(R"("from": "student",)",
                       R"("from": {"stage": "teacher", "variables": "dense_1/*",
                  "from": "dense_2/*", "allow_missing": "head/*"},)"));
  ASSERT_EQ(stages.size(), 5u);
  const v1::WarmStartConfig& start = stages[2].config.warm_start();
  EXPECT_EQ(start.variables(), "dense_1/*");
  EXPECT_EQ(start.from(), "dense_2/*");
  EXPECT_EQ(start.allow_missing(), "head/*");
}

TEST(StagesTest, FlagsAndVariablesBeatWhatStandsInAStage) {
  JobSources sources = ChainFrom(kChain);
  sources.settings = {{"epochs", "1"},
                      {"stages[2].optimizer.learning_rate", "0.125"},
                      {"stages.0.name", "big"},
                      {"stages[1].distill.teachers", "stage:big"}};
  sources.environment = {{"PARAMD_SEED", "9"}};
  const std::vector<LoadedJob> stages = Stages(sources);
  ASSERT_EQ(stages.size(), 5u);
  for (const LoadedJob& stage : stages) {
    EXPECT_EQ(stage.config.epochs(), 1u);
    EXPECT_EQ(stage.config.seed(), 9u);
  }
  EXPECT_EQ(stages[0].stage.name(), "big");
  EXPECT_EQ(stages[2].config.optimizer().learning_rate(), 0.125);
}

TEST(StagesTest, EachValueIsFromWhereItStands) {
  const LoadedJob pruned = Stage(ChainFrom(kChain), "pruned");
  EXPECT_EQ(OriginOf(pruned.origins, "epochs").line, 2);
  EXPECT_EQ(OriginOf(pruned.origins, "optimizer.learning_rate").line, 10);
  EXPECT_EQ(OriginOf(pruned.origins, "optimizer.adam").line, 5);
  EXPECT_EQ(OriginOf(pruned.origins, "warm_start.path").line, 9);
  EXPECT_EQ(OriginOf(pruned.origins, "seed").source, "default");
}

TEST(StagesTest, TwoStagesHaveTwoDigests) {
  const std::vector<LoadedJob> stages = Stages(ChainFrom(kChain));
  ASSERT_EQ(stages.size(), 5u);
  EXPECT_NE(stages[0].digest, stages[1].digest);
  EXPECT_EQ(stages[1].digest, Stage(ChainFrom(kChain), "student").digest);
}

TEST(StagesTest, AJobWithStagesIsNoneUntilOneIsChosen) {
  JobSources sources = ChainFrom(kChain);
  EXPECT_EQ(LoadJob(sources).status().message(),
            "job.json:6: stages: this is done with one of them; choose it by "
            "--stage: teacher, student, pruned, int8, onnx");
  sources.stage = "prune";
  EXPECT_EQ(LoadJob(sources).status().message(),
            "--stage: there is no stage 'prune'; did you mean 'pruned'?");
}

TEST(StagesTest, AJobWithoutStagesHasNone) {
  JobSources sources = ChainFrom(R"({"name": "a",
      "input": {"format": "idx", "directory": "/data"},
      "model": {"layers": [{"dense": 1}], "loss": "mean_squared_error"},
      "optimizer": {"sgd": {}, "learning_rate": 1}})");
  EXPECT_THAT(Stages(sources), IsEmpty());
  EXPECT_EQ(LoadJob(sources)->stage.name(), "");
  sources.stage = "a";
  EXPECT_EQ(LoadJob(sources).status().message(),
            "--stage: the job has no stages; leave it out");
  sources.stage.reset();
  sources.settings = {{"distill.teachers", "stage:a"}};
  EXPECT_THAT(
      std::string(LoadJob(sources).status().message()),
      HasSubstr("distill.teachers: names the stage 'a', and the job has no "
                "stages; name a directory, or a file of labels"));
}

// What is changed in the chain, and the sentence that is said.
struct WrongChain {
  std::string what;
  std::string in_its_place;
  std::string sentence;
};

class WrongStagesTest : public ::testing::TestWithParam<WrongChain> {};

TEST_P(WrongStagesTest, AreRefusedWithOneSentence) {
  const WrongChain& wrong = GetParam();
  const std::string said =
      MistakesOf(ChainWith(wrong.what, wrong.in_its_place));
  EXPECT_THAT(said, HasSubstr(wrong.sentence));
  EXPECT_THAT(said, Not(HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongStagesTest,
    ::testing::Values(
        WrongChain{
            R"("name": "onnx")", R"("name": "int8")",
            "job.json:12: stages[4].name: is \"int8\", as an earlier stage "
            "is called; give each a name of its own"},
        WrongChain{
            R"({"name": "onnx",)", "{",
            "job.json:12: stages[4].name: is missing; give it, for example"},
        WrongChain{R"("name": "onnx")", R"("name": "a/b")",
                   "stages[4].name: must be 1 to 64 letters"},
        WrongChain{R"("name": "onnx")", R"("name": "stages.json")",
                   "stages[4].name: is \"stages.json\", as a file beside"},
        WrongChain{
            R"("from": "student")", R"("from": "studnet")",
            "job.json:9: stages[2].from.stage: there is no earlier stage "
            "'studnet'; did you mean 'student'?"},
        WrongChain{
            R"("from": "student")", R"("from": "int8")",
            "stages[2].from.stage: 'int8' is a later stage; put it before "
            "this one"},
        WrongChain{R"("from": "student")", R"("from": "pruned")",
                   "stages[2].from.stage: 'pruned' is the stage itself"},
        WrongChain{
            R"("name": "teacher",)", R"("name": "teacher", "from": "x",)",
            "stages[0].from.stage: there is no stage before this one, so "
            "none of the name 'x'"},
        WrongChain{R"("from": "student")", R"("from": {})",
                   "stages[2].from.stage: is missing; give it"},
        WrongChain{R"("teachers": "stage:teacher")",
                   R"("teachers": "stage:int8")",
                   "distill.teachers: 'int8' is a later stage"},
        WrongChain{
            R"("teachers": "stage:teacher")", R"("teachers": "stage:taecher")",
            "distill.teachers: there is no earlier stage 'taecher'; did you "
            "mean 'teacher'?"},
        WrongChain{R"("from": "int8", "export": "onnx")",
                   R"("from": "int8", "quantize": "dynamic")",
                   "stages[4].from.stage: 'int8' is quantised already"},
        WrongChain{
            R"("from": "int8", "export": "onnx")", R"("export": "onnx")",
            "stages[4].from: is missing; name the stage whose checkpoint "
            "this one exports"},
        WrongChain{R"("quantize": {"batches": 5})",
                   R"("quantize": {"batches": 5}, "export": "onnx")",
                   "stages[3].export: conflicts with 'quantize'; make two "
                   "stages"},
        WrongChain{
            R"("export": "onnx")", R"("export": "onxx")",
            "must be one of safetensors, tensorbundle, onnx; found \"onxx\"; "
            "did you mean 'onnx'?"},
        WrongChain{R"("export": "onnx")",
                   R"("export": {"format": "tensorbundle", "opset": 13})",
                   "stages[4].export.opset: is of format onnx; leave it out"},
        WrongChain{R"("export": "onnx")", R"("export": "onnx", "epochs": 2)",
                   "stages[4].epochs: is for a stage that trains, and this one "
                   "exports; leave it out"},
        WrongChain{R"({"batches": 5})", R"({"batches": 5, "mode": "dynamic"})",
                   "stages[3].quantize.batches: is of mode static"},
        WrongChain{R"({"batches": 5})",
                   R"({"activation_bits": 16, "mode": "float16"})",
                   "stages[3].quantize.activation_bits: is of mode static"},
        WrongChain{
            R"({"batches": 5})", R"({"weight_bits": 8, "mode": "float16"})",
            "stages[3].quantize.weight_bits: is of modes static and dynamic"},
        WrongChain{
            R"({"batches": 5})", R"({"per_tensor": true, "mode": "bfloat16"})",
            "stages[3].quantize.per_tensor: is of modes static and dynamic"},
        WrongChain{R"({"batches": 5})", R"({"activation_bits": 12})",
                   "stages[3].quantize.activation_bits: is 12; give 8 or 16"},
        WrongChain{R"({"batches": 5})", R"({"activation_bits": 17})",
                   "stages[3].quantize.activation_bits: must be at most 16"},
        WrongChain{R"({"batches": 5})", R"({"activation_bits": 16})",
                   "stages[4].from.stage: 'int8' has integers of 16 bits"},
        WrongChain{
            R"("from": "pruned")",
            R"("from": {"stage": "pruned", "variables": "a"})",
            "stages[3].from.variables: is for a stage that trains; one that "
            "quantises takes all"},
        WrongChain{R"("epochs": 7)", R"("epoch": 7)",
                   "job.json:7: stages[0].epoch: unknown key; did you mean "
                   "'epochs'?"},
        WrongChain{R"("epochs": 7)", R"("learning_rate": 7)",
                   "stages[0].learning_rate: unknown key; did you mean "
                   "'optimizer.learning_rate'?"},
        WrongChain{
            R"("epochs": 7)", R"("run_dir": "x")",
            "stages[0].run_dir: can't differ between stages; give it once, "
            "beside them"},
        WrongChain{R"("epochs": 7)", R"("strategy": "mirrored")",
                   "stages[0].strategy: can't differ between stages"},
        WrongChain{R"("epochs": 7)", R"("stages": [])",
                   "stages[0].stages: can't differ between stages"},
        WrongChain{
            R"("epochs": 7)", R"("checkpoint": {"directory": "x"})",
            "stages[0].checkpoint.directory: can't differ between stages"},
        WrongChain{R"("epochs": 7)", R"("epochs": 0)",
                   "stages[0].epochs: must be at least 1; found 0"},
        WrongChain{R"("from": "student",)",
                   R"("from": "student", "warm_start": {"path": "x"},)",
                   "stages[2].warm_start: conflicts with 'from'; keep one"},
        WrongChain{R"("from": "student",)",
                   R"("from": {"stage": "student", "from": "a"},)",
                   "job.json:9: warm_start.from: must have as many *"},
        WrongChain{R"("epochs": 3,)",
                   R"("epochs": 3, "backup_and_restore": {"directory": "/b"},)",
                   "backup_and_restore: is not for a job with stages"},
        WrongChain{R"("epochs": 3,)",
                   R"("epochs": 3, "linger_when_finished": true,)",
                   "linger_when_finished: is not for a job with stages"},
        WrongChain{R"("sparsity": 0.5, "begin_step": 1)",
                   R"("sparsity": 0.5, "begin_step": 9)",
                   "job.json:10: optimizer.pruning[0].end_step: "}));

// Its ranges and bits are those of training.
TEST(StagesTest, WhatLearnsToBeQuantisedIsNotToldHow) {
  const std::string aware = absl::StrReplaceAll(
      kChain, {{R"("loss": "softmax_cross_entropy")",
                R"("loss": "softmax_cross_entropy",)"
                R"( "quantization_aware": {"weight_bits": 4})"},
               {R"("export": "onnx")", R"("export": "safetensors")"}});
  const auto mistakes = [&](absl::string_view quantize) {
    return MistakesOf(ChainFrom(
        absl::StrReplaceAll(aware, {{R"({"batches": 5})", quantize}})));
  };
  for (const char* const fits :
       {R"("static")", "{}", R"({"weight_bits": 4})"}) {
    EXPECT_EQ(mistakes(fits), "") << fits;
  }
  EXPECT_THAT(mistakes(R"({"batches": 5})"),
              HasSubstr("job.json:11: stages[3].quantize.batches: is not for a "
                        "model with quantization_aware, whose ranges training "
                        "learns; leave it out"));
  EXPECT_THAT(mistakes(R"({"activation_bits": 16})"),
              HasSubstr("stages[3].quantize.activation_bits: is not for a"));
  EXPECT_THAT(mistakes(R"("dynamic")"),
              HasSubstr("stages[3].quantize.mode: is not for a model with "
                        "quantization_aware, which is trained for static"));
  EXPECT_THAT(mistakes(R"({"weight_bits": 8})"),
              HasSubstr("stages[3].quantize.weight_bits: is 8, and the model "
                        "is trained for 4"));
}

TEST(StagesTest, AnEmptyListIsRefused) {
  JobSources sources = ChainFrom(R"({"name": "a", "stages": []})");
  EXPECT_THAT(std::string(LoadJob(sources).status().message()),
              HasSubstr("stages: must have at least 1 elements; found 0"));
}

TEST(StagesTest, WithoutAModelAroundThemEachNeedsOne) {
  const std::string said = MistakesOf(ChainFrom(R"({"name": "a",
      "input": {"format": "idx", "directory": "/data"},
      "optimizer": {"sgd": {}, "learning_rate": 1},
      "stages": [
        {"name": "b", "model": {"layers": [{"dense": 1}], "loss": "mean_squared_error"}},
        {"name": "c", "epochs": 2}]})"));
  EXPECT_THAT(said, HasSubstr("model: is missing; give it"));
  EXPECT_THAT(said, Not(HasSubstr("\n")));
}

TEST(StagesTest, WhatIsWrongInSeveralIsSaidOnce) {
  EXPECT_EQ(
      MistakesOf(ChainWith(R"("directory": "/data")", R"("directory": "")")),
      "job.json:3: input.directory: must not be empty; name the directory "
      "of the data, or give input.train");
}

// A key of the job that stages have too is not one of their own.
TEST(StagesTest, NoKeyOfAStageHidesOneOfTheJob) {
  const google::protobuf::Descriptor& stage = *v1::Stage::descriptor();
  std::vector<std::string> keys = KeysOf(stage);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

// A teacher, its labels of all examples, and a student of these.
constexpr char kLabels[] = R"({
  "name": "noisy",
  "input": {"format": "idx", "directory": "/data"},
  "model": {"layers": ["flatten", {"dense": 10}], "loss": "softmax_cross_entropy"},
  "optimizer": {"sgd": {}, "learning_rate": 0.5},
  "stages": [
    {"name": "teacher", "input": {"stages": [{"take": 100}, "shuffle"]}},
    {"name": "labels", "from": "teacher", "label": {"threshold": 0.9, "known": 100}},
    {"name": "student", "input": {"stages": [{"relabel": "stage:labels"}, "shuffle"]}}
  ]
})";

TEST(StagesTest, LabelsAreOfTheJobsInputAndFoundInTheRunsDirectory) {
  JobSources sources = ChainFrom(kLabels);
  sources.settings = {{"run_dir", "/runs/a"}};
  const std::vector<LoadedJob> stages = Stages(sources);
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(KindOf(stages[1].stage), StageKind::kLabel);
  EXPECT_EQ(stages[1].stage.label().threshold(), 0.9);
  EXPECT_EQ(stages[1].stage.label().per_class(), 0u);
  EXPECT_EQ(stages[0].config.input().stages_size(), 2);
  EXPECT_THAT(stages[1].config.input().stages(), IsEmpty());
  EXPECT_EQ(stages[2].config.input().stages(0).relabel().file(),
            "/runs/a/labels/labels.records");
  EXPECT_EQ(stages[2].as_stage.input().stages(0).relabel().file(),
            "stage:labels");
  EXPECT_THAT(LabelStagesOf(stages[2].as_stage.input()), ElementsAre("labels"));
  v1::InputConfig input = stages[2].config.input();
  ForgetLabelsOfStages(stages[2].as_stage.input(), &input);
  EXPECT_EQ(input.stages(0).relabel().file(), "");
}

TEST(StagesTest, LabelsMayTeach) {
  JobSources sources = ChainFrom(absl::StrReplaceAll(
      kLabels, {{R"({"stages": [{"relabel": "stage:labels"}, "shuffle"]})",
                 R"({"stages": ["shuffle"]}, "distill":
            {"teachers": ["stage:labels", "stage:teacher", "/a/b.records"]})"}}));
  sources.settings = {{"run_dir", "/runs/a"}, {"checkpoint.directory", "/c"}};
  const std::vector<LoadedJob> stages = Stages(sources);
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_THAT(stages[2].config.distill().teachers(),
              ElementsAre("/runs/a/labels/labels.records", "/c/teacher",
                          "/a/b.records"));
  EXPECT_THAT(stages[2].as_stage.distill().teachers(),
              ElementsAre("stage:labels", "stage:teacher", "/a/b.records"));
  // But not those that are written later.
  sources.text = absl::StrReplaceAll(*sources.text, {{R"({"name": "teacher", )",
                                                      R"({"name": "teacher",
                          "distill": {"teachers": "stage:labels"}, )"}});
  EXPECT_THAT(MistakesOf(sources),
              HasSubstr("distill.teachers: 'labels' is a later stage"));
}

TEST(StagesTest, LabelsThatNobodyWritesAreMistakes) {
  const auto with = [](absl::string_view what, absl::string_view instead) {
    const std::string text = absl::StrReplaceAll(kLabels, {{what, instead}});
    EXPECT_NE(text, kLabels) << what;
    return MistakesOf(ChainFrom(text));
  };
  EXPECT_THAT(with("stage:labels", "stage:label"),
              HasSubstr("input.stages[0].relabel.file: there is no earlier "
                        "stage 'label' that labels; did you mean 'labels'?"));
  EXPECT_THAT(with("stage:labels", "stage:teacher"),
              HasSubstr("there is no earlier stage 'teacher' that labels"));
  EXPECT_THAT(with(R"("from": "teacher", )", ""),
              HasSubstr("stages[1].from: is missing"));
  EXPECT_THAT(with(R"("label": {)", R"("epochs": 2, "label": {)"),
              HasSubstr("stages[1].epochs: is for a stage that trains, and "
                        "this one labels; leave it out"));
  EXPECT_THAT(with(R"("label": {)", R"("export": "onnx", "label": {)"),
              HasSubstr("stages[1].label: conflicts with 'export'"));
  EXPECT_THAT(
      with(R"("name": "student",)", R"("name": "student", "from": "labels",)"),
      HasSubstr("'labels' writes labels; name the stage that it is "
                "from, 'teacher'"));
  EXPECT_THAT(with("0.9", "1.5"), HasSubstr("label.threshold"));
}

}  // namespace
}  // namespace paramd
