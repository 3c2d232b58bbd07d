#include "config/cluster_spec.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string MessageOf(absl::string_view value) {
  const absl::StatusOr<ClusterSpec> spec = ParseTfConfig(value);
  if (spec.ok()) return "";
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

std::string WithTask(absl::string_view task) {
  return absl::StrCat(
      R"({"cluster": {"worker": ["a:1", "b:2"], "ps": ["c:3"]},)",
      "\"task\": ", task, "}");
}

std::string WithCluster(absl::string_view cluster) {
  return absl::StrCat("{\"cluster\": ", cluster,
                      R"(, "task": {"type": "worker", "index": 0}})");
}

TEST(ClusterSpecTest, UnsetMeansStandalone) {
  const absl::StatusOr<ClusterSpec> spec = ParseTfConfig(absl::nullopt);
  ASSERT_TRUE(spec.ok());
  EXPECT_TRUE(spec->standalone);
  EXPECT_TRUE(spec->is_chief());
  EXPECT_EQ(spec->worker_index(), 0);
  EXPECT_EQ(spec->self_address(), "");
}

TEST(ClusterSpecTest, StandaloneShapesAreStandalone) {
  for (
      const char* value :
      {"{}", R"({"cluster": {}, "task": {}})", R"({"cluster": null})",
       R"({"model_dir": "x", "session_master": ""})",
       R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})",
       R"({"cluster": {"chief": ["a:1"], "ps": null}, "task": {"type": "chief", "index": 0}})"}) {
    const absl::StatusOr<ClusterSpec> spec = ParseTfConfig(value);
    ASSERT_TRUE(spec.ok()) << value << spec.status();
    EXPECT_TRUE(spec->standalone) << value;
  }
}

TEST(ClusterSpecTest, WithoutAChiefListWorker0IsTheChief) {
  const absl::StatusOr<ClusterSpec> spec =
      ParseTfConfig(WithTask(R"({"type": "worker", "index": 0})"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->standalone);
  EXPECT_THAT(spec->workers, ElementsAre("a:1", "b:2"));
  EXPECT_THAT(spec->ps, ElementsAre("c:3"));
  EXPECT_TRUE(spec->is_chief());
  EXPECT_EQ(spec->self_address(), "a:1");
  EXPECT_FALSE(
      ParseTfConfig(WithTask(R"({"type": "worker", "index": 1})"))->is_chief());
}

TEST(ClusterSpecTest, AChiefListComesBeforeTheWorkers) {
  const auto parse = [](absl::string_view type, int index) {
    return ParseTfConfig(absl::StrCat(
        R"({"cluster": {"worker": ["a:1", "b:1"], "chief": ["c:1"],)",
        R"("ps": ["d:1"]}, "task": {"type": ")", type, "\", \"index\": ", index,
        "}, \"environment\": \"cloud\"}"));
  };
  const absl::StatusOr<ClusterSpec> chief = parse("chief", 0);
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_THAT(chief->workers, ElementsAre("c:1", "a:1", "b:1"));
  EXPECT_TRUE(chief->is_chief());
  EXPECT_EQ(chief->self_address(), "c:1");
  const absl::StatusOr<ClusterSpec> worker = parse("worker", 0);
  EXPECT_FALSE(worker->is_chief());
  EXPECT_EQ(worker->worker_index(), 1);
  EXPECT_EQ(worker->self_address(), "a:1");
  EXPECT_EQ(worker->WorkerTask(0), (TaskId{TaskType::kChief, 0}));
  EXPECT_EQ(worker->WorkerTask(2), (TaskId{TaskType::kWorker, 1}));
  const absl::StatusOr<ClusterSpec> ps = parse("ps", 0);
  EXPECT_TRUE(ps->is_ps());
  EXPECT_FALSE(ps->is_chief());
  EXPECT_EQ(ps->worker_index(), -1);
  EXPECT_EQ(ps->self_address(), "d:1");
}

