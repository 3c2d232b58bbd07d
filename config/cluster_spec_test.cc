#include "config/cluster_spec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string SpecWithTask(absl::string_view task) {
  return absl::StrCat(
      R"({"cluster": {"worker": ["a:1", "b:2"], "ps": ["c:3"]},)",
      "\"task\": ", task, "}");
}

std::string SpecWithCluster(absl::string_view cluster) {
  return absl::StrCat("{\"cluster\": ", cluster,
                      R"(, "task": {"type": "worker", "index": 0}})");
}

// "worker-1 is 2 of c:1,a:1,b:1 ps d:1": who this is, its position among those
// who train, all of them (? is unknown, + that there may be more) and the ps.
std::string Reading(const ClusterSpec& spec) {
  if (spec.standalone) return "standalone";
  const auto list = [](const std::vector<std::string>& all, bool is_all) {
    return absl::StrCat(
        absl::StrJoin(all, ",",
                      [](std::string* out, const std::string& address) {
                        absl::StrAppend(out, address.empty() ? "?" : address);
                      }),
        is_all ? "" : "+");
  };
  std::string text = absl::StrCat(
      spec.self.type == TaskType::kOther ? spec.other_type
                                         : TaskName(spec.self),
      spec.worker_index() >= 0 ? absl::StrCat(" is ", spec.worker_index()) : "",
      " of ", list(spec.workers, spec.knows_all_workers), " ps ",
      list(spec.ps, spec.knows_all_ps));
  if (!spec.evaluators.empty()) {
    absl::StrAppend(&text, " evaluator ", list(spec.evaluators, true));
  }
  if (!spec.other_jobs.empty()) {
    absl::StrAppend(&text, " other ", absl::StrJoin(spec.other_jobs, ","));
  }
  return text;
}

struct Form {
  const char* name;
  const char* value;
  const char* reading;
};

