#include "config/job_checks.h"

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/testing/job_text.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

TEST(JobChecksTest, AFormatToComputeInIsOfAModelInTheFile) {
  JobSources sources = From(kJob);
  EXPECT_EQ(LoadJob(sources)->config.compute_format(),
            v1::JobConfig::COMPUTE_FORMAT_FP32);
  sources.settings = {{"compute_format", "fp16"}, {"loss_scale", "1024"}};
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.compute_format(), v1::JobConfig::COMPUTE_FORMAT_FP16);
  EXPECT_EQ(job->config.loss_scale(), 1024);
  sources.settings = {{"compute_format", "bf16"}, {"loss_scale", "1024"}};
  EXPECT_EQ(MessageOf(sources),
            "--loss_scale: loss_scale: makes sense with compute_format "
            "\"fp16\" alone; leave it out");
  sources = From(R"({"name": "own", "model": {"custom": true},
      "optimizer": {"sgd": {}, "learning_rate": 0.1}})");
  sources.settings = {{"compute_format", "bf16"}};
  EXPECT_EQ(
      MessageOf(sources),
      "--compute_format: compute_format: is for a model in the job "
      "file; with model.custom the program decides what it computes in, so "
      "leave it out");
  sources.settings = {{"model.kernel_initializer", "he_uniform"}};
  EXPECT_EQ(
      MessageOf(sources),
      "--set: model.kernel_initializer: is for a model in the job "
      "file; with model.custom the program decides what its weights begin "
      "with, so leave it out");
  sources.settings = {{"memory.activation_budget_bytes", "1000"}};
  EXPECT_EQ(MessageOf(sources),
            "--set: memory.activation_budget_bytes: is for a model in the job "
            "file; with model.custom the program decides what it keeps, so "
            "leave it out");
}

TEST(JobChecksTest, ADirectoryToSwapToIsForABudget) {
  JobSources sources = From(kJob);
  sources.settings = {{"memory.swap_directory", "/var/tmp"}};
  EXPECT_EQ(MessageOf(sources),
            "--set: memory.swap_directory: needs "
            "memory.activation_budget_bytes, which says how much memory there "
            "is without it");
  sources.settings.push_back({"memory.activation_budget_bytes", "1000"});
  EXPECT_TRUE(LoadJob(sources).ok());
}

