// Every mistake that people make in TF_CONFIG, and the sentence it gets.

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/cluster_spec.h"

namespace paramd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

struct Slip {
  const char* value;
  const char* sentence;  // all of it, or the end of it after "..."
};

// Every mistake that people are known to make.
constexpr Slip kSlips[] = {
    {"",
     "TF_CONFIG: is set but empty; unset it to train in this process "
     "alone, or describe the cluster"},
    {" \n",
     "TF_CONFIG: is set but empty; unset it to train in this process "
     "alone, or describe the cluster"},
    {R"({"environment": "cloud"})",
     "TF_CONFIG: environment: there is no 'cluster' beside this key; TF_CONFIG "
     "looks like {\"cluster\": {\"worker\": [\"host0:2222\"], \"ps\": "
     "[\"host1:2222\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}"},
    {R"({"clusters": {"worker": ["a:1"]}})",
     "TF_CONFIG: clusters: there is no 'cluster' beside this key; did you mean "
     "'cluster'? ..."},
    {R"({"cluster_spec": {"worker": ["a:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster_spec: there is no 'cluster' beside this key; did "
     "you mean 'cluster'? ..."},
    {R"({"task": {"type": "ps", "index": 0}})",
     "TF_CONFIG: task: names a task, but there is no 'cluster' that it could "
     "belong to; add the cluster, or unset TF_CONFIG to train in this process "
     "alone"},
    {R"({"task": {"type": "worker", "index": 1}})",
     "TF_CONFIG: task: names a task, but there is no 'cluster' ..."},
    {"[]", "TF_CONFIG: wants an object such as ..."},
    {"\"x\"", "TF_CONFIG: wants an object such as ..."},
    {R"({"cluster": 5})",
     "TF_CONFIG: cluster: wants an object with the lists chief, worker, ps, "
     "evaluator, stage; found 5"},
    {R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]},
         "sparseCluster": {"worker": {"0": "a:1"}},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:2: sparseCluster: conflicts with 'cluster'; keep one"},
    {R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]}})",
     "TF_CONFIG: task: is missing; say which task this process is, for example "
     "{\"type\": \"worker\", \"index\": 0}"},
    {R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]}, "task": {"index": 0}})",
     "TF_CONFIG: task.type: is missing; give one of chief, worker, ps, "
     "evaluator, stage"},
    {R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]},
         "task": {"type": "worker"}})",
     "TF_CONFIG:2: task.index: is missing; give the position of this process "
     "in its list, from 0, here or by --task_index (JOB_COMPLETION_INDEX and "
     "VC_TASK_INDEX are not set, and the host's name, \"\", does not end in "
     "'-' and a number)"},
    {R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]}, "task": 3})",
     "TF_CONFIG: task: wants an object, found 3; say which task this process "
     "is, for example {\"type\": \"worker\", \"index\": 0}"},
    // TensorFlow 17854: keys of older days.
    {R"({"cluster": {"ps_hosts": ["p:1"], "worker_hosts": ["a:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster: has neither 'worker' nor 'chief' tasks, only: "
     "ps_hosts, worker_hosts; somebody has to train; call 'ps_hosts' just "
     "'ps'"},
    // EasyRec 207.
    {R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["p:1"]},
         "task": {"type": "chief", "index": 0}})",
     "TF_CONFIG:2: task.type: is 'chief', but the cluster has no 'chief' "
     "tasks, only: worker, ps; without them worker 0 is the chief"},
    {R"({"cluster": {"worker": ["a:1"], "chief": ["b:1"], "master": ["c:1"],
         "ps": ["p:1"]}, "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.master: conflicts with 'chief', which means the "
     "same; keep one"},
    {R"({"cluster": {"chief": ["a:1", "b:1"], "ps": ["p:1"]},
         "task": {"type": "chief", "index": 0}})",
     "TF_CONFIG:1: cluster.chief: has 2 tasks; there is one chief, so make the "
     "others workers"},
    // kubeflow/trainer 1763.
    {R"({"cluster": {"worker": {}, "ps": []},
         "task": {"type": "chief", "index": 0}})",
     "TF_CONFIG:1: cluster: names nobody: a TFJob with enableDynamicWorker "
     "tells its chief nothing of ps and workers (kubeflow/trainer#1763); leave "
     "out the Chief replica, so that worker 0 is the chief, or leave out "
     "enableDynamicWorker"},
    {R"({"cluster": {"worker": {"1": "j-worker-1:1"}, "ps": null},
         "task": {"type": "worker", "index": 1}})",
     "TF_CONFIG:1: cluster: has no 'ps' tasks, only: worker; the strategy "
     "'parameter_server' trains through parameter servers, so add at least "
     "one, as in \"ps\": [\"host1:2222\"], choose strategy "
     "\"multi_worker_mirrored\", where each worker has a copy, or list one "
     "worker alone to train in its process"},
    {R"({"cluster": {"worker": ["a:1", "b:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster: has no 'ps' tasks, only: worker; the strategy "
     "'parameter_server' trains through parameter servers, ..."},
    {R"({"cluster": {"worker": {"1": "10.0.0.1:1"}, "ps": ["p:1"]},
         "task": {"type": "worker", "index": 1}})",
     "TF_CONFIG:1: cluster.worker: has no task 0, who is the chief, and "
     "\"10.0.0.1:1\" does not tell its address; add it, or name a 'chief'"},
    {R"({"cluster": {"worker": ["a:1"], "ps": {"1": "p:1"}},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.ps: has task 1, but no task 0; a worker needs the "
     "address of every ps, starting at index 0"},
    {R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]},
         "task": {"type": "ps", "index": 1}})",
     "TF_CONFIG:2: task.index: is 1, but 'cluster.ps' has 1 task, numbered "
     "from 0"},
    {R"({"cluster": {"chief": ["a:1"], "ps": ["p:1"]},
         "task": {"type": "chief", "index": 1}})",
     "TF_CONFIG:2: task.index: is 1, but 'cluster.chief' has 1 task, numbered "
     "from 0"},
    {R"({"cluster": {"worker": {"0": "a:1", "2": "b:1"}, "ps": ["p:1"]},
         "task": {"type": "worker", "index": 1}})",
     "TF_CONFIG:2: task.index: is 1, but 'cluster.worker' has only task 0, 2"},
    {R"({"cluster": {"worker": ["a:1"], "ps": ["p:1", "p:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.ps[1]: has the address of cluster.ps[0], \"p:1\"; "
     "two tasks can't share one"},
    {R"({"cluster": {"worker": ["a:1"], "ps": ["a:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.worker[0]: has the address of cluster.ps[0], "
     "\"a:1\"; two tasks can't share one"},
    {R"({"cluster": {"worker": ["a:1", "a:1"], "ps": ["p:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.worker[1]: has the address of cluster.worker[0], "
     "\"a:1\"; two tasks can't share one"},
    {R"({"cluster": {"worker": "a:1", "ps": ["p:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.worker: wants a list, for example [\"host0:2222\", "
     "\"host1:2222\"]; found \"a:1\""},
    {R"({"cluster": {"worker": ["a:1", null], "ps": ["p:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.worker[1]: wants an address, for example "
     "\"host0:2222\"; found null"},
    {R"({"cluster": {"worker": [""], "ps": ["p:port"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.worker[0]: is empty; wants host:port\n"
     "TF_CONFIG:1: cluster.ps[0]: \"p:port\" has \"port\" for a port; wants a "
     "number"},
    {R"({"cluster": {"worker": ["a:0"], "ps": ["p:65536"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.worker[0]: \"a:0\" has port 0; ports are from 1 to "
     "65535\n"
     "TF_CONFIG:1: cluster.ps[0]: \"p:65536\" has port 65536; ports are from 1 "
     "to 65535"},
    {R"({"cluster": {"worker": ["grpc://a:1"], "ps": ["a/b:1"]},
         "task": {"type": "worker", "index": 0}})",
     "TF_CONFIG:1: cluster.worker[0]: \"grpc://a:1\" has a scheme; write "
     "host:port alone\n"
     "TF_CONFIG:1: cluster.ps[0]: \"a/b:1\" has \"a/b\" for a host; wants a "
     "name or an IP address"},
};

