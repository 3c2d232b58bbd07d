#include "tests/sim/event_queue.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(EventQueueTest, EventsComeOutByTimeAndThenInTheOrderTheyWereIn) {
  EventQueue<std::string> queue;
  EXPECT_TRUE(queue.empty());
  const std::pair<int64_t, const char*> events[] = {
      {5, "e"}, {1, "a"}, {3, "b"}, {3, "c"}, {3, "d"}, {9, "f"}};
  for (const auto& [at, text] : events) {
    queue.Put(at, std::make_unique<std::string>(text));
  }
  EXPECT_EQ(queue.size(), 6u);
  std::string order;
  int64_t last = 0;
  while (!queue.empty()) {
    const auto [at, text] = queue.Take();
    EXPECT_GE(at, last);
    last = at;
    order += *text;
  }
  EXPECT_EQ(order, "abcdef");
}

}  // namespace
}  // namespace paramd
