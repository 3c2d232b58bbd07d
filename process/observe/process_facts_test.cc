#include "process/observe/process_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace paramd {
namespace {

ClusterSpec ClusterOf(TaskId self) {
  ClusterSpec cluster;
  cluster.standalone = false;
  cluster.ps = {"p0:1", "p1:1"};
  cluster.workers = {"w0:1", ""};
  cluster.self = self;
  return cluster;
}

TEST(ProcessFactsTest, AProcessSaysWhereItAndItsChiefAre) {
  const ProcessFacts facts(ClusterOf({TaskType::kPs, 1}), /*shards=*/1,
                           /*places=*/1, "0.1 abc");
  v1::StatusReply status;
  facts.Fill(&status);
  EXPECT_EQ(status.build(), "0.1 abc");
  EXPECT_EQ(status.pid(), static_cast<uint32_t>(getpid()));
  EXPECT_EQ(status.address(), "p1:1");
  while (status.processor_ms() == 0) facts.Fill(&status);  // It computes.
  EXPECT_EQ(status.chief_address(), "w0:1");
  EXPECT_FALSE(status.has_job());
}

TEST(ProcessFactsTest, AProcessSaysWhichTaskItIs) {
  const auto task_of = [](const ClusterSpec& cluster) {
    v1::StatusReply status;
    ProcessFacts(cluster, /*shards=*/1,
                 /*places=*/1, "")
        .Fill(&status);
    return status.task();
  };
  EXPECT_EQ(task_of(ClusterOf({TaskType::kPs, 1})).type(), v1::PS);
  EXPECT_EQ(task_of(ClusterOf({TaskType::kWorker, 1})).index(), 1u);
  const v1::Task evaluator = task_of(ClusterOf({TaskType::kEvaluator, 2}));
  EXPECT_EQ(evaluator.type(), v1::EVALUATOR);
  EXPECT_EQ(evaluator.index(), 2u);
  ClusterSpec alone;
  EXPECT_EQ(task_of(alone).type(), v1::WORKER);
  EXPECT_EQ(task_of(alone).index(), 0u);
}

TEST(ProcessFactsTest, AWorkerThatNoListNamesIsWhereItSaidWhenItJoined) {
  const ProcessFacts facts(ClusterOf({TaskType::kWorker, 0}), /*shards=*/1,
                           /*places=*/1, "");
  v1::StatusReply status;
  v1::Member* const member = status.mutable_job()->add_members();
  member->mutable_task()->set_type(v1::WORKER);
  member->mutable_task()->set_index(2);
  member->set_joined(true);
  member->set_address("10.0.0.9:7077");
  facts.Fill(&status);
  EXPECT_EQ(status.job().members(0).address(), "10.0.0.9:7077");
}

TEST(ProcessFactsTest, TheChiefSaysWhereEveryMemberIsThatItIsToldOf) {
  const ProcessFacts facts(ClusterOf({TaskType::kWorker, 0}), /*shards=*/1,
                           /*places=*/1, "");
  v1::StatusReply status;
  for (const auto& [type, index] :
       {std::pair(v1::PS, 1), std::pair(v1::WORKER, 0),
        std::pair(v1::WORKER, 1), std::pair(v1::WORKER, 9)}) {
    v1::Member* member = status.mutable_job()->add_members();
    member->mutable_task()->set_type(type);
    member->mutable_task()->set_index(index);
  }
  facts.Fill(&status);
  EXPECT_EQ(status.job().members(0).address(), "p1:1");
  EXPECT_EQ(status.job().members(1).address(), "w0:1");
  EXPECT_EQ(status.job().members(2).address(), "");
  EXPECT_EQ(status.job().members(3).address(), "");
}

TEST(ProcessFactsTest, ShardsAreWhereTheirTaskIs) {
  const ProcessFacts facts(ClusterOf({TaskType::kWorker, 0}), /*shards=*/2,
                           /*places=*/2, "");
  v1::StatusReply status;
  for (const uint32_t server : {0, 1, 2, 3}) {
    v1::Member* member = status.mutable_job()->add_members();
    member->mutable_task()->set_type(v1::PS);
    member->mutable_task()->set_index(server);
  }
  facts.Fill(&status);
  EXPECT_EQ(status.job().members(1).address(), "p0:1");
  EXPECT_EQ(status.job().members(2).address(), "p1:1");
}

TEST(ProcessFactsTest, AServerAndItsBackupAreWhereTheirPlacesAre) {
  const auto facts_of = [](uint32_t shards, v1::Member member) {
    v1::StatusReply status;
    *status.mutable_job()->add_members() = std::move(member);
    ProcessFacts(ClusterOf({TaskType::kWorker, 0}), shards, 2 * shards, "")
        .Fill(&status);
    return status.job().members(0);
  };
  v1::Member moved;
  moved.mutable_task()->set_type(v1::PS);
  moved.mutable_task()->set_index(0);
  moved.set_peer(3);
  EXPECT_EQ(facts_of(1, moved).address(), "p1:1");
  EXPECT_EQ(facts_of(1, moved).backup_address(), "");
  moved.set_backup_peer(0);
  EXPECT_EQ(facts_of(1, moved).backup_address(), "p0:1");
  // Two servers of a task have four places there.
  EXPECT_EQ(facts_of(2, moved).address(), "p0:1");
  moved.set_backup_peer(6);
  EXPECT_EQ(facts_of(2, moved).backup_address(), "p1:1");
  moved.set_peer(8);
  EXPECT_EQ(facts_of(2, moved).address(), "");
}

TEST(ProcessFactsTest, AJobThatWasStoppedIsNotBeingStoppedAnyMore) {
  v1::StatusReply last;
  v1::JobStats* const job = last.mutable_job();
  job->set_state(v1::RUNNING);
  job->set_stopping("is being stopped by an operator (uid 1000)");
  job->set_waiting_for("the servers to be heard");
  FillEnd(v1::Finished(), &last);
  EXPECT_EQ(job->state(), v1::RUNNING);
  v1::Finished end;
  end.set_stopped(true);
  end.set_reason("stopped by an operator (uid 1000) at step 7");
  FillEnd(end, &last);
  EXPECT_EQ(job->state(), v1::FINISHED);
  EXPECT_EQ(job->stopping(), "stopped by an operator (uid 1000) at step 7");
  EXPECT_EQ(job->waiting_for(), "");
  v1::StatusReply server;
  FillEnd(end, &server);
  EXPECT_FALSE(server.has_job());
}

}  // namespace
}  // namespace paramd
