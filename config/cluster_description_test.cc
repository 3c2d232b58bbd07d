#include "config/cluster_description.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

ListedJob Job(const std::string& name,
              const std::map<int, std::string>& tasks) {
  ListedJob job;
  job.name = job.written = name;
  job.path = "cluster." + name;
  job.tasks = tasks;
  return job;
}

TEST(ClusterDescriptionTest, AJobWithoutTasksIsNotFound) {
  ClusterDescription cluster;
  cluster.jobs = {Job("ps", {}), Job("worker", {{3, "a:1"}})};
  EXPECT_EQ(cluster.Find("ps"), nullptr);
  EXPECT_EQ(cluster.Find("chief"), nullptr);
  ASSERT_NE(cluster.Find("worker"), nullptr);
  EXPECT_EQ(cluster.Find("worker")->PathOf(3), "cluster.worker[3]");
  EXPECT_EQ(cluster.JobNames(), "worker");
  EXPECT_TRUE(cluster.has_tasks());
}

TEST(ClusterDescriptionTest, EmptyListsAreNobody) {
  ClusterDescription cluster;
  EXPECT_FALSE(cluster.has_tasks());
  cluster.jobs = {Job("ps", {}), Job("worker", {})};
  EXPECT_FALSE(cluster.has_tasks());
  EXPECT_EQ(cluster.JobNames(), "");
}

}  // namespace
}  // namespace paramd
