// A worker that is told what has changed since the configuration that it has.
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JoinedWorker;
using testing::Pair;
using testing::WorkerOptions;

class WorkerConfigurationTest : public ::testing::Test {
 protected:
  WorkerConfigurationTest() : joined_(WorkerOptions()) { joined_.Join(); }
  CoreDriver& driver() { return joined_.driver(); }

  JoinedWorker joined_;
};

TEST_F(WorkerConfigurationTest, Promise1_ANewLifeOfAServerIsHeardOfAsAChange) {
  joined_.GivePortion(1, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
  ASSERT_TRUE(joined_.TakePush().has_value());
  EXPECT_TRUE(joined_.TakeBeat().takes_changes());
  v1::HeartbeatReply news;
  v1::Configuration* const told = news.mutable_configuration();
  *told->mutable_version() = Pair(1, 2);
  *told->mutable_changes_since() = Pair(1, 1);
  *told->add_servers() =
      testing::MakeConfiguration({{"a", {2}, 0}}, 1).servers(0);
  *told->mutable_servers(0)->mutable_generation() = Pair(1, 9);
  joined_.AnswerBeat(news);
  driver().Advance(absl::ZeroDuration());
  const auto again = joined_.TakePush();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(joined_.PushOf(*again).header().server_generation(), Pair(1, 9));
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_EQ(beat.header().configuration(), Pair(1, 2));
  EXPECT_TRUE(beat.takes_changes());
}

TEST_F(WorkerConfigurationTest, ChangesOfWhatItDoesNotHaveAreAskedForAsAWhole) {
  v1::HeartbeatReply news;
  v1::Configuration* const told = news.mutable_configuration();
  *told->mutable_version() = Pair(1, 5);
  *told->mutable_changes_since() = Pair(1, 4);
  joined_.AnswerBeat(news);
  v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_FALSE(driver().exited) << driver().exit_status;
  EXPECT_EQ(beat.header().configuration(), Pair(1, 1));
  EXPECT_FALSE(beat.takes_changes());
  *told = testing::MakeConfiguration({{"a", {2}, 0}}, 1);
  *told->mutable_version() = Pair(1, 5);
  joined_.AnswerBeat(news);
  beat = joined_.TakeBeat();
  EXPECT_EQ(beat.header().configuration(), Pair(1, 5));
  EXPECT_TRUE(beat.takes_changes());
}

}  // namespace
}  // namespace paramd
