#include "config/job_config.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/testing/job_text.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

TEST(JobConfigTest, EveryExampleLoads) {
  for (const auto& entry :
       std::filesystem::directory_iterator("config/examples")) {
    JobSources sources;
    sources.file = entry.path();
    absl::StatusOr<std::vector<LoadedJob>> jobs = LoadStages(sources);
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    if (jobs->empty()) {
      const absl::StatusOr<LoadedJob> job = LoadJob(sources);
      ASSERT_TRUE(job.ok()) << job.status();
      jobs->push_back(*job);
    }
    for (const LoadedJob& job : *jobs) {
      EXPECT_GE(job.config.model().layers_size(), 1);
      EXPECT_EQ(job.warning, "") << entry.path();
    }
  }
}

TEST(JobConfigTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  JobSources sources = From(kJob);
  EXPECT_EQ(LoadJob(sources)->config.epochs(), 5u);
  EXPECT_EQ(LoadJob(sources)->config.batch_per_replica(), 32u);
  sources.environment = {{"PARAMD_EPOCHS", "6"},
                         {"PARAMD_OPTIMIZER_LEARNING_RATE", "0.5"},
                         {"EPOCHS", "9"}};
  EXPECT_EQ(LoadJob(sources)->config.epochs(), 6u);
  EXPECT_EQ(LoadJob(sources)->config.optimizer().learning_rate(), 0.5);
  sources.settings = {{"epochs", "7"}, {"epochs", "8"}};
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  EXPECT_EQ(job->config.epochs(), 8u);
  EXPECT_EQ(job->warning, "");
  EXPECT_EQ(job->origins.at("epochs").ToString(), "--epochs");
  EXPECT_EQ(job->origins.at("optimizer.learning_rate").ToString(),
            "PARAMD_OPTIMIZER_LEARNING_RATE");
}

TEST(JobConfigTest, UnknownVariablesAreIgnoredWithOneWarning) {
  JobSources sources = From(kJob);
  sources.environment = {{"PARAMD_PORT", "tcp://10.0.0.1:80"},
                         {"PARAMD_JOB", "x"},
                         {"PARAMD_TASK_INDEX", "3"},
                         {"PARAMD_SERVICE_HOST", "10.0.0.1"}};
  sources.other_variables = {"PARAMD_JOB"};
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->warning,
            "ignored environment variables that are no settings: PARAMD_PORT, "
            "PARAMD_SERVICE_HOST");
}

TEST(JobConfigTest, AllMistakesAreSaidAtOnce) {
  JobSources sources = From(R"({
  "name": "a/b",
  "epoch": 5,
  "batch_per_replica": 0,
  "model": {"layers": ["flatten", {"dense": "ten"}]},
  "optimizer": {"adam": {}, "learning_rate": 0.001},
  "seed": 1, "seed": 2
})");
  sources.environment = {{"PARAMD_KEEP", "1"}, {"PARAMD_LEASE_MS", "x"}};
  sources.settings = {{"optimizer.adam.beta3", "1"}};
  const std::string path = *sources.file;
  EXPECT_EQ(
      MessageOf(sources),
      absl::StrCat(
          path,
          ":1: input: is missing; give it, for example {\"format\": \"idx\", "
          "\"directory\": \"/usr/share/datasets/fashion-mnist\"}\n",
          path,
          ":2: name: must be 1 to 128 letters, digits, '.', '_' or '-' and "
          "not begin with '.'; found \"a/b\"\n",
          path, ":3: epoch: unknown key; did you mean 'epochs'?\n", path,
          ":4: batch_per_replica: must be at least 1; found 0\n", path,
          ":5: model.layers[1].dense.units: wants a whole number, for example "
          "128; found \"ten\"\n",
          path,
          ":5: model.loss: is missing; give it, for example "
          "\"softmax_cross_entropy\"\n",
          path, ":7: seed: given twice, first in line 7; keep one\n",
          "PARAMD_LEASE_MS: lease_ms: wants a whole number, for example "
          "10000; found \"x\"\n",
          "--set: optimizer.adam.beta3: unknown key; did you "
          "mean 'beta1'?"));
}

TEST(JobConfigTest, ACustomModelNeedsNoLayersNoLossAndNoInput) {
  JobSources sources = From(R"({"name": "own", "model": {"custom": true},
      "optimizer": {"sgd": {}, "learning_rate": 0.1}})");
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->config.input().train().has_indices());
  EXPECT_EQ(job->config.input().train().indices().examples(), 0u);
  EXPECT_FALSE(job->config.model().has_loss());
  // It may name one that paramd reads.
  sources = From(R"({"name": "own", "model": {"custom": true},
      "input": {"train": {"csv": {"files": "a.csv"}}},
      "optimizer": {"sgd": {}, "learning_rate": 0.1}})");
  EXPECT_TRUE(LoadJob(sources)->config.input().train().has_csv());
  sources.settings = {{"model.custom", "false"}};
  EXPECT_THAT(MessageOf(sources), HasSubstr("model.layers: is missing"));
}