// Every shape of TF_CONFIG that its producers are known to write.
constexpr Form kForms[] = {
    {"nothing", "{}", "standalone"},
    {"gcloud local", R"({"cluster": {}, "task": {}})", "standalone"},
    {"null cluster", R"({"cluster": null, "task": null})", "standalone"},
    {"empty lists",
     R"({"cluster": {"worker": [], "ps": null, "chief": {}}, "task": {}})",
     "standalone"},
    {"estimator alone", R"({"model_dir": "x", "session_master": ""})",
     "standalone"},
    {"a worker 0 without cluster",
     R"({"task": {"type": "worker", "index": 0}, "environment": "cloud"})",
     "standalone"},
    {"a master without others",
     R"({"cluster": {"master": ["algo-1:2222"]}, "environment": "cloud",
         "task": {"type": "master", "index": 0}})",
     "standalone"},
    {"one worker",
     R"({"cluster": {"worker": ["a:1"], "ps": []},
         "task": {"type": "worker", "index": 0}})",
     "standalone"},
    {"a chief and an evaluator",
     R"({"cluster": {"chief": ["a:1"], "evaluator": ["e:1"]},
         "task": {"type": "chief", "index": 0}})",
     "standalone"},
    {"no chief",
     R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1", "d:1"]},
         "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"})",
     "worker-1 is 1 of a:1,b:1 ps c:1,d:1"},
    {"worker 0 is the chief",
     R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]},
         "task": {"type": "worker", "index": 0}})",
     "worker-0 is 0 of a:1,b:1 ps c:1"},
    {"chief",
     R"({"cluster": {"chief": ["c:1"], "worker": ["a:1"], "ps": ["d:1"]},
         "task": {"type": "chief", "index": 0}})",
     "chief-0 is 0 of c:1,a:1 ps d:1"},
    {"worker beside a chief",
     R"({"cluster": {"chief": ["c:1"], "worker": ["a:1"], "ps": ["d:1"]},
         "task": {"type": "worker", "index": 0}})",
     "worker-0 is 1 of c:1,a:1 ps d:1"},
    {"ps",
     R"({"cluster": {"chief": ["c:1"], "worker": ["a:1"], "ps": ["d:1"]},
         "task": {"type": "ps", "index": 0}})",
     "ps-0 of c:1,a:1 ps d:1"},
    {"a chief alone with ps",
     R"({"cluster": {"chief": ["c:1"], "ps": ["d:1"], "worker": null},
         "task": {"type": "chief", "index": 0}})",
     "chief-0 is 0 of c:1 ps d:1"},
    {"legacy master",
     R"({"cluster": {"master": ["c:1"], "worker": ["a:1"], "ps": ["d:1"]},
         "task": {"type": "master", "index": 0}, "environment": "cloud"})",
     "chief-0 is 0 of c:1,a:1 ps d:1"},
    {"a master that calls itself chief",
     R"({"cluster": {"master": ["c:1"], "worker": ["a:1"], "ps": ["d:1"]},
         "task": {"type": "chief", "index": 0}})",
     "chief-0 is 0 of c:1,a:1 ps d:1"},
    {"a chief that calls itself master",
     R"({"cluster": {"chief": ["c:1"], "worker": ["a:1"], "ps": ["d:1"]},
         "task": {"type": "master", "index": 0}})",
     "chief-0 is 0 of c:1,a:1 ps d:1"},
    {"several masters",
     R"({"cluster": {"master": ["m:1", "n:1"], "worker": ["a:1"],
                     "ps": ["d:1"]}, "task": {"type": "master", "index": 1}})",
     "chief-1 is 1 of m:1,n:1,a:1 ps d:1"},
    {"a worker after several masters",
     R"({"cluster": {"master": ["m:1", "n:1"], "worker": ["a:1"],
                     "ps": ["d:1"]}, "task": {"type": "worker", "index": 0}})",
     "worker-0 is 2 of m:1,n:1,a:1 ps d:1"},
    {"the chief again as worker 0",
     R"({"cluster": {"chief": ["a:1"], "worker": ["a:1", "b:1"], "ps":
         ["d:1"]}, "task": {"type": "worker", "index": 0}})",
     "worker-0 is 0 of a:1,b:1 ps d:1"},
    {"beside a chief that is worker 0",
     R"({"cluster": {"chief": ["a:1"], "worker": ["a:1", "b:1"], "ps":
         ["d:1"]}, "task": {"type": "worker", "index": 1}})",
     "worker-1 is 1 of a:1,b:1 ps d:1"},
    {"the chief again as another worker",
     R"({"cluster": {"chief": ["a:1"], "worker": ["b:1", "a:1", "c:1"], "ps":
         ["d:1"]}, "task": {"type": "worker", "index": 2}})",
     "worker-2 is 2 of a:1,b:1,c:1 ps d:1"},
    {"Kubeflow with everything",
     R"({"cluster":{"chief":["j-chief-0.n.svc:2222"],
         "evaluator":["j-evaluator-0.n.svc:2222"],"ps":["j-ps-0.n.svc:2222"],
         "worker":["j-worker-0.n.svc:2222"]},
         "task":{"type":"ps","index":0},"environment":"cloud"})",
     "ps-0 of j-chief-0.n.svc:2222,j-worker-0.n.svc:2222 ps j-ps-0.n.svc:2222 "
     "evaluator j-evaluator-0.n.svc:2222"},
    {"Kubeflow, a dynamic worker 0",
     R"({"cluster":{"worker":{"0":"j-worker-0.n.svc:2222"},
         "ps":["p:1","q:1"]},"task":{"type":"worker","index":0}})",
     "worker-0 is 0 of j-worker-0.n.svc:2222+ ps p:1,q:1"},
    {"Kubeflow, a dynamic worker",
     R"({"cluster":{"worker":{"2":"j-worker-2.n.svc:2222"},
         "ps":["p:1","q:1"]},"task":{"type":"worker","index":2}})",
     "worker-2 is 2 of j-worker-0.n.svc:2222,?,j-worker-2.n.svc:2222+ ps "
     "p:1,q:1"},
    {"Kubeflow, a ps of dynamic workers",
     R"({"cluster":{"worker":{},"ps":["q:1"]},"task":{"type":"ps","index":1}})",
     "ps-1 of ?+ ps ?,q:1+"},
    {"the same under its old key",
     R"({"sparseCluster":{"worker":{},"ps":["q:1"]},
         "task":{"type":"ps","index":1}})",
     "ps-1 of ?+ ps ?,q:1+"},
    {"a dynamic worker under the old key",
     R"({"sparseCluster":{"worker":{"1":"j-worker-1:1"},"ps":["p:1"]},
         "task":{"type":"worker","index":1}})",
     "worker-1 is 1 of j-worker-0:1,j-worker-1:1+ ps p:1"},
    {"Kubeflow, a dynamic evaluator",
     R"({"cluster":{"worker":{},"ps":[]},"task":{"type":"evaluator","index":0}})",
     "evaluator-0 of + ps "},
    {"objects that say all",
     R"({"cluster": {"worker": {"0": "a:1", "1": "b:1"},
                     "ps": {"1": "q:1", "0": "p:1"}},
         "task": {"type": "worker", "index": 1}})",
     "worker-1 is 1 of a:1,b:1 ps p:1,q:1"},
    {"an object beside a chief",
     R"({"cluster": {"chief": ["c:1"], "worker": {"3": "x:1"}, "ps": ["p:1"]},
         "task": {"type": "worker", "index": 3}})",
     "worker-3 is 4 of c:1,?,?,?,x:1+ ps p:1"},
    {"a ps that knows itself",
     R"({"cluster": {"worker": ["a:1"], "ps": {"2": "r:1"}},
         "task": {"type": "ps", "index": 2}})",
     "ps-2 of a:1 ps ?,?,r:1+"},
    {"Volcano",
     R"({"cluster":{"ps":["p:1"],"worker":["a:1"],"chief":null,
         "evaluator":["e:1"]},"task":{"type":"evaluator","index":0}})",
     "evaluator-0 of a:1 ps p:1 evaluator e:1"},
    {"SageMaker",
     R"({"cluster": {"master": ["algo-1:2222"], "worker": ["algo-2:2222"],
                     "ps": ["algo-1:2223", "algo-2:2223"]},
         "environment": "cloud", "task": {"type": "worker", "index": 0}})",
     "worker-0 is 1 of algo-1:2222,algo-2:2222 ps algo-1:2223,algo-2:2223"},
    {"several tasks on a host",
     R"({"cluster": {"worker": ["h:1", "h:2"], "ps": ["h:3", "h:4"]},
         "task": {"type": "ps", "index": 1}})",
     "ps-1 of h:1,h:2 ps h:3,h:4"},
    {"AI Platform",
     R"({"cluster": {"chief": ["cmle-training-chief-x-0:2222"],
                     "ps": ["cmle-training-ps-x-0:2222"]},
         "job": {"region": "x"}, "environment": "cloud",
         "task": {"type": "ps", "index": 0, "trial": "3", "cloud": "y"}})",
     "ps-0 of cmle-training-chief-x-0:2222 ps cmle-training-ps-x-0:2222"},
    {"an evaluator outside the cluster",
     R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]},
         "task": {"type": "evaluator", "index": 7}})",
     "evaluator-7 of a:1 ps p:1"},
    {"an evaluator with its own cluster",
     R"({"cluster": {"evaluator": ["e:1"]},
         "task": {"type": "evaluator", "index": 0}})",
     "evaluator-0 of  ps  evaluator e:1"},
    {"an evaluator without cluster",
     R"({"task": {"type": "evaluator", "index": 0}})", "evaluator-0 of  ps "},
    {"an evaluator without index",
     R"({"cluster": {"evaluator": ["e:1"]}, "task": {"type": "evaluator"}})",
     "evaluator-0 of  ps  evaluator e:1"},
    {"other jobs are kept by name",
     R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"],
                     "tensorboard": ["not an address"], "x": 5},
         "task": {"type": "ps", "index": 0}})",
     "ps-0 of a:1 ps p:1 other tensorboard,x"},
    {"a task of another job",
     R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"],
                     "tensorboard": ["t:6006"]},
         "task": {"type": "tensorboard", "index": 0}})",
     "tensorboard of a:1 ps p:1 other tensorboard"},
    {"Monolith's placeholders",
     R"({"cluster": {"chief": ["c:1"], "ps": ["p:1"],
                     "worker": ["0.0.0.0:1", "w:1", "0.0.0.0:1"]},
         "task": {"type": "worker", "index": 1}})",
     "worker-1 is 2 of c:1,0.0.0.0:1,w:1,0.0.0.0:1 ps p:1"},
    {"Clusterone's own address",
     R"({"cluster": {"worker": ["localhost:5000", "b:5000"], "ps": ["c:1"]},
         "task": {"type": "worker", "index": 0}})",
     "worker-0 is 0 of localhost:5000,b:5000 ps c:1"},
    {"an index as text",
     R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]},
         "task": {"index": " 1 ", "type": "worker"}})",
     "worker-1 is 1 of a:1,b:1 ps c:1"},
    {"an index as a whole fraction",
     R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]},
         "task": {"index": 1.0, "type": "worker"}})",
     "worker-1 is 1 of a:1,b:1 ps c:1"},
    {"a chief needs no index",
     R"({"cluster": {"chief": ["a:1"], "ps": ["c:1"]},
         "task": {"type": "chief"}})",
     "chief-0 is 0 of a:1 ps c:1"},
    {"white space and unknown keys",
     "\n\t {\"x\": [1], \"task\" : {\"type\":\"ps\",\"index\":0, \"y\": {}},\n"
     "\"job\": \"{}\", \"cluster\": {\"ps\": [\"p:1\"], \"worker\": "
     "[\"a:1\"]}}\r\n ",
     "ps-0 of a:1 ps p:1"},
    {"IPv6",
     R"({"cluster": {"worker": ["[::1]:5"], "ps": ["[::1]:6"]},
         "task": {"type": "ps", "index": 0}})",
     "ps-0 of [::1]:5 ps [::1]:6"},
};

