#include "config/recorded_model.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

#include "config/job_config.h"
#include "config/setting_changes.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Lines = google::protobuf::RepeatedPtrField<std::string>;

Lines RecordOf(const v1::JobConfig& job) {
  const std::vector<std::string> lines = RecordedSettings(job);
  return {lines.begin(), lines.end()};
}

v1::JobConfig Loaded(const JobSources& sources) {
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? job->config : v1::JobConfig();
}

void ExpectComesBack(const v1::JobConfig& job) {
  const auto found = RecordedModel(RecordOf(job));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(*found, job.model()))
      << found->DebugString();
}

TEST(RecordedModelTest, TheModelOfEachExampleComesBackAsItWas) {
  int examples = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("config/examples")) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path());
    JobSources sources;
    sources.file = entry.path().string();
    const auto stages = LoadStages(sources);
    ASSERT_TRUE(stages.ok()) << stages.status();
    for (const LoadedJob& stage : *stages) ExpectComesBack(stage.config);
    if (stages->empty()) ExpectComesBack(Loaded(sources));
    ++examples;
  }
  EXPECT_GT(examples, 10);
}

TEST(RecordedModelTest, ABranchWithoutLayersComesBackToo) {
  for (const std::string branches :
       {R"([["relu"], [], []])", R"([[], {"layers": [{"dense": 3}]}])"}) {
    JobSources sources;
    sources.file = "job.json";
    sources.text = R"({
        "name": "a", "input": {"directory": "/data", "format": "idx"},
        "optimizer": {"sgd": {}, "learning_rate": 1},
        "model": {"loss": "softmax_cross_entropy", "layers": [
          "flatten", {"parallel": {"branches": )" +
                   branches + R"(}}, {"dense": 2}]}})";
    ExpectComesBack(Loaded(sources));
  }
}

TEST(RecordedModelTest, WhatIsLackingHasItsDefault) {
  Lines lines;
  *lines.Add() = "epochs=3";
  *lines.Add() = "model.layers[0].dropout.rate=0.5";
  *lines.Add() = "model.layers[1].dense.units=7";
  *lines.Add() = "model.loss=\"softmax_cross_entropy\"";
  const auto found = RecordedModel(lines);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->layers(1).dense().units(), 7u);
  EXPECT_TRUE(found->layers(1).dense().has_name());
}

TEST(RecordedModelTest, WhatIsNoRecordOfAModelIsRefused) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"model.layers[1].relu={}", "no setting in 'model.layers[1].relu={}'"},
      {"model.layers[4294967295].relu={}", "no setting in"},
      {"model.layers[-1].relu={}", "no setting in"},
      {"model.layers[0]relu={}", "no setting in"},
      {"model.layers[0", "no setting in"},
      {"model.loss", "no setting in"},
      {"model.loss=", "no setting in"},
      {"model.loss.a.b=1", "wants a string"},
      {"model.warp=9", "unknown key"},
      {"model.layers[0].warp={}", "unknown key"},
      {"epochs=1", "says no model"},
  };
  for (const auto& [line, sentence] : wrong) {
    Lines lines;
    *lines.Add() = line;
    const auto found = RecordedModel(lines);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument)
        << line;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(sentence));
  }
  std::string deep = "model";
  for (int i = 0; i < 5000; ++i) deep += ".layers[0].residual";
  Lines lines;
  *lines.Add() = deep + "={}";
  EXPECT_FALSE(RecordedModel(lines).ok());
}