TEST(ClusterSpecTest, AChiefThatIsAlsoWorker0IsOneProcess) {
  for (const char* task : {R"({"type": "chief", "index": 0})",
                           R"({"type": "worker", "index": 0})"}) {
    const absl::StatusOr<ClusterSpec> spec = ParseTfConfig(absl::StrCat(
        R"({"cluster": {"chief": ["a:1"], "worker": ["a:1", "b:1"],)",
        R"("ps": ["d:1"]}, "task": )", task, "}"));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_THAT(spec->workers, ElementsAre("a:1", "b:1"));
    EXPECT_TRUE(spec->is_chief());
    EXPECT_EQ(spec->WorkerTask(1), (TaskId{TaskType::kWorker, 1}));
  }
}

TEST(ClusterSpecTest, WhatProducersWriteIsAccepted) {
  for (const std::string& value : std::vector<std::string>{
           WithTask(R"({"type": "worker", "index": "1"})"),
           WithTask(R"({"index": 1, "type": "worker", "trial": "2"})"),
           "\n  " + WithTask(R"({"type": "ps", "index": 0})") + " \n",
           WithTask(R"({"type": "evaluator", "index": 0})"),
           WithTask(R"({"type": "ps", "index": 0}, "job": "{}", "x": [1])"),
           WithCluster(R"({"worker": ["::1:5"], "ps": ["[::1]:6"]})"),
           WithCluster(R"({"worker": ["a.b.svc:1"], "ps": ["a.b.svc:2"],
                           "evaluator": null, "chief": [], "tensorboard":
                           ["t:6006"]})")}) {
    EXPECT_EQ(MessageOf(value), "") << value;
  }
}

TEST(ClusterSpecTest, EmptyIsNotUnset) {
  EXPECT_EQ(MessageOf(""),
            "TF_CONFIG: is set but empty; unset it to train in this process "
            "alone, or describe the cluster");
  EXPECT_THAT(MessageOf(" \n"), HasSubstr("set but empty"));
}

TEST(ClusterSpecTest, WithoutAClusterNothingIsQuietlyStandalone) {
  EXPECT_THAT(MessageOf(R"({"clusters": {"worker": ["a:1"]}})"),
              HasSubstr("TF_CONFIG: clusters: there is no 'cluster' beside "
                        "this key; did you mean 'cluster'?"));
  EXPECT_THAT(MessageOf(R"({"environment": "cloud"})"),
              HasSubstr("environment: there is no 'cluster'"));
  EXPECT_THAT(MessageOf(R"({"task": {"type": "ps", "index": 0}})"),
              HasSubstr("task: names a task, but there is no 'cluster'"));
  EXPECT_THAT(MessageOf("[]"), HasSubstr("wants an object such as"));
  EXPECT_THAT(MessageOf("\"x\""), HasSubstr("found \"x\""));
}

TEST(ClusterSpecTest, MistakesInTheTaskAreNamed) {
  const auto message = [](absl::string_view task) {
    return MessageOf(WithTask(task));
  };
  EXPECT_EQ(message(R"({"type": "worker", "index": 2})"),
            "TF_CONFIG: task.index: is 2, but 'cluster.worker' has 2 tasks, "
            "numbered from 0");
  EXPECT_EQ(message(R"({"type": "chief", "index": 0})"),
            "TF_CONFIG: task.type: is 'chief', but the cluster has no 'chief' "
            "tasks, only: worker, ps");
  EXPECT_THAT(message(R"({"type": "worker", "index": -1})"),
              HasSubstr("wants a whole number from 0, found -1"));
  EXPECT_THAT(message(R"({"type": "worker", "index": 1.5})"),
              HasSubstr("found 1.5"));
  EXPECT_THAT(message(R"({"type": "worker", "index": 99999999999})"),
              HasSubstr("found 99999999999"));
  EXPECT_THAT(message(R"({"type": "workers", "index": 0})"),
              HasSubstr("unknown task type \"workers\"; did you mean "
                        "'worker'?"));
  EXPECT_THAT(message("{}"), HasSubstr("task.type: is missing; give one of"));
  EXPECT_THAT(message("{}"), HasSubstr("task.index: is missing"));
  EXPECT_THAT(message(R"({"type": 1, "index": 0})"),
              HasSubstr("task.type: wants a string, found 1"));
  EXPECT_THAT(message("3"), HasSubstr("task: wants an object"));
  EXPECT_THAT(MessageOf(R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}})"),
              HasSubstr("task: is missing; say which task"));
}

