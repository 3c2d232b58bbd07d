#include "config/cluster_sources.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kWorker1[] =
    R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]},
        "task": {"type": "worker", "index": 1}})";

class ClusterSourcesTest : public ::testing::Test {
 protected:
  GatheredCluster Gather() { return GatherCluster(sources_, &mistakes_); }
  std::string Message() { return std::string(mistakes_.ToStatus().message()); }

  ClusterSources sources_;
  Mistakes mistakes_;
};

TEST_F(ClusterSourcesTest, WithoutSourcesNothingIsSaid) {
  const GatheredCluster gathered = Gather();
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(gathered.variable, "");
  EXPECT_FALSE(gathered.cluster.has_cluster);
  EXPECT_EQ(gathered.type, absl::nullopt);
  EXPECT_EQ(gathered.index, absl::nullopt);
}

TEST_F(ClusterSourcesTest, AFlagBeatsItsVariableBeatsTfConfig) {
  sources_.environment = {{"TF_CONFIG", kWorker1}};
  EXPECT_EQ(Gather().index->value, 1);
  EXPECT_EQ(Gather().index->place.source, "TF_CONFIG");
  sources_.environment.push_back({"PARAMD_TASK_INDEX", "2"});
  EXPECT_EQ(Gather().index->value, 2);
  EXPECT_EQ(Gather().index->place.source, "PARAMD_TASK_INDEX");
  sources_.task_index = "3";
  EXPECT_EQ(Gather().index->value, 3);
  EXPECT_EQ(Gather().index->place.source, "--task_index");
  sources_.task_type = "ps";
  EXPECT_EQ(Gather().type->value, "ps");
  EXPECT_EQ(Gather().cluster.source, "TF_CONFIG");
  sources_.cluster = "ps=x:1";
  EXPECT_EQ(Gather().cluster.source, "--cluster");
  EXPECT_EQ(Message(), "");
}

TEST_F(ClusterSourcesTest, TfConfigBeatsClusterSpec) {
  sources_.environment = {{"CLUSTER_SPEC", kWorker1}};
  EXPECT_EQ(Gather().variable, "CLUSTER_SPEC");
  sources_.environment.push_back({"TF_CONFIG", kWorker1});
  EXPECT_EQ(Gather().variable, "TF_CONFIG");
}

TEST_F(ClusterSourcesTest, VariablesThatFlagsReplaceAreNotRead) {
  sources_.environment = {{"TF_CONFIG", "{broken"}};
  sources_.cluster = "ps=x:1 worker=y:1";
  sources_.task_type = "ps";
  sources_.task_index = "0";
  EXPECT_EQ(Gather().variable, "");
  EXPECT_EQ(Message(), "");
}

TEST_F(ClusterSourcesTest, AnotherTypesIndexIsNotTaken) {
  sources_.environment = {{"TF_CONFIG", kWorker1}};
  sources_.task_type = "ps";
  Gather();
  EXPECT_EQ(Message(),
            "--task_index: is missing; --task_type says 'ps', but the index in "
            "TF_CONFIG is that of a 'worker'");
}

TEST_F(ClusterSourcesTest, TheSameTypesIndexIsTaken) {
  sources_.environment = {{"TF_CONFIG", kWorker1}};
  sources_.task_type = "worker";
  EXPECT_EQ(Gather().index->value, 1);
  sources_.environment = {{"TF_CONFIG", R"({"task": {"index": 4}})"}};
  sources_.cluster = "worker=a{0..4}:1 ps=c:1";
  EXPECT_EQ(Gather().index->value, 4);
  EXPECT_EQ(Message(), "");
}

TEST_F(ClusterSourcesTest, AnIndexByFlagIsANumber) {
  sources_.task_index = "$(INDEX)";
  Gather();
  EXPECT_THAT(Message(), HasSubstr("--task_index: the variable reference "
                                   "`$(INDEX)` was not expanded"));
  for (const char* text : {"-1", "x", "", "1.5", "65536", "99999999999"}) {
    mistakes_ = Mistakes();
    sources_.task_index = text;
    Gather();
    EXPECT_THAT(Message(), HasSubstr("--task_index: wants a whole number from "
                                     "0 to 65535, found"))
        << text;
  }
}

TEST_F(ClusterSourcesTest, TheIndexAroundHasAnOrder) {
  sources_.host_name = "train-ps-7.train";
  const auto around = [&] { return FindIndexAround(sources_, &mistakes_); };
  EXPECT_EQ(around()->value, 7);
  EXPECT_EQ(around()->place.source, "host name \"train-ps-7.train\"");
  sources_.environment.push_back({"VC_TASK_INDEX", "6"});
  EXPECT_EQ(around()->value, 6);
  EXPECT_EQ(around()->place.source, "VC_TASK_INDEX");
  sources_.environment.push_back({"JOB_COMPLETION_INDEX", "5"});
  EXPECT_EQ(around()->value, 5);
  EXPECT_EQ(around()->place.source, "JOB_COMPLETION_INDEX");
  EXPECT_EQ(Message(), "");
  sources_.environment = {{"VC_TASK_INDEX", "six"}};
  EXPECT_EQ(around(), absl::nullopt);
  EXPECT_THAT(Message(), HasSubstr("VC_TASK_INDEX: wants a whole number"));
}

