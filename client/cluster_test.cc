#include "client/cluster.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/testing/scripted_process.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Configuration MakeConfiguration() {
  v1::Configuration configuration;
  configuration.mutable_version()->set_term(1);
  configuration.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
  v1::ServerMember& server = *configuration.add_servers();
  server.set_incarnation(7);
  server.mutable_generation()->set_term(1);
  v1::Layout& layout = *configuration.mutable_layout();
  v1::Variable& w = *layout.add_variables();
  w.set_name("w");
  w.add_shape(2);
  w.add_shape(1);
  v1::Variable& n = *layout.add_variables();
  n.set_name("n");
  n.set_untrained(true);
  v1::Variable& keyed = *layout.add_variables();
  keyed.set_name("keyed");
  keyed.add_shape(4);
  keyed.add_shape(2);
  keyed.set_sparse(true);
  keyed.set_keyed(true);
  constexpr uint64_t kRows[] = {2, 1, 4};
  for (uint32_t variable = 0; variable < 3; ++variable) {
    v1::Slice& slice = *layout.add_slices();
    slice.set_variable(variable);
    slice.set_row_end(kRows[variable]);
  }
  return configuration;
}

// One process that is the chief and the one server: "w" is {5, 6} in a 2 x 1,
// "n" one number that is not trained, 5, and "keyed" has its rows by key.
class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest()
      : process_([this](const ScriptedProcess::Call& call) {
          return Answer(call);
        }) {}

  Cluster Running() const { return Cluster({.address = process_.address()}); }

  absl::StatusOr<std::string> Answer(const ScriptedProcess::Call& call) const {
    if (call.method == "/paramd.v1.Control/Status") return Status();
    if (call.method == "/paramd.v1.Coordinator/GetConfiguration") {
      v1::GetConfigurationReply reply;
      *reply.mutable_configuration() = configuration_;
      return reply.SerializeAsString();
    }
    v1::PullRequest request;
    EXPECT_TRUE(request.ParseFromString(call.request));
    return Pull(request);
  }
  std::string Status() const {
    v1::StatusReply reply;
    reply.set_incarnation(7);
    v1::JobStats& job = *reply.mutable_job();
    job.set_name("tiny");
    job.set_state(v1::RUNNING);
    job.set_global_step(12);
    job.set_staleness("async");
    job.set_checkpoint_path("/run/ten");
    job.set_checkpoint_step(10);
    v1::Member& server = *job.add_members();
    server.mutable_task()->set_type(v1::PS);
    server.set_state(v1::Member::ALIVE);
    server.set_address(process_.address());
    return reply.SerializeAsString();
  }
  std::string Pull(const v1::PullRequest& request) const {
    v1::PullReply reply;
    *reply.mutable_server_generation() = configuration_.servers(0).generation();
    reply.set_incarnation(7);
    reply.set_encoding(v1::FP32);
    std::string payload;
    for (const v1::PullBlock& block : request.blocks()) {
      const v1::Slice& slice = configuration_.layout().slices(block.slice());
      v1::PulledBlock* const pulled = reply.add_blocks();
      pulled->set_slice(block.slice());
      pulled->set_elements(slice.row_end());
      pulled->mutable_version()->set_life(5);
      pulled->mutable_version()->set_counter(3 + slice.variable());
      for (uint64_t i = 0; i < slice.row_end(); ++i) {
        const float value = static_cast<float>(5 + i);
        payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
    reply.set_payload(payload);
    return reply.SerializeAsString();
  }

  const v1::Configuration configuration_ = MakeConfiguration();
  ScriptedProcess process_;
};

TEST_F(ClusterTest, VariablesHaveNamesAndShapes) {
  const auto variables = Running().Variables();
  ASSERT_TRUE(variables.ok()) << variables.message;
  ASSERT_EQ(variables.value.size(), 3u);
  EXPECT_EQ(variables.value[0].name, "w");
  EXPECT_THAT(variables.value[0].shape, ElementsAre(2, 1));
  EXPECT_TRUE(variables.value[0].trainable);
  EXPECT_TRUE(variables.value[1].shape.empty());
  EXPECT_FALSE(variables.value[1].trainable);
}

TEST_F(ClusterTest, WeightsComeInTheOrderInWhichTheyAreNamed) {
  const auto weights = Running().Pull({"n", "w"});
  ASSERT_TRUE(weights.ok()) << weights.message;
  ASSERT_EQ(weights.value.tensors.size(), 2u);
  EXPECT_EQ(weights.value.tensors[0].variable.name, "n");
  EXPECT_THAT(weights.value.tensors[0].values, ElementsAre(5));
  EXPECT_THAT(weights.value.tensors[1].values, ElementsAre(5, 6));
  EXPECT_EQ(weights.value.least_step, 3u);
  EXPECT_EQ(weights.value.most_step, 4u);
  EXPECT_EQ(Running().Pull().value.tensors.size(), 2u)
      << "no name: all but rows by key";
  EXPECT_EQ(Running().Pull({"keyed"}).code, Cluster::Code::kInvalidArgument);
}

TEST_F(ClusterTest, AVariableThatIsNotThereIsNamed) {
  const auto weights = Running().Pull({"w", "v"});
  EXPECT_EQ(weights.code, Cluster::Code::kNotFound);
  EXPECT_EQ(weights.message,
            "the running job has no variable 'v', but w, n, keyed");
  EXPECT_EQ(Running().Pull({"w", "w"}).code, Cluster::Code::kInvalidArgument);
}

TEST_F(ClusterTest, TheStatusIsTheChiefs) {
  const auto status = Running().GetStatus();
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(status.value.job, "tiny");
  EXPECT_EQ(status.value.state, "RUNNING");
  EXPECT_EQ(status.value.global_step, 12u);
  EXPECT_EQ(status.value.checkpoint_path, "/run/ten");
  ASSERT_EQ(status.value.members.size(), 1u);
  EXPECT_EQ(status.value.members[0].task, "ps-0");
  EXPECT_EQ(status.value.members[0].state, "ALIVE");
}

TEST_F(ClusterTest, WithoutAnOperatorsRightsNothingIsChanged) {
  const auto set = Running().Set("staleness", "8");
  EXPECT_EQ(set.code, Cluster::Code::kFailedPrecondition);
  EXPECT_THAT(set.message, HasSubstr("run_dir"));
  EXPECT_EQ(Running().Checkpoint().code, Cluster::Code::kFailedPrecondition);
  const Cluster away({.address = process_.address(), .run_dir = "/nowhere"});
  EXPECT_EQ(away.Checkpoint().code, Cluster::Code::kNotFound);
}

TEST_F(ClusterTest, CallsAtTheSameTimeHaveTheirOwnAnswers) {
  const Cluster cluster = Running();
  auto weights = cluster.PullAsync({"w"});
  auto other = cluster.PullAsync({"n"});
  auto status = cluster.GetStatusAsync();
  EXPECT_THAT(weights.get().value.tensors.at(0).values, ElementsAre(5, 6));
  EXPECT_THAT(other.get().value.tensors.at(0).values, ElementsAre(5));
  EXPECT_EQ(status.get().value.global_step, 12u);
}

TEST_F(ClusterTest, ADirectoryWithoutCertificatesIsRefused) {
  const Cluster cluster({.address = process_.address(), .tls_dir = "/nowhere"});
  EXPECT_FALSE(cluster.Pull().ok());
  EXPECT_THAT(cluster.GetStatus().message, HasSubstr("/nowhere"));
}

TEST(ClusterAddressTest, WhereNobodyListensIsSaidAtOnce) {
  const Cluster cluster({.address = "127.0.0.1:1"});
  const auto weights = cluster.Pull();
  EXPECT_EQ(weights.code, Cluster::Code::kUnavailable);
  EXPECT_THAT(weights.message, HasSubstr("can't be reached: refused"));
}

}  // namespace
}  // namespace paramd