TEST(JobChecksTest, ABackupAndCheckpointsExcludeEachOther) {
  for (const char* setting :
       {"directory", "every_steps", "every_seconds", "keep", "keep_every_steps",
        "keep_every_hours", "keep_best"}) {
    JobSources sources = From(kJob);
    const std::string path = absl::StrCat("checkpoint.", setting);
    sources.settings = {{"backup_and_restore.directory", "/shared/backup"},
                        {path, "7"}};
    EXPECT_THAT(MessageOf(sources),
                HasSubstr(absl::StrCat(path,
                                       ": makes no sense together with "
                                       "backup_and_restore")));
  }
  JobSources sources = From(kJob);
  sources.settings = {{"backup_and_restore.directory", "/shared/backup"},
                      {"run_dir", "/shared/backup"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("backup_and_restore.directory: is run_dir"));
}

TEST(JobChecksTest, SettingsOfSyncModeNeedIt) {
  JobSources sources = From(kJob);
  sources.settings = {{"backup_workers", "1"}, {"accumulate", "2"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("backup_workers: needs staleness \"sync\""));
  sources.settings.push_back({"staleness", "sync"});
  EXPECT_EQ(MessageOf(sources), "");
  sources.settings.push_back({"max_joined_workers", "1"});
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("max_joined_workers: does not go with backup_workers"));
}

TEST(JobChecksTest, RebalanceNeedsScalable) {
  JobSources sources = From(kJob);
  sources.settings = {{"rebalance", "true"}, {"replication", "2"}};
  EXPECT_THAT(MessageOf(sources), HasSubstr("rebalance: needs scalable"));
  sources.settings.push_back({"scalable", "true"});
  EXPECT_EQ(MessageOf(sources), "");
}

TEST(JobChecksTest, ScalableNeedsReplication) {
  JobSources sources = From(kJob);
  sources.settings = {{"scalable", "true"}};
  EXPECT_THAT(MessageOf(sources), HasSubstr("scalable: needs replication 2"));
  sources.settings.push_back({"replication", "2"});
  EXPECT_EQ(MessageOf(sources), "");
}

TEST(JobChecksTest, AnElectionNeedsAnEtcdOrALease) {
  JobSources sources = From(kJob);
  sources.settings = {{"chief_election", "etcd://a:2379/jobs/x"}};
  EXPECT_EQ(MessageOf(sources), "");
  sources.settings = {{"chief_election", "zookeeper://a:2181/x"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("chief_election: does not begin with etcd:// or "
                        "kubernetes://; give etcd://HOST:PORT[,HOST:PORT]/"));
  sources.settings = {{"chief_election", "kubernetes://research/x"}};
  EXPECT_EQ(MessageOf(sources), "");
  sources.settings = {{"chief_election", "kubernetes://research/X"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("chief_election: 'X' is not the name of a Lease"));
  sources.settings = {{"chief_election_tls_dir", "/etc/etcd-client"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("chief_election_tls_dir: makes no sense without "
                        "chief_election"));
}

TEST(JobChecksTest, ReplicationIsRefusedWhereItCantBe) {
  JobSources sources = From(kJob);
  sources.settings = {{"replication", "3"}};
  EXPECT_THAT(MessageOf(sources), HasSubstr("replication: must be at most 2"));
  for (const char* const servers : {"1", "2"}) {
    for (const char* const staleness : {"async", "8", "sync"}) {
      sources.settings = {{"replication", servers}, {"staleness", staleness}};
      EXPECT_EQ(MessageOf(sources), "");
    }
  }
}

TEST(JobChecksTest, StalenessIsAsyncSyncOrANumberOfPushes) {
  JobSources sources = From(kJob);
  for (const char* value : {"async", "sync", "0", "8", "1000000000"}) {
    sources.settings = {{"staleness", value}};
    const auto job = LoadJob(sources);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->config.staleness(), value);
  }
  sources.settings = {{"staleness", "-1"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("staleness: must be \"async\", \"sync\" or a number of "
                        "pushes from 0 to 1000000000, such as \"8\"; found "
                        "\"-1\""));
}

TEST(JobChecksTest, WhatAnOptimizerSaysMustFitTogether) {
  JobSources sources = From(kJob);
  using Settings = std::vector<std::pair<std::string, std::string>>;
  const auto message = [&](Settings settings) {
    sources.settings = std::move(settings);
    return MessageOf(sources);
  };
  EXPECT_THAT(
      message({{"optimizer.adamw", "{}"}, {"optimizer.weight_decay", "0.1"}}),
      HasSubstr("optimizer.weight_decay: makes no sense together with "
                "adamw"));
  EXPECT_THAT(
      message({{"optimizer.lamb", "{}"}, {"optimizer.weight_decay", "0.1"}}),
      HasSubstr("give optimizer.lamb.weight_decay"));
  EXPECT_THAT(
      message({{"optimizer.clip_value", "1"}, {"optimizer.clip_norm", "1"}}),
      HasSubstr("optimizer.clip_norm: makes no sense together with "
                "optimizer.clip_value"));
  EXPECT_THAT(message({{"optimizer.schedule", "step"}}),
              HasSubstr("optimizer.decay_steps: is missing"));
  for (const char* const other : {"clip_value", "clip_norm"}) {
    EXPECT_THAT(message({{"optimizer.clip_global_norm", "1"},
                         {absl::StrCat("optimizer.", other), "1"}}),
                HasSubstr(absl::StrCat("optimizer.clip_global_norm: makes no "
                                       "sense together with optimizer.",
                                       other)));
  }
  for (const char* const wrong : {"-1", "nan", "inf", "1e31", "\"1\"", "no"}) {
    EXPECT_THAT(message({{"optimizer.clip_global_norm", wrong}}),
                HasSubstr("optimizer.clip_global_norm"))
        << wrong;
  }
  EXPECT_THAT(message({{"optimizer.schedule", "cosine"},
                       {"optimizer.decay_steps", "10"},
                       {"optimizer.warmup_steps", "10"}}),
              HasSubstr("optimizer.warmup_steps: must be below "
                        "optimizer.decay_steps (10)"));
  EXPECT_EQ(message({{"optimizer.schedule", "cosine"},
                     {"optimizer.warmup_steps", "10"}}),
            "");
  EXPECT_EQ(message({{"optimizer.rate_factors",
                      R"([{"variables": "*/bias", "factor": 2}])"}}),
            "");
  EXPECT_THAT(
      message({{"optimizer.groups", R"([{"variables": "*", "rho": 0.5}])"}}),
      HasSubstr("optimizer.groups[0].rho: "));
  EXPECT_THAT(message({{"optimizer.groups", R"([{"beta1": 0.5}])"}}),
              HasSubstr("optimizer.groups[0].variables: is missing"));
  EXPECT_THAT(message({{"optimizer.groups",
                        R"([{"variables": "*", "learning_rate": 0}])"}}),
              HasSubstr("optimizer.groups[0].learning_rate: is 0; it must be "
                        "above 0, or -1"));
  EXPECT_THAT(
      message({{"optimizer.groups", R"([{"variables": "*", "rate": 1}])"}}),
      HasSubstr("optimizer.groups[0].rate"));
  EXPECT_EQ(message({{"optimizer.groups",
                      R"([{"variables": "*/table", "learning_rate": 0.05,
                           "adagrad": {"row_wise": true}}])"}}),
            "");
  EXPECT_THAT(message({{"optimizer.groups",
                        R"([{"variables": "*", "adam": {}, "lamb": {}}])"}}),
              HasSubstr("optimizer.groups[0].lamb: conflicts with 'adam'; keep "
                        "one"));
  EXPECT_THAT(message({{"optimizer.groups",
                        R"([{"variables": "*", "adam": {"beta1": 1}}])"}}),
              HasSubstr("optimizer.groups[0].adam.beta1"));
  EXPECT_THAT(message({{"optimizer.rate_factors", R"([{"factor": 2}])"}}),
              HasSubstr("optimizer.rate_factors[0].variables: is missing"));
}

TEST(JobChecksTest, AConstantOfAGroupIsGivenOnce) {
  JobSources sources = From(kJob);
  const auto message = [&](const std::string& one) {
    sources.settings = {
        {"optimizer.groups", "[{\"variables\": \"*\", " + one + "}]"}};
    return MessageOf(sources);
  };
  EXPECT_EQ(message(R"("beta1": 0.5, "adam": {"beta1": 0.8})"),
            "--set: optimizer.groups[0].adam.beta1: is given by "
            "optimizer.groups[0].beta1 too; keep one");
  // As well where both say the same, or one says "as the others".
  EXPECT_THAT(message(R"("weight_decay": -1, "lamb": {"weight_decay": 0.1})"),
              HasSubstr("optimizer.groups[0].lamb.weight_decay: is given by"));
  EXPECT_EQ(message(R"("beta1": 0.5, "adam": {"beta2": 0.8})"), "");
  EXPECT_EQ(message(R"("momentum": 0.5, "sgd": {"nesterov": true})"), "");
}

TEST(JobChecksTest, WhatPruningSaysMustFitTogether) {
  JobSources sources = From(kJob);
  const auto message = [&](const std::string& one) {
    sources.settings = {
        {"optimizer.pruning", "[{\"variables\": \"*\", " + one + "}]"}};
    return MessageOf(sources);
  };
  EXPECT_EQ(message(R"("sparsity": 0.5, "end_step": 5)"), "");
  EXPECT_THAT(message(R"("sparsity": 0.5, "end_step": 5, "begin_step": 6)"),
              HasSubstr("optimizer.pruning[0].end_step: must be at least "
                        "begin_step (6); found 5"));
  EXPECT_THAT(
      message(R"("sparsity": 0.5, "end_step": 5, "initial_sparsity": 0.6)"),
      HasSubstr("optimizer.pruning[0].initial_sparsity: must be at most "
                "sparsity (0.5); found 0.6"));
  EXPECT_THAT(message(R"("sparsity": 0.5, "begin_step": 1)"),
              HasSubstr("end_step: is missing"));
  EXPECT_THAT(message(R"("sparsity": 1, "end_step": 5)"),
              HasSubstr("optimizer.pruning[0].sparsity"));
  const std::string four = R"("end_step": 5, "structure": "two_of_four", )";
  EXPECT_EQ(message(four + R"("sparsity": 0.5)"), "");
  EXPECT_THAT(message(four + R"("sparsity": 0.75)"),
              HasSubstr("optimizer.pruning[0].sparsity: must be 0.5 with "
                        "structure \"two_of_four\"; found 0.75"));
  EXPECT_THAT(message(four + R"("sparsity": 0.5, "scope": "global")"),
              HasSubstr("optimizer.pruning[0].scope: \"global\" makes no sense "
                        "with structure \"two_of_four\""));
  EXPECT_THAT(message(R"("sparsity": 0.6, "end_step": 5, "scope": "global",
                         "structure": "channels")"),
              HasSubstr("optimizer.pruning[0].scope: \"global\" makes no sense "
                        "with structure \"channels\""));
  EXPECT_THAT(
      message(R"("sparsity": 0.5, "end_step": 5, "structure": "channel")"),
      HasSubstr("optimizer.pruning[0].structure"));
}

TEST(JobChecksTest, OneThresholdForAllServersNeedsSteps) {
  JobSources sources = From(kJob);
  const auto message = [&](const std::string& key, const std::string& value) {
    sources.settings = {{"optimizer.pruning",
                         R"([{"variables": "*", "sparsity": 0.5, "end_step": 5,
              "scope": "global"}])"},
                        {key, value}};
    return MessageOf(sources);
  };
  EXPECT_THAT(message("staleness", "async"),
              HasSubstr("optimizer.pruning[0].scope: \"global\" needs "
                        "staleness \"sync\""));
  EXPECT_EQ(message("staleness", "sync"), "");
  EXPECT_EQ(message("strategy", "mirrored"), "");
}

TEST(JobChecksTest, ChannelsArePrunedByAllServersInSteps) {
  JobSources sources = From(kJob);
  const auto message = [&](const std::string& key, const std::string& value) {
    sources.settings = {{"optimizer.pruning",
                         R"([{"variables": "*", "sparsity": 0.5, "end_step": 5,
              "structure": "channels"}])"},
                        {key, value}};
    return MessageOf(sources);
  };
  EXPECT_THAT(message("staleness", "async"),
              HasSubstr("optimizer.pruning[0].structure: \"channels\" needs "
                        "staleness \"sync\""));
  EXPECT_EQ(message("staleness", "sync"), "");
  EXPECT_EQ(message("strategy", "mirrored"), "");
}