TEST(JobConfigTest, HostileFilesAreRefusedWithOneSentence) {
  const std::string big(10 << 20, ' ');
  EXPECT_THAT(MessageOf(From(big)), HasSubstr("too many"));
  EXPECT_THAT(MessageOf(From(std::string(10000, '['))), HasSubstr("deeper"));
  EXPECT_THAT(MessageOf(From("{\"name\": \"\xc0\xaf\"}")),
              HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(MessageOf(From(absl::string_view("{}\0", 3))), HasSubstr("NUL"));
  EXPECT_THAT(MessageOf(From("{\"seed\": 1e999}")), HasSubstr("overflow"));
  EXPECT_THAT(MessageOf(From("")), HasSubstr("it is empty"));
  EXPECT_THAT(MessageOf(From("[]")), HasSubstr("wants an object"));
  EXPECT_THAT(MessageOf(From("null")), HasSubstr("wants an object"));
  for (const char* text : {"", "[]", "{"}) {
    EXPECT_THAT(MessageOf(From(text)), ::testing::Not(HasSubstr("\n"))) << text;
  }
}

TEST(JobConfigTest, AFileThatCanNotBeReadIsNamed) {
  JobSources sources;
  sources.file = ::testing::TempDir() + "/no_such.json";
  EXPECT_THAT(MessageOf(sources), HasSubstr("no_such.json: can't be opened: "
                                            "No such file or directory"));
  sources.file = ::testing::TempDir();
  EXPECT_THAT(MessageOf(sources), HasSubstr("can't be read: Is a directory"));
}

TEST(JobConfigTest, AFileMaySayWhereItsSchemaIs) {
  const absl::StatusOr<LoadedJob> job =
      LoadJob(From(absl::StrCat("{\"$schema\": \"job.schema.json\",",
                                absl::string_view(kJob).substr(1))));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->digest, LoadJob(From(kJob))->digest);
}

TEST(JobConfigTest, MissingInputIsOneOfTheMistakesIfItIsAskedFor) {
  JobSources sources = From(R"({
  "name": "a",
  "input": {"format": "idx",
            "directory": "/no/such"},
  "model": {"layers": [{"dense": 10}]},
  "optimizer": {"sgd": {}, "learning_rate": 0.001}
})");
  EXPECT_THAT(MessageOf(sources), ::testing::Not(HasSubstr("/no/such")));
  sources.check_input_files = true;
  EXPECT_THAT(MessageOf(sources), HasSubstr(":4: input.directory: there is no "
                                            "directory \"/no/such\""));
  EXPECT_THAT(MessageOf(sources), HasSubstr("model.loss: is missing"));
}

TEST(JobConfigTest, ABackupIsOneCheckpointInItsDirectory) {
  JobSources sources = From(kJob);
  sources.settings = {{"backup_and_restore.directory", "/shared/backup"},
                      {"backup_and_restore.every_steps", "50"},
                      {"run_dir", "/runs/1"}};
  const auto job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.checkpoint().directory(), "/shared/backup/checkpoints");
  EXPECT_EQ(job->config.checkpoint().every_steps(), 50);
  EXPECT_EQ(job->config.checkpoint().keep(), 1);
  EXPECT_EQ(StateDirectory(job->config), "/shared/backup");
  EXPECT_EQ(KindOf(OriginOf(job->origins, "checkpoint.directory")),
            OriginKind::kFlag);
}

TEST(JobConfigTest, WithoutABackupARunGoesOnFromItsOwnDirectory) {
  JobSources sources = From(kJob);
  sources.settings = {{"backup_and_restore.every_steps", "50"},
                      {"run_dir", "/runs/1"}};
  const auto job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(StateDirectory(job->config), "/runs/1");
  EXPECT_EQ(job->config.checkpoint().every_steps(), 0);
}

TEST(JobConfigTest, ALongRunDirectoryOfTheConfigItselfMayBeSetAgain) {
  v1::JobConfig config;
  config.set_run_dir(std::string(200, 'r'));
  SetRunDirectory(config.run_dir(), &config);
  EXPECT_EQ(config.checkpoint().directory(),
            absl::StrCat(std::string(200, 'r'), "/checkpoints"));
}

