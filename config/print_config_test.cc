#include "config/print_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using OrderedJson = nlohmann::ordered_json;

class PrintConfigTest : public ::testing::Test {
 protected:
  PrintConfigTest() {
    JobSources sources;
    sources.file = "config/examples/fashion_mnist_small.json";
    sources.environment = {{"PARAMD_EPOCHS", "3"}, {"PARAMD_PORT", "x"}};
    sources.settings = {{"run_dir", "runs/a"}, {"model.layers.1.dense", "9"}};
    job_ = *LoadJob(sources);
  }

  static ClusterSpec Cluster(absl::string_view tf_config) {
    return *ParseTfConfig(tf_config);
  }
  OrderedJson AsJson(const ClusterSpec& cluster) {
    return OrderedJson::parse(*PrintConfig(job_, cluster, "json"));
  }
  std::string AsText(const ClusterSpec& cluster) {
    return *PrintConfig(job_, cluster, "text");
  }

  LoadedJob job_;
};

constexpr char kWorker[] =
    R"({"cluster": {"chief": ["c:1"], "worker": ["a:1"], "ps": ["p:1"],
        "evaluator": ["e:1"], "board": ["b:1"]},
        "task": {"type": "worker", "index": "0"}})";

TEST_F(PrintConfigTest, EverySettingHasItsValueAndItsSource) {
  const OrderedJson settings = AsJson(ClusterSpec())["settings"];
  const auto text = [&settings](const char* path) {
    return settings.at(path).dump();
  };
  EXPECT_EQ(text("epochs"),
            R"({"value":3,"source":"environment","at":"PARAMD_EPOCHS"})");
  EXPECT_EQ(text("run_dir"),
            R"({"value":"runs/a","source":"flag","at":"--run_dir"})");
  EXPECT_EQ(text("checkpoint.directory"),
            R"({"value":"runs/a/checkpoints","source":"flag",)"
            R"("at":"--run_dir"})");
  EXPECT_EQ(text("seed"), R"({"value":1,"source":"default","at":"default"})");
  EXPECT_EQ(text("name"),
            R"({"value":"fashion-mnist-small","source":"file",)"
            R"("at":"config/examples/fashion_mnist_small.json:2"})");
  EXPECT_EQ(text("model.layers[1].dense.units"),
            R"({"value":9,"source":"flag","at":"--set"})");
  EXPECT_EQ(settings.at("model.layers[2].relu")["value"].dump(), "{}");
  EXPECT_EQ(settings.at("optimizer.learning_rate")["value"].dump(), "0.1");
}

TEST_F(PrintConfigTest, TheClusterIsAsThisProcessReadIt) {
  EXPECT_EQ(AsJson(Cluster(kWorker))["cluster"].dump(), OrderedJson::parse(R"({
    "source": "TF_CONFIG", "standalone": false, "role": "worker",
    "task": {"type": "worker", "type_source": "TF_CONFIG", "index": 0,
             "index_source": "TF_CONFIG"},
    "worker_index": 1, "ps_index": null, "is_chief": false,
    "address": "a:1", "chief_address": "c:1",
    "ps": ["p:1"], "workers": ["c:1", "a:1"], "evaluators": ["e:1"],
    "stages": [], "other_jobs": ["board"], "expected_ps": 1, "expected_workers": 2,
    "notes": []})")
                                                            .dump());
}

TEST_F(PrintConfigTest, WhatIsNotKnownIsNull) {
  const OrderedJson cluster = AsJson(Cluster(
      R"({"cluster": {"worker": {}, "ps": ["q:1"]},
          "task": {"type": "ps", "index": 1}})"))["cluster"];
  EXPECT_EQ(cluster["role"], "ps");
  EXPECT_EQ(cluster["ps_index"], 1);
  EXPECT_EQ(cluster["worker_index"].dump(), "null");
  EXPECT_EQ(cluster["ps"].dump(), R"([null,"q:1"])");
  EXPECT_EQ(cluster["chief_address"].dump(), "null");
  EXPECT_EQ(cluster["expected_ps"].dump(), "null");
  EXPECT_EQ(cluster["expected_workers"].dump(), "null");
}

TEST_F(PrintConfigTest, AloneThereIsNoTask) {
  const OrderedJson cluster = AsJson(*ParseTfConfig(absl::nullopt))["cluster"];
  EXPECT_EQ(cluster["role"], "standalone");
  EXPECT_EQ(cluster["task"].dump(), "null");
  EXPECT_EQ(cluster["source"].dump(), "null");
  EXPECT_EQ(cluster["is_chief"], true);
  EXPECT_EQ(cluster["worker_index"], 0);
  EXPECT_EQ(cluster["expected_workers"], 1);
  EXPECT_EQ(cluster["notes"].size(), 1u);
}

TEST_F(PrintConfigTest, TheJobAndItsWarningsAreNamed) {
  const OrderedJson json = AsJson(ClusterSpec());
  EXPECT_EQ(json["job"]["name"], "fashion-mnist-small");
  EXPECT_EQ(json["job"]["digest"], job_.digest);
  EXPECT_EQ(json["warnings"].size(), 1u);
  EXPECT_THAT(AsText(ClusterSpec()),
              HasSubstr("ignored environment variables that are no settings: "
                        "PARAMD_PORT\n"));
}

TEST_F(PrintConfigTest, TextIsInColumns) {
  const std::string text = AsText(Cluster(kWorker));
  EXPECT_THAT(text, HasSubstr("job fashion-mnist-small, digest "));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nepochs +3 +PARAMD_EPOCHS\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nseed +1 +default\n"));
  EXPECT_THAT(text, HasSubstr("role        worker 1\n"
                              "type        worker (from TF_CONFIG)\n"
                              "index       0 (from TF_CONFIG)\n"
                              "address     a:1\n"
                              "chief       c:1\n"
                              "ps          1 expected: p:1\n"
                              "workers     2 expected: c:1, a:1\n"
                              "evaluators  e:1\n"
                              "other job   board\n"
                              "told by     TF_CONFIG\n"));
}

TEST_F(PrintConfigTest, TextSaysWhoIsChiefAndWhatIsUnknown) {
  EXPECT_THAT(AsText(ClusterSpec()), HasSubstr("role  standalone: chief"));
  EXPECT_THAT(AsText(Cluster(
                  R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]},
                      "task": {"type": "worker", "index": 0}})")),
              HasSubstr("role     worker 0, the chief\n"));
  const std::string dynamic = AsText(Cluster(
      R"({"cluster": {"worker": {}, "ps": ["q:1"]},
          "task": {"type": "ps", "index": 1}})"));
  EXPECT_THAT(dynamic, HasSubstr("role     ps 1\n"));
  EXPECT_THAT(dynamic, HasSubstr("chief    unknown\n"));
  EXPECT_THAT(dynamic, HasSubstr("ps       how many: unknown: ?, q:1\n"));
  EXPECT_THAT(dynamic, HasSubstr("note     TF_CONFIG tells this ps of no"));
}

TEST_F(PrintConfigTest, TextThatIsNoUtf8IsPrintedSafely) {
  job_.config.set_run_dir("a\xff\n\"b");
  EXPECT_TRUE(OrderedJson::accept(*PrintConfig(job_, ClusterSpec(), "json")));
}

TEST_F(PrintConfigTest, AnotherFormatIsRefused) {
  EXPECT_EQ(PrintConfig(job_, ClusterSpec(), "yaml").status().message(),
            "--format is text or json, not 'yaml'");
}

}  // namespace
}  // namespace paramd