TEST(ClusterSpecTest, EveryFormHasItsReading) {
  for (const Form& form : kForms) {
    const absl::StatusOr<ClusterSpec> spec = ParseTfConfig(form.value);
    ASSERT_TRUE(spec.ok()) << form.name << ": " << spec.status();
    EXPECT_EQ(Reading(*spec), form.reading) << form.name;
  }
}

TEST(ClusterSpecTest, UnsetMeansStandalone) {
  const absl::StatusOr<ClusterSpec> spec = ParseTfConfig(absl::nullopt);
  ASSERT_TRUE(spec.ok());
  EXPECT_TRUE(spec->standalone);
  EXPECT_TRUE(spec->is_chief());
  EXPECT_EQ(spec->worker_index(), 0);
  EXPECT_EQ(spec->self_address(), "");
  EXPECT_EQ(spec->chief_address(), "");
  EXPECT_THAT(spec->notes, ElementsAre(HasSubstr("TF_CONFIG is not set")));
}

TEST(ClusterSpecTest, AddressesFollowTheRole) {
  const auto parse = [](absl::string_view type, int index) {
    return *ParseTfConfig(absl::StrCat(
        R"({"cluster": {"worker": ["a:1", "b:1"], "chief": ["c:1"],)",
        R"("ps": ["d:1"]}, "task": {"type": ")", type, "\", \"index\": ", index,
        "}, \"environment\": \"cloud\"}"));
  };
  EXPECT_EQ(parse("chief", 0).self_address(), "c:1");
  EXPECT_EQ(parse("worker", 1).self_address(), "b:1");
  EXPECT_EQ(parse("ps", 0).self_address(), "d:1");
  EXPECT_EQ(parse("evaluator", 0).self_address(), "");
  EXPECT_EQ(parse("ps", 0).chief_address(), "c:1");
  EXPECT_TRUE(parse("ps", 0).is_ps());
  EXPECT_FALSE(parse("evaluator", 0).is_chief());
}

