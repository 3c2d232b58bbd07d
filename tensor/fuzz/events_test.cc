#include "tensor/fuzz/events.h"

#include "gtest/gtest.h"

namespace paramd::fuzz {
namespace {

TEST(EventsTest, WhatIsWrittenIsRead) {
  Event call;
  call.kind = Event::Kind::kCall;
  call.who = 3;
  call.which = 4;
  call.type = "PullRequest";
  call.head = std::string("\0\x01", 2);
  call.payload = std::string(300, 'p');
  const std::string bytes = WriteEvents({call, Event()});
  const std::vector<Event> events = ReadEvents(bytes);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, call.kind);
  EXPECT_EQ(events[0].who, 3);
  EXPECT_EQ(events[0].which, 4);
  EXPECT_EQ(events[0].type, call.type);
  EXPECT_EQ(events[0].head, call.head);
  EXPECT_EQ(events[0].payload, call.payload);
  EXPECT_EQ(WriteEvents(events), bytes);
}

TEST(EventsTest, WhatIsCutOffIsEmpty) {
  const std::vector<Event> events =
      ReadEvents(absl::string_view("\x00\x01\x02\x04Pull", 7));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, "Pul");
  EXPECT_EQ(events[0].head, "");
}

TEST(EventsTest, AMutationFollowsFromItsSeed) {
  Event call;
  call.type = "no message";
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<Event> one = {call, Event(), Event()};
    std::vector<Event> same = one;
    MutateEvents(seed, &one);
    MutateEvents(seed, &same);
    ASSERT_FALSE(one.empty());
    EXPECT_EQ(WriteEvents(one), WriteEvents(same));
  }
}

}  // namespace
}  // namespace paramd::fuzz
