#include "net/call_counts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "net/method_table.h"

namespace paramd {
namespace {

int IndexOf(const std::string& name) {
  const auto& methods = MethodTable::Get().methods();
  for (size_t i = 0; i < methods.size(); ++i) {
    if (methods[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no method " << name;
  return 0;
}

TEST(CallCountsTest, EachMethodThatWasCalledHasItsOwn) {
  CallCounts counts;
  const int push = IndexOf("Push");
  const int pull = IndexOf("Pull");
  counts.Received(push, 1000);
  counts.Answered(push, /*is_refused=*/false, absl::Milliseconds(3));
  counts.Sent(push, 20);
  counts.Received(push, 500);
  counts.Answered(push, /*is_refused=*/true, absl::Milliseconds(1));
  counts.Received(pull, 10);
  counts.Answered(pull, /*is_refused=*/false, absl::Seconds(1));
  counts.Sent(pull, 4000);
  counts.Received(IndexOf("Hello"), 1);  // Not answered yet.
  v1::StatusReply status;
  counts.Fill(&status);
  ASSERT_EQ(status.calls_size(), 2);
  for (const v1::CallStats& call : status.calls()) {
    const bool is_push = call.method() == "Push";
    EXPECT_EQ(call.received_bytes(), is_push ? 1500 : 10);
    EXPECT_EQ(call.sent_bytes(), is_push ? 20 : 4000);
    EXPECT_EQ(call.refused(), is_push ? 1 : 0);
    EXPECT_EQ(call.took().count(), is_push ? 2 : 1);
    EXPECT_EQ(call.took().total_us(), is_push ? 4000 : 1000000);
  }
}

}  // namespace
}  // namespace paramd