TEST(JobConfigTest, CheckpointsLieInTheRunUnlessToldOtherwise) {
  JobSources sources = From(kJob);
  EXPECT_EQ(LoadJob(sources)->config.checkpoint().directory(), "");
  sources.settings = {{"run_dir", "runs/a"}};
  EXPECT_EQ(LoadJob(sources)->config.checkpoint().directory(),
            "runs/a/checkpoints");
  EXPECT_EQ(LoadJob(sources)->origins.at("checkpoint.directory").ToString(),
            "--run_dir");
  sources.settings.push_back({"checkpoint.directory", "/shared"});
  EXPECT_EQ(LoadJob(sources)->config.checkpoint().directory(), "/shared");
}

TEST(JobConfigTest, TheDigestIsOfTheJobWideSettingsAlone) {
  const std::string digest = LoadJob(From(kJob))->digest;
  EXPECT_EQ(digest.size(), 16u);
  JobSources sources = From(kJob);
  sources.settings = {{"run_dir", "x"},
                      {"input.directory", "/elsewhere"},
                      {"log_level", "debug"},
                      {"batch_per_replica", "32"}};
  EXPECT_EQ(LoadJob(sources)->digest, digest);
  for (const Variables::value_type& setting :
       Variables{{"seed", "2"},
                 {"model.layers.1", "relu"},
                 {"optimizer", R"({"sgd": {}, "learning_rate": 0.001})"},
                 {"optimizer.learning_rate", "0.0010000000000000002"}}) {
    sources.settings = {setting};
    EXPECT_NE(LoadJob(sources)->digest, digest) << setting.first;
  }
}

TEST(JobConfigTest, TheJobWideTextIsOneLinePerSetting) {
  const std::string text = LoadJob(From(kJob))->job_wide_text;
  EXPECT_THAT(text, HasSubstr("name=\"fashion-mnist\"\nseed=1\n"
                              "model.layers[0].flatten={}\n"
                              "model.layers[1].dense.units=10\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("directory")));
}

TEST(JobConfigTest, TheDigestIsFnv1a) {
  EXPECT_EQ(Digest(""), "cbf29ce484222325");
  EXPECT_EQ(Digest("a"), "af63dc4c8601ec8c");
}

// ---- a training set that grows ----------------------------------------------

constexpr char kFollowing[] = R"({
  "name": "clicks",
  "input": {
    "follow": {"end_file": "_SUCCESS"},
    "train": {"csv": {"files": "*.csv", "label": "click", "columns": "ad"}},
    "test": {"csv": {"files": "/test.csv", "label": "click", "columns": "ad"}}
  },
  "model": {"layers": [{"dense": 2}], "loss": "softmax_cross_entropy"},
  "optimizer": {"adam": {}, "learning_rate": 0.001}
})";

TEST(JobConfigTest, AJobThatFollowsItsInputHasAsManyEpochsAsThereAre) {
  JobSources sources = From(kFollowing);
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.epochs(), 1000000u);
  EXPECT_EQ(job->config.input().follow().max_files(), 256u);
  sources.settings = {{"epochs", "3"}};
  EXPECT_EQ(LoadJob(sources)->config.epochs(), 3u);
  sources.settings = {{"input.train", R"({"csv": {"files": "*.csv", "features":
                        [{"name": "keys", "columns": "ad"}]}})"}};
  EXPECT_EQ(MessageOf(sources), "");
}

TEST(JobConfigTest, WhatDoesNotGoWithAnInputThatGrowsIsSaidAtOnce) {
  JobSources sources = From(kFollowing);
  sources.settings = {{"staleness", "sync"},
                      {"optimizer.schedule", "cosine"},
                      {"input.train", R"({"csv": {"files": "*.csv"}})"}};
  const std::string message = MessageOf(sources);
  EXPECT_THAT(message, HasSubstr("\"sync\" does not go with input.follow"));
  EXPECT_THAT(message, HasSubstr("nobody knows how many steps there will be"));
  EXPECT_THAT(message, HasSubstr("there may be no file yet that has them"));
  sources.settings = {{"strategy", "mirrored"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("\"mirrored\" does not go with input.follow"));
  sources.settings = {{"input.train", R"({"synthetic": {"examples": 9,
                                         "features": "x"}})"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("needs input.train to name files by a pattern"));
  sources.settings = {{"input.train", R"({"libsvm": {"files": "*"}})"}};
  EXPECT_THAT(MessageOf(sources), HasSubstr("what the largest index will be"));
}

TEST(JobConfigTest, AJobThatFollowsItsInputNeedsATestSet) {
  std::string text = kFollowing;
  const size_t begin = text.find(",\n    \"test\"");
  text.erase(begin, text.find("\n  },", begin) - begin);
  EXPECT_THAT(MessageOf(From(text)), HasSubstr("name files to evaluate on"));
}

}  // namespace
}  // namespace paramd
