#include "proto/traced_push.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/data.pb.h"

namespace paramd {
namespace {

std::string TextOf(const TracedPush& push) {
  std::string text;
  for (const auto& [name, value] : push.numbers) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", value);
  }
  return text;
}

v1::PushRequest PushOf(uint64_t sequence) {
  v1::PushRequest push;
  v1::Header* const header = push.mutable_header();
  header->set_request_id(77);
  header->set_worker(3);
  header->mutable_generation()->set_term(1);
  header->mutable_generation()->set_counter(4);
  header->set_sequence(sequence);
  return push;
}

TEST(TracedPushTest, ItSaysWhoseItIsAndWhichBlocksItHas) {
  v1::PushRequest push = PushOf(17);
  for (const uint32_t slice : {5u, 6u}) {
    push.add_blocks()->set_slice(slice);
    push.mutable_blocks(push.blocks_size() - 1)->set_block(slice - 4);
  }
  const auto traced = TracedPushOf(push);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->flow, 77u);
  EXPECT_EQ(TextOf(*traced),
            "worker=3 term=1 session=4 push=17 block_count=2 slice=5 block=1 "
            "slice=6 block=2");
}

TEST(TracedPushTest, BlocksOfRowsAreNamedToo) {
  v1::PushRequest push = PushOf(1);
  push.set_step(9);
  push.mutable_rows()->add_slices(2);
  push.mutable_rows()->add_blocks(8);
  push.mutable_rows()->add_slices(3);  // Without a block: damaged.
  const auto traced = TracedPushOf(push);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(TextOf(*traced),
            "worker=3 term=1 session=4 push=1 step=9 block_count=1 slice=2 "
            "block=8");
}

TEST(TracedPushTest, OfManyBlocksTheFirstAreNamed) {
  v1::PushRequest push = PushOf(1);
  for (int i = 0; i < 6; ++i) push.add_blocks();
  for (int i = 0; i < 100; ++i) {
    push.mutable_rows()->add_slices(1);
    push.mutable_rows()->add_blocks(static_cast<uint32_t>(i));
  }
  const auto traced = TracedPushOf(push);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->numbers.size(), 5u + 2 * TracedPush::kMostBlocks);
  EXPECT_EQ(traced->numbers[4].second, 106u);
}

TEST(TracedPushTest, OtherMessagesAreNone) {
  EXPECT_FALSE(TracedPushOf(v1::PullRequest()).has_value());
  EXPECT_FALSE(TracedPushOf(v1::PushReply()).has_value());
}

}  // namespace
}  // namespace paramd