TEST(ClusterSpecTest, MistakesInTheClusterAreNamed) {
  const auto message = [](absl::string_view cluster) {
    return MessageOf(WithCluster(cluster));
  };
  EXPECT_THAT(message(R"({"worker_hosts": ["a:1"], "ps_hosts": ["b:1"]})"),
              HasSubstr("cluster: has neither 'worker' nor 'chief' tasks, "
                        "only: worker_hosts, ps_hosts"));
  EXPECT_THAT(message(R"({"worker": ["a:1", "b:1"]})"),
              HasSubstr("cluster: has no 'ps' tasks, only: worker"));
  EXPECT_THAT(message(R"({"chief": ["a:1", "b:1"], "ps": ["c:1"]})"),
              HasSubstr("cluster.chief: has 2 tasks; there is one chief"));
  EXPECT_THAT(message(R"({"worker": "a:1", "ps": ["b:1"]})"),
              HasSubstr("cluster.worker: wants a list, for example "
                        "[\"host0:2222\"]; found \"a:1\""));
  EXPECT_THAT(message(R"({"worker": ["a:1", 5], "ps": ["b:1"]})"),
              HasSubstr("cluster.worker[1]: wants an address"));
  EXPECT_THAT(message(R"({"worker": ["a:1"], "ps": ["b:1", "b:1"]})"),
              HasSubstr("cluster.ps[1]: has the address of cluster.ps[0], "
                        "\"b:1\"; two tasks can't share one"));
  EXPECT_THAT(message(R"({"worker": ["a:1"], "ps": ["a:1"]})"),
              HasSubstr("cluster.worker[0]: has the address of cluster.ps[0]"));
  EXPECT_THAT(message("5"), HasSubstr("cluster: wants an object"));
}

TEST(ClusterSpecTest, AllMistakesAreSaidAtOnce) {
  EXPECT_EQ(MessageOf("{\"cluster\": {\"worker\": [\"a\", \"b:0\"],\n"
                      "\"ps\": [\"http://c:1\"]},\n\"task\": {\"index\": 0}}"),
            "TF_CONFIG:1: cluster.worker[0]: \"a\" has no port; write "
            "host:port\n"
            "TF_CONFIG:1: cluster.worker[1]: \"b:0\" has port 0; ports are "
            "from 1 to 65535\n"
            "TF_CONFIG:2: cluster.ps[0]: \"http://c:1\" has a scheme; write "
            "host:port alone\n"
            "TF_CONFIG:3: task.type: is missing; give one of chief, worker, "
            "ps, evaluator");
}

