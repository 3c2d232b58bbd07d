#include "coordinator/core/mode_change.h"

#include <string>

#include "gtest/gtest.h"

#include "config/consistency.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::Pair;

using Stage = ModeChange::Stage;

ModeChange Change(const std::string& from, const std::string& to) {
  return ModeChange(/*call=*/7, *ParseStaleness(from), *ParseStaleness(to));
}

// Worker 2, which knows this configuration, is at push 5.
v1::HeartbeatRequest Cut(const v1::ConfigurationVersion& configuration) {
  v1::HeartbeatRequest heartbeat;
  heartbeat.mutable_header()->set_worker(2);
  *heartbeat.mutable_header()->mutable_configuration() = configuration;
  heartbeat.set_stop(true);
  heartbeat.mutable_cut()->set_sequence(5);
  heartbeat.mutable_cut()->set_acknowledged(true);
  return heartbeat;
}

TEST(ModeChangeTest, SessionsEndWithAChangeToAndFromSyncAlone) {
  EXPECT_TRUE(Change("async", "sync").ends_sessions());
  EXPECT_TRUE(Change("sync", "4").ends_sessions());
  EXPECT_FALSE(Change("4", "async").ends_sessions());
  EXPECT_EQ(Change("sync", "4").Name(), "from sync to 4");
}

TEST(ModeChangeTest, WorkersStopOnTheWayToSyncAlone) {
  ModeChange to = Change("async", "sync");
  EXPECT_FALSE(to.stops_workers());
  to.BeginStop(Pair(1, 4));
  EXPECT_TRUE(to.stops_workers());
  to.BeginLogging();
  EXPECT_TRUE(to.stops_workers());
  ModeChange from = Change("sync", "async");
  from.BeginLogging();
  EXPECT_FALSE(from.stops_workers());
}

TEST(ModeChangeTest, ACutIsOfThePresentStopAndOfAcknowledgedPushes) {
  ModeChange change = Change("async", "sync");
  change.Heard(Cut(Pair(1, 4)));
  EXPECT_FALSE(change.HasCut(2)) << "nobody was to stop yet";
  change.BeginStop(Pair(1, 4));
  change.Heard(Cut(Pair(1, 3)));
  EXPECT_FALSE(change.HasCut(2)) << "of an earlier stop";
  v1::HeartbeatRequest open = Cut(Pair(1, 4));
  open.mutable_cut()->set_acknowledged(false);
  change.Heard(open);
  EXPECT_FALSE(change.HasCut(2)) << "with a push open";
  v1::HeartbeatRequest going = Cut(Pair(1, 4));
  going.set_stop(false);
  change.Heard(going);
  EXPECT_FALSE(change.HasCut(2)) << "of one that goes on";
  change.Heard(Cut(Pair(1, 5)));
  ASSERT_TRUE(change.HasCut(2));
  EXPECT_EQ(change.cuts().at(2).sequence(), 5u);
}

}  // namespace
}  // namespace paramd