TEST(ClusterMistakesTest, EveryMistakeHasItsSentence) {
  for (const Slip& slip : kSlips) {
    const std::string message = MessageOf(slip.value);
    absl::string_view expected = slip.sentence;
    if (absl::ConsumeSuffix(&expected, " ...")) {
      EXPECT_THAT(message, ::testing::StartsWith(std::string(expected)))
          << slip.value;
      EXPECT_THAT(message, Not(HasSubstr("\n"))) << slip.value;
    } else {
      EXPECT_EQ(message, expected) << slip.value;
    }
  }
}

TEST(ClusterMistakesTest, MistakesInTheTaskAreNamed) {
  const auto message = [](absl::string_view task) {
    return MessageOf(WithTask(task));
  };
  EXPECT_EQ(message(R"({"type": "worker", "index": 2})"),
            "TF_CONFIG: task.index: is 2, but 'cluster.worker' has 2 tasks, "
            "numbered from 0");
  EXPECT_THAT(message(R"({"type": "worker", "index": -1})"),
              HasSubstr("wants a whole number from 0 to 65535, found -1"));
  EXPECT_THAT(message(R"({"type": "worker", "index": 1.5})"),
              HasSubstr("found 1.5"));
  EXPECT_THAT(message(R"({"type": "worker", "index": 99999999999})"),
              HasSubstr("found 99999999999"));
  EXPECT_THAT(message(R"({"type": "worker", "index": true})"),
              HasSubstr("found true"));
  EXPECT_THAT(message(R"({"type": "worker", "index": ""})"),
              HasSubstr("task.index: is empty (an unset variable leaves such a "
                        "hole)"));
  EXPECT_EQ(message(R"({"type": "workers", "index": 0})"),
            "TF_CONFIG: task.type: unknown task type \"workers\"; did you mean "
            "'worker'?");
  EXPECT_THAT(message(R"({"type": "PS", "index": 0})"),
              HasSubstr("did you mean 'ps'?"));
  EXPECT_THAT(message(R"({"type": 1, "index": 0})"),
              HasSubstr("task.type: wants a string, found 1"));
  EXPECT_THAT(message("{}"), HasSubstr("task: is missing; say which task"));
}