TEST(JobChecksTest, FewThresholdsAreForAllServers) {
  JobSources sources = From(kJob);
  const auto message = [&](int entries) {
    std::string list;
    for (int i = 0; i < entries; ++i) {
      absl::StrAppend(&list, i == 0 ? "[" : ", ", R"({"variables": "v)", i,
                      R"(", "sparsity": 0.5, "end_step": 5,
              "scope": "global"})");
    }
    sources.settings = {{"optimizer.pruning", list + "]"},
                        {"staleness", "sync"}};
    return MessageOf(sources);
  };
  EXPECT_EQ(message(8), "");
  EXPECT_THAT(message(9),
              HasSubstr("optimizer.pruning: may have at most 8 entries of "
                        "scope \"global\"; found 9"));
}

TEST(JobChecksTest, NesterovNeedsMomentum) {
  JobSources sources = From(kJob);
  sources.settings = {{"optimizer", R"({"sgd": {"nesterov": true},
                                        "learning_rate": 0.1})"}};
  EXPECT_EQ(MessageOf(sources),
            "--optimizer: optimizer.sgd.nesterov: needs momentum");
  sources.settings = {{"optimizer", R"({"sgd": {"nesterov": true,
                                                "momentum": 0.9},
                                        "learning_rate": 0.1})"}};
  EXPECT_EQ(MessageOf(sources), "");
  sources.settings = {{"optimizer.groups", R"([{"variables": "*",
                                                "sgd": {"nesterov": true}}])"}};
  EXPECT_EQ(MessageOf(sources),
            "--set: optimizer.groups[0].sgd.nesterov: needs momentum");
  sources.settings = {{"optimizer.groups", R"([{"variables": "*",
                                                "sgd": {"nesterov": true},
                                                "momentum": 0.9}])"}};
  EXPECT_EQ(MessageOf(sources), "");
}

