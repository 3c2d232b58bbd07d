#include "config/tf_config.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class TfConfigTest : public ::testing::Test {
 protected:
  ClusterDescription Read(absl::string_view text) {
    return DescribeTfConfig("TF_CONFIG", text, {}, &mistakes_);
  }
  ClusterDescription ReadFlag(absl::string_view text) {
    return DescribeClusterFlag("--cluster", text, &mistakes_);
  }
  std::string Message() { return std::string(mistakes_.ToStatus().message()); }

  Mistakes mistakes_;
};

TEST_F(TfConfigTest, AListAndAnObjectSayTheSame) {
  for (const char* text :
       {R"({"cluster": {"worker": ["a:1", "b:1"]}})",
        R"({"cluster": {"worker": {"1": "b:1", "0": "a:1"}}})",
        R"({"sparseCluster": {"worker": {"0": "a:1", "1": "b:1"}}})"}) {
    const ClusterDescription cluster = Read(text);
    ASSERT_EQ(Message(), "");
    ASSERT_NE(cluster.Find("worker"), nullptr) << text;
    EXPECT_THAT(cluster.Find("worker")->tasks,
                ElementsAre(Pair(0, "a:1"), Pair(1, "b:1")));
  }
}

TEST_F(TfConfigTest, PoolsOfVertexAreCalledByTheirJobs) {
  const ClusterDescription by_name = Read(
      R"({"cluster": {"workerpool0": ["a:1"], "workerpool1": ["b:1"],
          "workerpool2": ["c:1"], "workerpool3": ["d:1"],
          "workerpool4": ["e:1"]},
          "environment": "cloud", "task": {"type": "workerpool1", "index": 0},
          "job": "{}", "open_ports": [3333]})");
  const ClusterDescription as_list = Read(
      R"({"cluster": {"worker_pools": [
          {"index": 0, "replicas": ["a:1"]}, {"index": 1, "replicas": ["b:1"]},
          {"index": 2, "replicas": ["c:1"]}, {"index": 3, "replicas": ["d:1"]},
          {"index": 4, "replicas": ["e:1"]}, {"index": 5}]},
          "task": {"worker_pool_index": 1, "replica_index": 0, "trial": "T"}})");
  EXPECT_EQ(Message(), "");
  for (const ClusterDescription* cluster : {&by_name, &as_list}) {
    for (const auto& [job, address] :
         std::map<std::string, std::string>{{"chief", "a:1"},
                                            {"worker", "b:1"},
                                            {"ps", "c:1"},
                                            {"evaluator", "d:1"}}) {
      ASSERT_NE(cluster->Find(job), nullptr) << job;
      EXPECT_EQ(cluster->Find(job)->tasks.at(0), address);
    }
    EXPECT_NE(cluster->Find("workerpool4"), nullptr);
    EXPECT_EQ(cluster->task_type->value, "worker");
    EXPECT_EQ(cluster->task_index->value, 0);
  }
}

TEST_F(TfConfigTest, WhatIsNotWantedMayBeWrong) {
  const char* text =
      R"({"cluster": {"ps": 5}, "task": {"type": "$T", "index": "x"}})";
  const ClusterDescription nothing =
      DescribeTfConfig("TF_CONFIG", text, {false, false, false}, &mistakes_);
  EXPECT_EQ(Message(), "");
  EXPECT_TRUE(nothing.has_task);
  EXPECT_EQ(nothing.task_type, absl::nullopt);
  EXPECT_EQ(nothing.type_beside_index, "$T");
  DescribeTfConfig("TF_CONFIG", text, {false, false, true}, &mistakes_);
  EXPECT_EQ(Message(),
            "TF_CONFIG: task.index: wants a whole number from 0 to 65535, "
            "found \"x\"");
}

TEST_F(TfConfigTest, PlacesAreLines) {
  const ClusterDescription cluster = Read(
      "{\"cluster\": {\n\"ps\": [],\n\"worker\": [\"a\"]},\n\"task\": {}}");
  EXPECT_THAT(Message(), HasSubstr("TF_CONFIG:3: cluster.worker[0]: "));
  EXPECT_EQ(cluster.jobs[0].place.ToString(), "TF_CONFIG:2");
  EXPECT_FALSE(cluster.has_task);
}

TEST_F(TfConfigTest, JobsGivenTwiceUnderTwoNamesAreNamed) {
  Read(R"({"cluster": {"chief": ["a:1"], "workerpool0": ["b:1"]}})");
  EXPECT_EQ(Message(),
            "TF_CONFIG: cluster.workerpool0: 'chief' is given twice; keep one");
}

