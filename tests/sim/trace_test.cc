#include "tests/sim/trace.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/data.pb.h"

namespace paramd {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;

class EventTraceTest : public ::testing::Test {
 protected:
  EventTraceTest() { head_.mutable_header()->set_sequence(7); }

  EventTrace::Event Push() const {
    return {.at = 1500000,
            .kind = "request",
            .node = PeerId::Ps(1),
            .from = PeerId::Worker(0),
            .is_message = true,
            .head = &head_,
            .payload_crc = 5,
            .payload_bytes = 8,
            .status = absl::OkStatus()};
  }

  static uint64_t HashOf(const std::vector<EventTrace::Event>& events) {
    EventTrace trace(/*verbose=*/false);
    for (const EventTrace::Event& event : events) trace.Add(event);
    return trace.hash();
  }

  v1::PushRequest head_;
};

TEST_F(EventTraceTest, TheHashIsOfEveryPartOfAnEvent) {
  const uint64_t hash = HashOf({Push()});
  EXPECT_EQ(HashOf({Push()}), hash);
  std::vector<EventTrace::Event> others(7, Push());
  v1::PushRequest other_head = head_;
  other_head.mutable_header()->set_sequence(8);
  others[0].at = 1;
  others[1].kind = "reply";
  others[2].node = PeerId::Ps(0);
  others[3].from = PeerId::Worker(1);
  others[4].head = &other_head;
  others[5].payload_crc = 6;
  others[6].status = absl::UnavailableError("gone");
  for (const EventTrace::Event& other : others) {
    EXPECT_NE(HashOf({other}), hash);
  }
}

TEST_F(EventTraceTest, TheHashIsOfTheOrderOfEvents) {
  EventTrace::Event tick;
  tick.kind = "tick";
  EXPECT_NE(HashOf({Push(), tick}), HashOf({tick, Push()}));
}

TEST_F(EventTraceTest, NotesAreNoPartOfTheHash) {
  EventTrace trace(/*verbose=*/false);
  trace.Add(Push());
  trace.AddNote(1, PeerId::Ps(0), "joined");
  EXPECT_EQ(trace.hash(), HashOf({Push()}));
}

TEST_F(EventTraceTest, IfWantedEventsAndNotesAreLines) {
  EventTrace trace(/*verbose=*/true);
  ::testing::internal::CaptureStdout();
  trace.Add(Push());
  trace.AddNote(2000000, PeerId::Ps(0), "joined");
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, HasSubstr("1.5ms request  worker-0 -> ps-1 PushRequest "
                                 "header { sequence: 7 }"));
  EXPECT_THAT(printed, HasSubstr("[8 bytes]\n"));
  EXPECT_THAT(printed, EndsWith("2ms note     ps-0: joined\n"));
}

TEST_F(EventTraceTest, ALongHeadIsCutShortInItsLine) {
  EventTrace trace(/*verbose=*/true);
  for (int i = 0; i < 1000; ++i) head_.add_blocks()->set_block(i);
  ::testing::internal::CaptureStdout();
  trace.Add(Push());
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), SizeIs(Lt(500)));
}

}  // namespace
}  // namespace paramd