TEST(ClusterSpecTest, EachWorkerHasAsManyStages) {
  const auto spec = ParseTfConfig(
      R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["p:1"],
                      "stage": ["s:1", "t:1", "u:1", "v:1"]},
          "task": {"type": "stage", "index": 2}})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->is_stage());
  EXPECT_EQ(spec->worker_index(), -1);
  EXPECT_EQ(spec->self_address(), "u:1");
  EXPECT_EQ(spec->nothing_to_do(), "");
  EXPECT_EQ(spec->stages_of_a_worker(), 2u);
  EXPECT_THAT(spec->other_jobs, ::testing::IsEmpty());
  const auto again = ParseTfConfig(ToTfConfig(*spec, spec->self));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->stages, spec->stages);
}

TEST(ClusterSpecTest, AnotherJobsTaskHasNothingToDo) {
  const auto spec = ParseTfConfig(
      R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"], "board": ["t:1"]},
          "task": {"type": "board", "index": 0}})");
  EXPECT_EQ(spec->nothing_to_do(),
            "a task of type 'board' takes no part in training: nothing to do");
  EXPECT_EQ(spec->worker_index(), -1);
  EXPECT_EQ(ParseTfConfig(SpecWithTask(R"({"type": "ps", "index": 0})"))
                ->nothing_to_do(),
            "");
}