TEST_F(ClusterSourcesTest, AHostWithoutAnOrdinalTellsNothing) {
  sources_.host_name = "laptop";
  EXPECT_EQ(FindIndexAround(sources_, &mistakes_), absl::nullopt);
  EXPECT_EQ(Message(), "");
}

class TaskFromHostnameTest : public ClusterSourcesTest {
 protected:
  TaskFromHostnameTest() {
    sources_.cluster =
        "chief=train-chief-0.train:7077;ps=train-ps-{0..3}.train:7077;"
        "worker=train-worker-{0..1}.train:7077";
    sources_.task_from_hostname = true;
  }
  // "ps 2", or what is wrong, of the host of that name.
  std::string TaskOf(const std::string& host_name) {
    mistakes_ = Mistakes();
    sources_.host_name = host_name;
    const GatheredCluster gathered = Gather();
    if (!mistakes_.empty()) return Message();
    return absl::StrCat(gathered.type->value, " ", gathered.index->value);
  }
};

TEST_F(TaskFromHostnameTest, TheHostsFirstLabelSaysTypeAndIndex) {
  EXPECT_EQ(TaskOf("train-ps-2"), "ps 2");
  EXPECT_EQ(TaskOf("train-worker-1.train.default.svc.cluster.local"),
            "worker 1");
  EXPECT_EQ(TaskOf("train-chief-0"), "chief 0");
  EXPECT_EQ(Gather().type->place.source,
            "--task_from_hostname: host name \"train-chief-0\"");
}

TEST_F(TaskFromHostnameTest, AVariableStandsForTheFlag) {
  sources_.task_from_hostname = false;
  sources_.environment = {{"PARAMD_TASK_FROM_HOSTNAME", "true"}};
  EXPECT_EQ(TaskOf("train-ps-2"), "ps 2");
  sources_.environment = {{"PARAMD_TASK_FROM_HOSTNAME", "yes"}};
  EXPECT_EQ(TaskOf("train-ps-2"),
            "PARAMD_TASK_FROM_HOSTNAME: wants true or false, found \"yes\"");
  sources_.environment = {{"PARAMD_TASK_FROM_HOSTNAME", "false"}};
  sources_.host_name = "train-ps-2";
  mistakes_ = Mistakes();
  EXPECT_EQ(Gather().type, absl::nullopt);
}

TEST_F(TaskFromHostnameTest, TheTaskInTfConfigIsNotRead) {
  sources_.environment = {{"TF_CONFIG", kWorker1}};
  sources_.cluster = absl::nullopt;
  EXPECT_EQ(TaskOf("c"), "ps 0");
}

TEST_F(TaskFromHostnameTest, AHostWithoutAnIndexIsNamed) {
  EXPECT_EQ(TaskOf("laptop"),
            "--task_from_hostname: host name \"laptop\": ends in no index and "
            "is that of no task of the cluster; its hosts are called as in "
            "\"train-chief-0.train:7077\"");
}

TEST_F(TaskFromHostnameTest, AnIndexOutOfRangeIsNamed) {
  EXPECT_EQ(TaskOf("train-ps-4"),
            "--task_from_hostname: host name \"train-ps-4\": ends in 4, but "
            "'ps' has 4 tasks, and none of them there");
}

TEST_F(TaskFromHostnameTest, AHostOfAnotherClusterIsNamed) {
  EXPECT_EQ(TaskOf("other-ps-1"),
            "--task_from_hostname: host name \"other-ps-1\": is that of no "
            "task of the cluster; its hosts are called as in "
            "\"train-chief-0.train:7077\"");
}

TEST_F(TaskFromHostnameTest, OfAHostWithSeveralTasksNoneIsTaken) {
  sources_.cluster = "ps=a:1;worker=a:2";
  EXPECT_EQ(TaskOf("a"),
            "--task_from_hostname: host name \"a\": is that of several tasks, "
            "at a:1 and a:2; give --task_type and --task_index instead");
}

TEST_F(TaskFromHostnameTest, AChiefThatIsListedAgainIsTheChief) {
  sources_.cluster = "worker=a:1,b:1;chief=a:1;ps=c:1";
  EXPECT_EQ(TaskOf("a"), "chief 0");
}

TEST_F(TaskFromHostnameTest, AnotherFlagForTheTaskIsAMistake) {
  sources_.task_index = "1";
  EXPECT_EQ(TaskOf("train-ps-2"),
            "--task_from_hostname: conflicts with --task_index; both say which "
            "task this is: give one");
}

}  // namespace
}  // namespace paramd
