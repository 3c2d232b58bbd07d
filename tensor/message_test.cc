#include "tensor/message.h"

#include <memory>
#include <string>
#include <utility>

#include "google/protobuf/any.pb.h"
#include "google/protobuf/struct.pb.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using google::protobuf::Any;
using google::protobuf::ListValue;

TEST(HeadTest, APartOfAHeadLiesInItsArena) {
  const auto head = MakeHead<ListValue>();
  ASSERT_NE(head->GetArena(), nullptr);
  for (int i = 0; i < 1000; ++i) {
    head->add_values()->set_string_value(std::string(100, 'x'));
  }
  EXPECT_EQ(head->values(999).GetArena(), head->GetArena());
}

// Whether all of it is freed is AddressSanitizer's to say.
TEST(HeadTest, AHeadOwnsAMessageOfTheHeapOrInAnArena) {
  Head head = std::make_unique<Any>();
  EXPECT_EQ(head->GetArena(), nullptr);
  head = MakeHead<ListValue>();
  EXPECT_EQ(head->GetDescriptor(), ListValue::descriptor());
  head = MakeHeadLike(Any::default_instance());
  static_cast<Any*>(head.get())->set_value(std::string(1000, 'x'));
  Head other = std::move(head);
  EXPECT_EQ(static_cast<const Any&>(*other).value().size(), 1000u);
  EXPECT_EQ(head, nullptr);
}

}  // namespace
}  // namespace paramd