TEST(ClusterMistakesTest, StagesNeedServersAndAddressesOfTheirOwn) {
  EXPECT_THAT(
      MessageOf(WithCluster(R"({"worker": ["a:1"], "stage": ["s:1"]})")),
      HasSubstr("has 'stage' tasks and no 'ps' tasks"));
  EXPECT_THAT(
      MessageOf(WithCluster(
          R"({"worker": ["a:1"], "ps": ["p:1"], "stage": ["a:1"]})")),
      HasSubstr("cluster.stage[0]: has the address of cluster.worker[0]"));
  EXPECT_THAT(MessageOf(WithCluster(R"({"worker": ["a:1"], "ps": ["p:1"],
                                       "stage": {"1": "s:1"}})")),
              HasSubstr("cluster.stage: does not have every task from 0 on"));
}

TEST(ClusterMistakesTest, StagesNeedAllWorkersToBeListed) {
  for (const char* task : {R"("worker", "index": 1)", R"("stage", "index": 0)",
                           R"("stage", "index": 1)"}) {
    EXPECT_THAT(MessageOf(absl::StrCat(
                    R"({"cluster": {"worker": {"1": "w-1:1"}, "ps": ["p:1"],
                            "stage": ["s:1", "t:1"]}, "task": {"type": )",
                    task, "}}")),
                HasSubstr("has 'stage' tasks and may not name all workers"))
        << task;
  }
}