TEST(ClusterSpecTest, VertexAisClusterSpecIsReadWithoutTfConfig) {
  ClusterSources sources;
  sources.environment = {{"CLUSTER_SPEC", R"({"cluster": {
      "workerpool0": ["a:1"], "workerpool1": ["b:1"], "workerpool2": ["p:1"]},
      "task": {"type": "workerpool1", "index": 0}, "environment": "cloud"})"}};
  absl::StatusOr<ClusterSpec> spec = ReadCluster(sources);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(Reading(*spec), "worker-0 is 1 of a:1,b:1 ps p:1");
  EXPECT_EQ(spec->cluster_from, "CLUSTER_SPEC");
  sources.environment = {{"CLUSTER_SPEC", R"({"cluster": {"worker_pools": [
      {"index": 0, "replicas": ["a:1"]}, {"index": 2, "replicas": ["p:1"]}]},
      "task": {"worker_pool_index": 2, "replica_index": 0, "trial": "T"}})"}};
  spec = ReadCluster(sources);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(Reading(*spec), "ps-0 of a:1 ps p:1");
  sources.environment = {{"CLUSTER_SPEC", R"({"cluster": {
      "workerpool0": ["a:1"], "workerpool1": ["b:1"]},
      "task": {"type": "workerpool2", "index": 0}})"}};
  EXPECT_THAT(std::string(ReadCluster(sources).status().message()),
              AllOf(HasSubstr("CLUSTER_SPEC:1: cluster: has no 'ps' tasks"),
                    HasSubstr("only: workerpool0, workerpool1")));
}

TEST(ClusterSpecTest, RoleByFlagsOverAnothersTfConfig) {
  ClusterSources sources;
  sources.environment = {{"TF_CONFIG", R"({"cluster": {
      "master": ["algo-1:2222"], "worker": ["algo-2:2222"],
      "ps": ["algo-1:2223", "algo-2:2223"]}, "environment": "cloud",
      "task": {"type": "master", "index": 0}})"}};
  sources.task_type = "ps";
  sources.task_index = "1";
  const absl::StatusOr<ClusterSpec> spec = ReadCluster(sources);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(Reading(*spec),
            "ps-1 of algo-1:2222,algo-2:2222 ps algo-1:2223,algo-2:2223");
  EXPECT_EQ(spec->cluster_from, "TF_CONFIG");
  EXPECT_EQ(spec->type_from, "--task_type");
  EXPECT_EQ(spec->index_from, "--task_index");
  EXPECT_THAT(spec->notes, IsEmpty());
}

TEST(ClusterSpecTest, EverythingByFlags) {
  ClusterSources sources;
  sources.cluster = "ps=ps-{0..1}.train:7077 worker=w-{0..2}:7077";
  sources.task_type = "worker";
  sources.task_index = "2";
  EXPECT_EQ(Reading(*ReadCluster(sources)),
            "worker-2 is 2 of w-0:7077,w-1:7077,w-2:7077 ps "
            "ps-0.train:7077,ps-1.train:7077");
}

TEST(ClusterSpecTest, FlagsWithoutATaskOrWithoutAClusterAreNamed) {
  ClusterSources sources;
  const auto message = [&] {
    return std::string(ReadCluster(sources).status().message());
  };
  sources.cluster = "ps=p:1 worker=w-{0..1}:1";
  EXPECT_EQ(message(),
            "--task_type: is missing; say which task of the cluster this "
            "process is: one of chief, worker, ps, evaluator, stage; "
            "--task_index says which of them");
  sources.task_type = "worker";
  EXPECT_THAT(message(), HasSubstr("--task_index: is missing; give the "
                                   "position of this process in its list"));
  sources.task_index = "2";
  EXPECT_EQ(message(),
            "--task_index: is 2, but 'worker' has 2 tasks, numbered from 0");
  sources.cluster.reset();
  EXPECT_EQ(message(),
            "--task_type: names a task, but there is no cluster that it could "
            "belong to; give --cluster or TF_CONFIG");
}

