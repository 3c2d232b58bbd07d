#include "config/joining.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/cluster_agreement.h"
#include "config/strategy.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOfServer[] =
    R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]},
        "task": {"type": "ps", "index": 0}})";

class JoiningClusterTest : public ::testing::Test {
 protected:
  absl::StatusOr<ClusterSpec> Read() { return ReadCluster(sources_); }
  std::string Message() { return std::string(Read().status().message()); }

  ClusterSources sources_;
};

TEST_F(JoiningClusterTest, WithoutTheFlagsTheClusterIsReadAsEver) {
  const auto joining = ReadJoining(sources_);
  ASSERT_TRUE(joining.ok());
  EXPECT_FALSE(joining->has_value());
  EXPECT_TRUE(Read()->standalone);
}

TEST_F(JoiningClusterTest, ItKnowsTheChiefAndItselfAndNobodyElse) {
  sources_.join = "chief:7077";
  sources_.listen = "10.0.0.9:7077";
  const auto spec = Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->joins());
  EXPECT_FALSE(spec->standalone);
  EXPECT_FALSE(spec->is_chief());
  EXPECT_EQ(spec->chief_address(), "chief:7077");
  EXPECT_EQ(spec->self_address(), "10.0.0.9:7077");
  EXPECT_THAT(spec->ps, ElementsAre(""));
}

TEST_F(JoiningClusterTest, TheVariablesStandForTheFlags) {
  sources_.environment = {{"PARAMD_JOIN", "chief:7077"}};
  const auto spec = Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->chief_address(), "chief:7077");
  EXPECT_EQ(spec->self_address(), "");
  EXPECT_EQ(spec->cluster_from, "PARAMD_JOIN");
}

TEST_F(JoiningClusterTest, WhatTheChiefSaysIsTheRest) {
  sources_.join = "chief:7077";
  sources_.listen = "10.0.0.9:7077";
  ClusterSpec spec = *Read();
  spec.SetEnlisted(4, {"a:1", "b:1"});
  EXPECT_EQ(spec.worker_index(), 4);
  EXPECT_EQ(TaskName(spec.self), "worker-4");
  EXPECT_EQ(spec.self_address(), "10.0.0.9:7077");
  EXPECT_THAT(spec.workers,
              ElementsAre("chief:7077", "", "", "", "10.0.0.9:7077"));
  EXPECT_THAT(spec.ps, ElementsAre("a:1", "b:1"));
  // The chief may have another name for whoever is named by the list.
  EXPECT_THAT(EntriesToAgree(spec),
              ElementsAre("ps=2", "ps[0]=a:1", "ps[1]=b:1"));
}

TEST_F(JoiningClusterTest, WhatIsNoAddressIsRefused) {
  sources_.join = "chief";
  sources_.listen = "10.0.0.9:0";
  EXPECT_THAT(Message(), HasSubstr("--join: \"chief\" has no port"));
  EXPECT_THAT(Message(), HasSubstr("--listen: \"10.0.0.9:0\" has port 0"));
}

TEST_F(JoiningClusterTest, ListenIsOfOneThatJoins) {
  sources_.listen = "10.0.0.9:7077";
  EXPECT_EQ(Message(),
            "--listen: is where a worker that joins listens; give --join too, "
            "or leave it out");
}

TEST_F(JoiningClusterTest, WhoHasAPlaceInTheListDoesNotJoin) {
  sources_.join = "chief:7077";
  sources_.environment = {{"TF_CONFIG", kOfServer}};
  EXPECT_EQ(Message(),
            "--join: is for a process that the cluster does not name, but "
            "TF_CONFIG says that it is ps-0; leave one of them out");
  sources_.environment.clear();
  sources_.task_type = "worker";
  EXPECT_EQ(Message(),
            "--join: is for a process that the cluster does not name, but "
            "--task_type says that it is worker; leave one of them out");
}

TEST_F(JoiningClusterTest, AStrategyWithoutServersHasNothingToJoin) {
  sources_.join = "chief:7077";
  v1::JobConfig job;
  EXPECT_TRUE(CheckStrategyFits(job, *Read()).ok());
  job.set_strategy(v1::JobConfig::MULTI_WORKER_MIRRORED);
  EXPECT_EQ(CheckStrategyFits(job, *Read()).message(),
            "--join: strategy \"multi_worker_mirrored\" has no servers that "
            "one more worker could push to; leave --join out, or choose "
            "strategy \"parameter_server\"");
}

}  // namespace
}  // namespace paramd