v1::ModelConfig ModelOf(const std::string& layers,
                        const std::string& more = "") {
  JobSources sources;
  sources.file = "job.json";
  sources.text = R"({"name": "a",
    "input": {"directory": "/data", "format": "idx"},
    "optimizer": {"sgd": {}, "learning_rate": 0.1},
    "model": {"loss": "softmax_cross_entropy", "layers": [)" +
                 layers + "]" + more + "}}";
  return Loaded(sources).model();
}

TEST(ModelDifferenceTest, IsWhatTheSameVariablesWouldBeUsedFor) {
  const auto difference = [](const std::string& ours,
                             const std::string& recorded) {
    return ModelDifference(ModelOf(ours), ModelOf(recorded));
  };
  const std::string two = R"("flatten", {"dense": 8}, "relu", {"dense": 2})";
  EXPECT_EQ(difference(two, two), "");
  EXPECT_EQ(difference(R"("flatten", {"dense": 8}, "gelu", {"dense": 2})", two),
            "model.layers[1].gelu is {}, was not there");
  EXPECT_NE(difference(R"("flatten", {"dense": 8}, {"dense": 2})", two), "");
  EXPECT_NE(difference(two + R"(, "tanh")", two), "");
  EXPECT_EQ(
      difference(
          R"({"residual": {"layers": ["gelu"]}}, "flatten", {"dense": 2})",
          R"({"residual": {"layers": ["relu"]}}, "flatten", {"dense": 2})"),
      "model.layers[0].residual.layers[0].gelu is {}, was not there");
  EXPECT_EQ(difference(R"({"batch_norm": {"epsilon": 0.01}}, {"dense": 2})",
                       R"({"batch_norm": {"epsilon": 0.001}}, {"dense": 2})"),
            "model.layers[0].batch_norm.epsilon is 0.01, was 0.001");
}

TEST(ModelDifferenceTest, WhatIsSaidInOtherWordsIsNone) {
  const auto difference = [](const std::string& ours,
                             const std::string& recorded) {
    return ModelDifference(ModelOf(ours), ModelOf(recorded));
  };
  const std::string two = R"({"dense": 8}, "relu", {"dense": 8})";
  EXPECT_EQ(difference(R"({"dense": {"units": 8, "name": "dense_1"}}, "relu",
                          {"dense": {"units": 8, "name": "dense_2"}})",
                       two),
            "");
  EXPECT_EQ(difference(R"({"dense": {"units": 8, "name": "dense_2"}}, "relu",
                          {"dense": {"units": 8, "name": "dense_1"}})",
                       two),
            "model.layers[0].dense.name is \"dense_2\", was \"dense_1\"");
  EXPECT_EQ(difference(R"({"max_pool": {"size": 2, "stride": 2}}, "flatten")",
                       R"({"max_pool": 2}, "flatten")"),
            "");
  EXPECT_NE(difference(R"({"max_pool": {"size": 2, "stride": 1}}, "flatten")",
                       R"({"max_pool": 2}, "flatten")"),
            "");
}

TEST(ModelDifferenceTest, OfATableItsNameCountsAndNotHowItIsStored) {
  const auto difference = [](const std::string& ours,
                             const std::string& recorded) {
    return ModelDifference(ModelOf(ours + R"(, "flatten", {"dense": 2})"),
                           ModelOf(recorded + R"(, "flatten", {"dense": 2})"));
  };
  EXPECT_EQ(difference(R"({"embedding": {"width": 4, "rows": 256,
                                         "sparse": true,
                                         "name": "embedding_1"}})",
                       R"({"embedding": 4})"),
            "");
  EXPECT_NE(difference(R"({"embedding": {"width": 4, "name": "item"}})",
                       R"({"embedding": {"width": 4, "name": "user"}})"),
            "");
  EXPECT_NE(difference(R"({"embedding": {"width": 4, "padding": true}})",
                       R"({"embedding": 4})"),
            "");
}

TEST(ModelDifferenceTest, WhatTrainingAloneDoesIsNone) {
  EXPECT_EQ(ModelDifference(
                ModelOf(R"("flatten", {"recompute": [{"dense": 8}, "relu"]},
                     {"dropout": 0.5}, {"batch_norm": {"momentum": 0.5}},
                     {"residual": {"layers": ["relu"], "drop_rate": 0.5}},
                     {"dense": 2})",
                        R"(, "label_smoothing": 0.1)"),
                ModelOf(R"("flatten", {"dense": 8}, "relu", "batch_norm",
                     {"residual": {"layers": ["relu"]}}, {"dense": 2})")),
            "");
}

TEST(ModelDifferenceTest, BitsThatItWasTrainedForAreOne) {
  const std::string layers = R"("flatten", {"dense": 2})";
  const auto with = [&](const std::string& bits) {
    return ModelOf(layers,
                   R"(, "quantization_aware": {"weight_bits": )" + bits + "}");
  };
  EXPECT_EQ(ModelDifference(with("4"), with("4")), "");
  EXPECT_EQ(ModelDifference(with("8"), with("4")),
            "model.quantization_aware.weight_bits is 8, was 4");
}

}  // namespace
}  // namespace paramd