TEST(ClusterSpecTest, AnEvaluatorByFlagsNeedsNoCluster) {
  ClusterSources sources;
  sources.task_type = "evaluator";
  absl::StatusOr<ClusterSpec> spec = ReadCluster(sources);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(Reading(*spec), "evaluator-0 of  ps ");
  EXPECT_EQ(spec->type_from, "--task_type");
  sources.task_index = "1";
  EXPECT_EQ(Reading(*ReadCluster(sources)), "evaluator-1 of  ps ");
}

TEST(ClusterSpecTest, AnIndexFromAroundIsNoted) {
  ClusterSources sources;
  sources.environment = {{"TF_CONFIG", SpecWithTask(R"({"type": "worker"})")}};
  sources.host_name = "train-worker-1.train";
  absl::StatusOr<ClusterSpec> spec = ReadCluster(sources);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->self.index, 1);
  EXPECT_EQ(spec->index_from, "host name \"train-worker-1.train\"");
  EXPECT_THAT(spec->notes,
              ElementsAre("the index of this task, 1, is from: host name "
                          "\"train-worker-1.train\""));
  sources.environment.push_back({"JOB_COMPLETION_INDEX", "0"});
  EXPECT_EQ(ReadCluster(sources)->self.index, 0);
  EXPECT_EQ(ReadCluster(sources)->index_from, "JOB_COMPLETION_INDEX");
  sources.environment.back().second = "5";
  EXPECT_EQ(ReadCluster(sources).status().message(),
            "JOB_COMPLETION_INDEX: is 5, but 'cluster.worker' has 2 tasks, "
            "numbered from 0");
  sources.environment.pop_back();
  sources.host_name = "pod-7";
  EXPECT_EQ(ReadCluster(sources).status().message(),
            "host name \"pod-7\": ends in 7, but 'cluster.worker' has 2 tasks, "
            "numbered from 0");
}

TEST(ClusterSpecTest, WhatWasConcludedIsNoted) {
  const auto notes = [](absl::string_view value) {
    return absl::StrJoin(ParseTfConfig(value)->notes, "\n");
  };
  EXPECT_EQ(notes(SpecWithTask(R"({"type": "ps", "index": 0})")), "");
  EXPECT_THAT(notes(R"({"cluster":{"worker":{"1":"j-worker-1:1"},"ps":["p:1"]},
                        "task":{"type":"worker","index":1}})"),
              HasSubstr("by its own address that is j-worker-0:1"));
  EXPECT_THAT(notes(R"({"cluster":{"worker":{},"ps":["p:1"]},
                        "task":{"type":"ps","index":3}})"),
              HasSubstr("it is ps 3 at p:1"));
  EXPECT_THAT(notes(R"({"cluster": {"master": ["a:1", "b:1"], "ps": ["p:1"]},
                        "task": {"type": "master", "index": 0}})"),
              HasSubstr("of 2 tasks 'master' the first is the chief"));
  EXPECT_THAT(notes(SpecWithCluster(R"({"worker": ["a:1"]})")),
              HasSubstr("TF_CONFIG has one worker and no ps"));
  EXPECT_THAT(notes("{}"), HasSubstr("TF_CONFIG describes no cluster"));
}

TEST(ClusterSpecTest, TheStrategyThatNeedsServersIsNamed) {
  ClusterSources sources;
  sources.environment = {{"TF_CONFIG", SpecWithCluster(R"({"worker": ["a:1",
                                                       "b:1"]})")}};
  sources.strategy = "sync";
  EXPECT_THAT(
      std::string(ReadCluster(sources).status().message()),
      HasSubstr("the strategy 'sync' trains through parameter servers"));
}

TEST(ClusterSpecTest, WhatIsWrittenIsReadBack) {
  ClusterSpec cluster;
  cluster.standalone = false;
  cluster.ps = {"p:1", "p:2"};
  cluster.workers = {"a:1", "b:1", "c:1"};
  const auto check = [&cluster] {
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
  };
  check();
  cluster.chief_job = "master";
  cluster.chief_tasks = 2;
  check();
  cluster.chief_job = "chief";
  cluster.chief_tasks = 1;
  check();
  cluster.chief_as_worker = 1;
  check();
  EXPECT_EQ(ToTfConfig(cluster, {TaskType::kPs, 1}),
            R"({"cluster":{"chief":["a:1"],"worker":["b:1","a:1","c:1"],)"
            R"("ps":["p:1","p:2"]},"task":{"type":"ps","index":1}})");
}

}  // namespace
}  // namespace paramd