TEST_F(TfConfigTest, MistakesInPoolsAreNamed) {
  Read(R"({"cluster": {"worker_pools": [{"replicas": []}, {"index": "x"}]}})");
  EXPECT_THAT(Message(),
              HasSubstr("cluster.worker_pools[0].index: wants the number of "
                        "the pool: 0 for the chief"));
  EXPECT_THAT(Message(), HasSubstr("worker_pools[1].index: wants the number"));
  Read(R"({"cluster": {"worker_pools": 3}, "task":
           {"worker_pool_index": -1, "replica_index": "x"}})");
  EXPECT_THAT(Message(), HasSubstr("worker_pools: wants a list of objects"));
  EXPECT_THAT(Message(), HasSubstr("task.worker_pool_index: wants a whole"));
  EXPECT_THAT(Message(), HasSubstr("task.replica_index: wants a whole"));
}

TEST_F(TfConfigTest, AnObjectHasNumbersForKeys) {
  Read(R"({"cluster": {"ps": {"a": "a:1", "-1": "b:1", "1": "c:1", "01": "d:1",
                              "70000": "e:1"}}})");
  EXPECT_THAT(Message(),
              HasSubstr("cluster.ps: \"a\" is not an index; keys are "
                        "the numbers of tasks, from 0, as in"));
  EXPECT_THAT(Message(), HasSubstr("\"-1\" is not an index"));
  EXPECT_THAT(Message(), HasSubstr("\"70000\" is not an index"));
  EXPECT_THAT(Message(), HasSubstr("\"01\" stands for a task given before"));
}

TEST_F(TfConfigTest, AFlagMayHaveRanges) {
  const ClusterDescription cluster = ReadFlag(
      "ps=ps-{0..2}.train:7077; worker=w-{0..1}:7077,x:1  chief=c:1 "
      "evaluator=");
  EXPECT_EQ(Message(), "");
  EXPECT_THAT(
      cluster.Find("ps")->tasks,
      ElementsAre(Pair(0, "ps-0.train:7077"), Pair(1, "ps-1.train:7077"),
                  Pair(2, "ps-2.train:7077")));
  EXPECT_THAT(
      cluster.Find("worker")->tasks,
      ElementsAre(Pair(0, "w-0:7077"), Pair(1, "w-1:7077"), Pair(2, "x:1")));
  EXPECT_EQ(cluster.Find("evaluator"), nullptr);
}

TEST_F(TfConfigTest, AFlagMayBeTheObjectOfTfConfig) {
  const ClusterDescription cluster =
      ReadFlag(R"( {"ps": ["a:1"], "worker": {"0": "b:1"}})");
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(cluster.Find("ps")->tasks.at(0), "a:1");
  EXPECT_EQ(cluster.Find("worker")->path, "worker");
}

TEST_F(TfConfigTest, MistakesInAFlagAreNamed) {
  ReadFlag("");
  EXPECT_THAT(Message(), HasSubstr("--cluster: is empty; write for example "
                                   "ps=ps-{0..3}.train:7077"));
  ReadFlag("ps-0:1,ps-1:1 =x:1");
  EXPECT_THAT(Message(),
              HasSubstr("--cluster: \"ps-0:1,ps-1:1\" names no job"));
  EXPECT_THAT(Message(), HasSubstr("\"=x:1\" names no job"));
  ReadFlag("ps=a{3..1}:1 worker=b ps=c:1");
  EXPECT_THAT(Message(), HasSubstr("--cluster: ps: \"{3..1}\" is not a range"));
  EXPECT_THAT(Message(), HasSubstr("--cluster: worker[0]: \"b\" has no port"));
  EXPECT_THAT(Message(), HasSubstr("--cluster: ps: 'ps' is given twice"));
  ReadFlag("{\"ps\": [}");
  EXPECT_THAT(Message(), HasSubstr("--cluster: not valid JSON"));
}

TEST_F(TfConfigTest, RangesThatFillTheMemoryAreRefused) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&text, " job", i, "=a{0..65535}:1,a{0..65535}:1");
  }
  ReadFlag(text);
  EXPECT_EQ(Message(),
            "--cluster: job1: the flag stands for more than 131072 addresses; "
            "nobody has that");
  ReadFlag("worker=a{0..65535}:1,b:1");
  EXPECT_THAT(Message(), HasSubstr("worker: has 65537 tasks; at most 65536"));
}

}  // namespace
}  // namespace paramd
