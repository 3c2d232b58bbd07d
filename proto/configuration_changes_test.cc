#include "proto/configuration_changes.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::Pair;

v1::WorkerMember Session(uint32_t index, uint64_t generation) {
  v1::WorkerMember session;
  session.set_index(index);
  *session.mutable_generation() = Pair(1, generation);
  return session;
}

// Version 1.5: 2 servers, workers 1, 4 and 6.
v1::Configuration Known() {
  v1::Configuration known;
  *known.mutable_version() = Pair(1, 5);
  known.set_run_id("run");
  known.set_job_digest("digest");
  for (uint32_t s = 0; s < 2; ++s) {
    known.add_servers()->set_index(s);
    known.mutable_servers(s)->set_incarnation(100 + s);
  }
  for (const uint32_t w : {1, 4, 6}) *known.add_workers() = Session(w, 10 + w);
  known.mutable_layout()->add_slices()->set_row_end(8);
  known.set_state(v1::RUNNING);
  known.set_learning_rate_scale(0.5);
  return known;
}

// Version 1.7 as changes since 1.5.
v1::Configuration Changes() {
  v1::Configuration told;
  *told.mutable_version() = Pair(1, 7);
  *told.mutable_changes_since() = Pair(1, 5);
  told.set_run_id("run");
  told.set_job_digest("digest");
  return told;
}

std::string Name(const v1::Configuration& configuration) {
  return configuration.ShortDebugString();
}

TEST(ExpandTest, AWholeConfigurationIsTakenAsItIs) {
  EXPECT_EQ(Name(*Expand(v1::Configuration(), Known())), Name(Known()));
}

TEST(ExpandTest, WhatHasNotChangedIsAsItWas) {
  v1::Configuration expected = Known();
  *expected.mutable_version() = Pair(1, 7);
  EXPECT_EQ(Name(*Expand(Known(), Changes())), Name(expected));
}

TEST(ExpandTest, MembersAreReplacedAddedAndTakenAway) {
  v1::Configuration told = Changes();
  told.add_servers()->set_index(1);
  told.mutable_servers(0)->set_incarnation(777);
  *told.add_workers() = Session(0, 20);
  *told.add_workers() = Session(4, 21);
  *told.add_workers() = Session(9, 22);
  told.add_workers_left(1);
  v1::Configuration expected = Known();
  *expected.mutable_version() = Pair(1, 7);
  expected.mutable_servers(1)->set_incarnation(777);
  expected.clear_workers();
  *expected.add_workers() = Session(0, 20);
  *expected.add_workers() = Session(4, 21);
  *expected.add_workers() = Session(6, 16);
  *expected.add_workers() = Session(9, 22);
  EXPECT_EQ(Name(*Expand(Known(), told)), Name(expected));
}

TEST(ExpandTest, AFieldThatHasChangedMayBeUnset) {
  v1::Configuration told = Changes();
  told.set_state(v1::FINISHING);
  for (const int field : {v1::Configuration::kStateFieldNumber,
                          v1::Configuration::kLearningRateScaleFieldNumber,
                          v1::Configuration::kStateFieldNumber}) {
    told.add_changed(field);
  }
  v1::Configuration expected = Known();
  *expected.mutable_version() = Pair(1, 7);
  expected.set_state(v1::FINISHING);
  expected.clear_learning_rate_scale();
  EXPECT_EQ(Name(*Expand(Known(), told)), Name(expected));
}

TEST(ExpandTest, ChangesMayBeginBeforeWhatIsKnown) {
  v1::Configuration later = Known();
  *later.mutable_version() = Pair(1, 6);
  later.mutable_workers()->DeleteSubrange(0, 1);
  v1::Configuration told = Changes();
  told.add_workers_left(1);
  v1::Configuration expected = later;
  *expected.mutable_version() = Pair(1, 7);
  EXPECT_EQ(Name(*Expand(later, told)), Name(expected));
}

TEST(ExpandTest, ChangesOfWhatIsNotKnownAreRefused) {
  const auto refused = [](const v1::Configuration& known,
                          const v1::Configuration& told) {
    const absl::Status status = Expand(known, told).status();
    EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
    return std::string(status.message());
  };
  v1::Configuration known = Known();
  *known.mutable_version() = Pair(1, 4);
  EXPECT_EQ(refused(known, Changes()),
            "configuration 1.7 is told as changes since 1.5; known is 1.4");
  *known.mutable_version() = Pair(1, 8);
  EXPECT_EQ(refused(known, Changes()),
            "configuration 1.7 is told as changes since 1.5; known is 1.8");
  EXPECT_EQ(refused(v1::Configuration(), Changes()),
            "configuration 1.7 is told as changes since 1.5; known is none");
  v1::Configuration told = Changes();
  *told.mutable_version() = Pair(2, 7);
  EXPECT_EQ(refused(Known(), told),
            "configuration 2.7 is told as changes since 1.5; known is 1.5");
}

TEST(ExpandTest, ChangesThatMakeNoSenseAreRefused) {
  v1::Configuration told = Changes();
  told.add_servers()->set_index(2);
  EXPECT_EQ(Expand(Known(), told).status().message(),
            "ps-2 has changed; there are 2 servers");
  told = Changes();
  told.add_changed(v1::Configuration::kWorkersFieldNumber);
  EXPECT_EQ(Expand(Known(), told).status().message(),
            "field 5 of a configuration has changed, which is not known here");
  told = Changes();
  told.add_changed(9999);
  EXPECT_FALSE(Expand(Known(), told).ok());
  told = Changes();
  *told.add_workers() = Session(6, 20);
  *told.add_workers() = Session(4, 21);
  EXPECT_EQ(Expand(Known(), told).status().message(),
            "the workers that have changed are out of order");
}

TEST(AgreesWithTest, OnlyWhatIsSoIsAgreedWith) {
  v1::Configuration told = Changes();
  *told.mutable_version() = Pair(1, 5);
  *told.add_servers() = Known().servers(1);
  EXPECT_TRUE(AgreesWith(Known(), told));
  *told.add_workers() = Known().workers(1);
  told.add_workers_left(3);
  EXPECT_TRUE(AgreesWith(Known(), told));
  told.add_workers_left(6);
  EXPECT_FALSE(AgreesWith(Known(), told));
  told.clear_workers_left();
  told.mutable_servers(0)->set_incarnation(777);
  EXPECT_FALSE(AgreesWith(Known(), told));
  told.clear_workers();
  EXPECT_FALSE(AgreesWith(Known(), told));
  told.mutable_servers(0)->set_index(1u << 31);
  EXPECT_FALSE(AgreesWith(Known(), told));
}

}  // namespace
}  // namespace paramd