TEST(JobChecksTest, HeartbeatsMustFitIntoTheLease) {
  JobSources sources = From(kJob);
  sources.settings = {{"lease_ms", "2999"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("heartbeat_ms: must be at most a third of lease_ms "
                        "(2999); found 1000"));
}

TEST(JobChecksTest, CheckpointsAreDueByStepsOrBySecondsNotByBoth) {
  JobSources sources = From(kJob);
  sources.settings = {{"checkpoint.every_steps", "0"},
                      {"checkpoint.every_seconds", "30"}};
  EXPECT_EQ(LoadJob(sources)->config.checkpoint().every_seconds(), 30u);
  sources.settings = {{"checkpoint.every_steps", "100"},
                      {"checkpoint.every_seconds", "30"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("checkpoint.every_seconds: makes no sense together "
                        "with checkpoint.every_steps (100)"));
}

TEST(JobChecksTest, AMetricsAddressIsOneToListenAtOrEmpty) {
  JobSources sources = From(kJob);
  sources.settings = {{"metrics_address", "127.0.0.1:0"}};
  EXPECT_EQ(LoadJob(sources)->config.metrics_address(), "127.0.0.1:0");
  sources.settings = {{"metrics_address", "9090"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("metrics_address: \"9090\" has no port"));
}

TEST(JobChecksTest, NamesOfAWarmStartHaveAsManyStarsOnBothSides) {
  JobSources sources = From(kJob);
  sources.settings = {{"warm_start.path", "/base"},
                      {"warm_start.variables", "dense_*/*"},
                      {"warm_start.from", "layers.*.*"}};
  EXPECT_EQ(MessageOf(sources), "");
  sources.settings.back().second = "layers.*";
  EXPECT_EQ(MessageOf(sources),
            "--set: warm_start.from: must have as many * as "
            "warm_start.variables (\"dense_*/*\") and as many names, in the "
            "same order; found \"layers.*\"");
}

TEST(JobChecksTest, TeachersNeedAModelOfClasses) {
  const auto with = [](absl::string_view setting, absl::string_view value) {
    JobSources sources = From(kJob);
    sources.settings = {{"distill.teachers", "[\"runs/a\",\"runs/b\"]"},
                        {std::string(setting), std::string(value)}};
    return sources;
  };
  const absl::StatusOr<LoadedJob> job = LoadJob(with("seed", "1"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.distill().teachers_size(), 2);
  EXPECT_EQ(job->config.distill().temperature(), 2);
  EXPECT_EQ(job->config.distill().alpha(), 0.5);
  EXPECT_FALSE(LoadJob(From(kJob))->config.has_distill());
  for (const auto& [setting, value, sentence] :
       std::vector<std::array<const char*, 3>>{
           {"distill.temperature", "0", "must be greater than 0"},
           {"distill.temperature", "-2", "must be greater than 0"},
           {"distill.alpha", "-0.1", "must be at least 0"},
           {"distill.alpha", "1.1", "must be at most 1"},
           {"distill.teachers", "[]", "must have at least 1"},
           {"model.loss", "mean_squared_error",
            "distill: is for the loss softmax_cross_entropy, which has "
            "classes; model.loss is mean_squared_error"},
           {"model.loss", "binary_cross_entropy",
            "model.loss is binary_cross_entropy"},
           {"model.custom", "true", "with model.custom the program decides"},
       }) {
    EXPECT_THAT(MessageOf(with(setting, value)), HasSubstr(sentence))
        << setting << " " << value;
  }
}

TEST(JobChecksTest, SlicesArePartOfTheNamesOfMetrics) {
  JobSources sources = From(kJob);
  EXPECT_EQ(LoadJob(sources)->config.model().slices_size(), 0);
  sources.settings = {{"model.slices", "[\"device\", \"user/age.2-x_Y\"]"}};
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.model().slices(1), "user/age.2-x_Y");
  for (const char* name : {"", "a b", "a=b", "a{b}", "\\u00e9"}) {
    sources.settings = {
        {"model.slices", absl::StrCat("[\"device\", \"", name, "\"]")}};
    EXPECT_THAT(MessageOf(sources),
                HasSubstr("model.slices[1]: becomes part of the names of "
                          "metrics (auc/device=2): letters, digits, _, -, . "
                          "and / alone; found \""))
        << name;
  }
  sources.settings = {
      {"model.slices",
       "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]"}};
  EXPECT_THAT(MessageOf(sources), HasSubstr("model.slices: must have at most"));
  sources.settings = {{"model.slices", "[\"device\"]"},
                      {"model.custom", "true"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("model.slices: is for a model in the job file; with "
                        "model.custom the program decides what it evaluates, "
                        "so leave it out"));
}

TEST(JobChecksTest, ALossOverABatchNeedsABatch) {
  const auto with = [](absl::string_view setting, absl::string_view value) {
    std::map<std::string, std::string> settings = {
        {"model.loss", "in_batch_softmax"},
        {"model.temperature", "0.1"},
        {"model.sampling_probability", "count"}};
    settings[std::string(setting)] = std::string(value);
    JobSources sources = From(kJob);
    sources.settings.assign(settings.begin(), settings.end());
    return sources;
  };
  const absl::StatusOr<LoadedJob> job = LoadJob(with("seed", "1"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.model().loss(), v1::IN_BATCH_SOFTMAX);
  EXPECT_EQ(job->config.model().temperature(), 0.1);
  EXPECT_EQ(job->config.model().sampling_probability(), "count");
  EXPECT_EQ(LoadJob(From(kJob))->config.model().temperature(), 1);
  for (const auto& [setting, value, sentence] :
       std::vector<std::array<const char*, 3>>{
           {"model.temperature", "0", "must be greater than 0"},
           {"model.temperature", "-1", "must be greater than 0"},
           {"batch_per_replica", "1",
            "batch_per_replica: must be at least 2 with model.loss "
            "\"in_batch_softmax\""},
           {"pipeline.stages", "2",
            "pipeline: computes parts of a batch by themselves"},
           {"distill.teachers", "[\"runs/a\"]",
            "model.loss is in_batch_softmax"},
           {"model.loss", "softmax_cross_entropy",
            "model.temperature: is of model.loss \"in_batch_softmax\"; leave "
            "it out of a model with another loss"},
           {"model.loss", "mean_squared_error",
            "model.sampling_probability: is of model.loss"},
       }) {
    EXPECT_THAT(MessageOf(with(setting, value)), HasSubstr(sentence))
        << setting << " " << value;
  }
}

TEST(JobChecksTest, WhatRoundsForIntegersIsTheProcessorInFloat32) {
  const auto with = [](absl::string_view setting, absl::string_view value) {
    JobSources sources = From(kJob);
    sources.settings = {{"model.quantization_aware.weight_bits", "4"},
                        {std::string(setting), std::string(value)}};
    return sources;
  };
  const absl::StatusOr<LoadedJob> job = LoadJob(with("device", "auto"));
  ASSERT_TRUE(job.ok()) << job.status();
  const auto& aware = job->config.model().quantization_aware();
  EXPECT_EQ(aware.weight_bits(), 4);
  EXPECT_EQ(aware.momentum(), 0.99);
  EXPECT_EQ(aware.begin_step(), 0);
  EXPECT_FALSE(LoadJob(From(kJob))->config.model().has_quantization_aware());
  for (const auto& [setting, value, sentence] :
       std::vector<std::array<const char*, 3>>{
           {"model.quantization_aware.weight_bits", "1", "must be at least 2"},
           {"model.quantization_aware.weight_bits", "9", "must be at most 8"},
           {"model.quantization_aware.momentum", "1", "must be less than 1"},
           {"model.quantization_aware.begin_step", "-1", "begin_step"},
           {"device", "cuda",
            "device: must be \"cpu\" with model.quantization_aware, which "
            "rounds on the processor alone; found \"cuda\""},
           {"device", "cuda:0-3", "found \"cuda:0-3\""},
           {"device", "pjrt:/plugin.so:0", "found \"pjrt:/plugin.so:0\""},
           {"compute_format", "bf16",
            "compute_format: must be \"fp32\" with model.quantization_aware"},
           {"compute_format", "tf32", "compute_format: must be \"fp32\""},
           {"model.custom", "true",
            "model.quantization_aware: is for a model in the job file"},
       }) {
    EXPECT_THAT(MessageOf(with(setting, value)), HasSubstr(sentence))
        << setting << " " << value;
  }
}

}  // namespace
}  // namespace paramd