TEST(ClusterSpecTest, AddressesAreChecked) {
  for (const char* address : {"a:1", "a.b-c_d:65535", "10.0.0.1:2222", "::1:80",
                              "[fe80::1%eth0]:80"}) {
    EXPECT_EQ(WrongAddress(address), absl::nullopt) << address;
  }
  const auto wrong = [](absl::string_view address) {
    return WrongAddress(address).value_or("");
  };
  EXPECT_THAT(wrong(""), HasSubstr("is empty"));
  EXPECT_THAT(wrong("a"), HasSubstr("has no port"));
  EXPECT_THAT(wrong("[::1]"), HasSubstr("has no port"));
  EXPECT_THAT(wrong("a:"), HasSubstr("has \"\" for a port"));
  EXPECT_THAT(wrong("host:port"), HasSubstr("has \"port\" for a port"));
  EXPECT_THAT(wrong("a:65536"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(wrong("a:99999999999999"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(wrong("a:-1"), HasSubstr("wants a number"));
  EXPECT_THAT(wrong(":1"), HasSubstr("for a host"));
  EXPECT_THAT(wrong("a/b:1"), HasSubstr("for a host"));
  EXPECT_THAT(wrong("a b:1"), HasSubstr("for a host"));
  EXPECT_THAT(wrong("[a]:1"), HasSubstr("for a host"));
  EXPECT_THAT(wrong("$(HOST):1"), HasSubstr("`$(HOST)` was not expanded"));
}

TEST(ClusterSpecTest, UnexpandedReferencesAreNamed) {
  for (const char* index :
       {"$(TASK_INDEX)", "${TASK_INDEX}", "$TASK_INDEX", "%task%"}) {
    const std::string expected = absl::StrCat("`", index, "` was not expanded");
    EXPECT_THAT(MessageOf(WithTask(absl::StrCat(
                    R"({"type": "worker", "index": )", index, "}"))),
                HasSubstr(expected));
    EXPECT_THAT(MessageOf(WithTask(absl::StrCat(
                    R"({"type": "worker", "index": ")", index, "\"}"))),
                HasSubstr("task.index: the variable reference " + expected));
  }
  EXPECT_THAT(MessageOf(WithTask(R"({"type": "$ROLE", "index": 0})")),
              HasSubstr("task.type: the variable reference `$ROLE`"));
  EXPECT_THAT(MessageOf(WithTask(R"({"type": "worker", "index":})")),
              HasSubstr("an unset variable leaves such a hole"));
}

TEST(ClusterSpecTest, BrokenJsonIsNamed) {
  EXPECT_THAT(MessageOf(WithCluster(R"({"worker": ["a:1",], "ps": ["b:1"]})")),
              HasSubstr("leave out the comma before ']'"));
  EXPECT_THAT(MessageOf("{'cluster': {}}"), HasSubstr("double quotes"));
  EXPECT_THAT(MessageOf(WithCluster("{\"worker\": [host0:2222]}")),
              HasSubstr("near `"));
  EXPECT_THAT(MessageOf("{\"cluster\": {\"ps\": [], \"ps\": []}}"),
              HasSubstr("cluster.ps: given twice; keep one"));
}

TEST(ClusterSpecTest, HostileValuesAreRefusedWithASentence) {
  EXPECT_THAT(MessageOf(std::string(10 << 20, '{')), HasSubstr("too many"));
  EXPECT_THAT(MessageOf(std::string(10000, '[')), HasSubstr("deeper"));
  EXPECT_THAT(MessageOf("{\"cluster\": \"\xff\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(MessageOf(absl::string_view("{}\0", 3)), HasSubstr("NUL"));
  EXPECT_THAT(MessageOf("{\"task\": 1e999}"), HasSubstr("overflow"));
}

TEST(ClusterSpecTest, WhatIsWrittenIsReadBack) {
  ClusterSpec cluster;
  cluster.standalone = false;
  cluster.ps = {"p:1", "p:2"};
  cluster.workers = {"a:1", "b:1", "c:1"};
  for (const auto& [has_chief, is_again] :
       {std::pair(false, false), std::pair(true, false),
        std::pair(true, true)}) {
    cluster.has_chief_list = has_chief;
    cluster.chief_is_worker_0 = is_again;
    for (int i = 0; i < 3; ++i) {
      const TaskId task = cluster.WorkerTask(i);
      const absl::StatusOr<ClusterSpec> read =
          ParseTfConfig(ToTfConfig(cluster, task));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->workers, cluster.workers);
      EXPECT_EQ(read->ps, cluster.ps);
      EXPECT_EQ(read->self, task);
      EXPECT_EQ(read->worker_index(), i);
    }
  }
  EXPECT_EQ(ToTfConfig(cluster, {TaskType::kPs, 1}),
            R"({"cluster":{"chief":["a:1"],"worker":["a:1","b:1","c:1"],)"
            R"("ps":["p:1","p:2"]},"task":{"type":"ps","index":1}})");
}

}  // namespace
}  // namespace paramd