TEST(ClusterMistakesTest, AllMistakesAreSaidAtOnce) {
  EXPECT_EQ(MessageOf("{\"cluster\": {\"worker\": [\"a\", \"b:0\"],\n"
                      "\"ps\": [\"http://c:1\"]},\n\"task\": {\"index\": 0}}"),
            "TF_CONFIG:1: cluster.worker[0]: \"a\" has no port; write "
            "host:port\n"
            "TF_CONFIG:1: cluster.worker[1]: \"b:0\" has port 0; ports are "
            "from 1 to 65535\n"
            "TF_CONFIG:2: cluster.ps[0]: \"http://c:1\" has a scheme; write "
            "host:port alone\n"
            "TF_CONFIG:3: task.type: is missing; give one of chief, worker, "
            "ps, evaluator, stage");
}

TEST(ClusterMistakesTest, UnexpandedReferencesAreNamed) {
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
  EXPECT_THAT(MessageOf(WithCluster(R"({"ps": ["$(HOST):1"]})")),
              HasSubstr("cluster.ps[0]: the variable reference `$(HOST)`"));
}

TEST(ClusterMistakesTest, BrokenJsonIsNamed) {
  EXPECT_THAT(MessageOf(WithCluster(R"({"worker": ["a:1",], "ps": ["b:1"]})")),
              HasSubstr("leave out the comma before ']'"));
  EXPECT_THAT(MessageOf("{'cluster': {}}"), HasSubstr("double quotes"));
  EXPECT_THAT(MessageOf(WithCluster("{\"worker\": [host0:2222]}")),
              AllOf(HasSubstr("near `"), HasSubstr("double quotes")));
  EXPECT_THAT(MessageOf(WithCluster("{\"worker\": [10.0.0.1:2222]}")),
              HasSubstr("double quotes"));
  EXPECT_THAT(MessageOf(WithCluster("{worker: [\"a:1\"]}")),
              HasSubstr("double quotes"));
  EXPECT_THAT(MessageOf("{\"cluster\": {\"ps\": [], \"ps\": []}}"),
              HasSubstr("cluster.ps: given twice; keep one"));
}

TEST(ClusterMistakesTest, HostileValuesAreRefusedWithASentence) {
  EXPECT_THAT(MessageOf(std::string(10 << 20, '{')), HasSubstr("too many"));
  EXPECT_THAT(MessageOf(std::string(10000, '[')), HasSubstr("deeper"));
  EXPECT_THAT(MessageOf("{\"cluster\": \"\xff\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(MessageOf(absl::string_view("{}\0", 3)), HasSubstr("NUL"));
  EXPECT_THAT(MessageOf("{\"task\": 1e999}"), HasSubstr("overflow"));
}

TEST(ClusterMistakesTest, ATypeThatIsNearlyOneOfOursIsRefusedWithTheNearest) {
  const std::pair<std::string, std::string> all[] = {
      {"Worker", "worker"},       {"workers", "worker"},
      {"worker_hosts", "worker"}, {"wroker", "worker"},
      {"local", "worker"},        {"PS", "ps"},
      {"ps_hosts", "ps"},         {"evalutor", "evaluator"}};
  for (const auto& [written, meant] : all) {
    const absl::Status status =
        ParseTfConfig(
            absl::StrCat(R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"], ")",
                         written, R"(": ["c:1"]}, "task": {"type": ")", written,
                         R"(", "index": 0}})"))
            .status();
    EXPECT_THAT(
        std::string(status.message()),
        ::testing::HasSubstr(absl::StrCat("did you mean '", meant, "'?")))
        << written;
  }
}

TEST(ClusterMistakesTest, ATypeThatIsFarFromOursHasNothingToDo) {
  for (const char* written : {"tensorboard", "launcher", "driver", "psql"}) {
    const auto cluster = ParseTfConfig(absl::StrCat(
        R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"], ")", written,
        R"(": ["c:1"]}, "task": {"type": ")", written, R"(", "index": 0}})"));
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_NE(cluster->nothing_to_do(), "");
  }
}

}  // namespace
}  // namespace paramd
