// Blocks that come packed.
#include <bit>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/session.h"
#include "client/core/testing/configurations.h"
#include "client/core/testing/session_test_base.h"
#include "tensor/packed_numbers.h"

namespace paramd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::MakeConfiguration;
using testing::SessionTestBase;

Session::Options TakesPacked(NumberFormat pull_format = NumberFormat::kFp32) {
  Session::Options options;
  options.pull_format = pull_format;
  options.takes_packed = true;
  return options;
}

Buffer Packed(NumberFormat format, const std::vector<float>& numbers) {
  Buffer packed = Buffer::Allocate(PackedBytes(
      format, numbers.size(), CountNonzero(numbers.data(), numbers.size())));
  PackNumbers(format, numbers.data(), numbers.size(),
              packed.mutable_bytes().data());
  return packed;
}

// One server has three blocks: "a" of 9 elements, "b" of 2, "c" of 3; the first
// and the last come packed.
class SessionPackedTest : public SessionTestBase {
 protected:
  void Begin(NumberFormat format = NumberFormat::kFp32) {
    Use(MakeConfiguration({{"a", {9}, 0}, {"b", {2}, 0}, {"c", {3}, 0}}, 1),
        TakesPacked(format));
    Pull();
    sent_ = Sent();
    reply_ = PullReplyTo(sent_[0]);
    reply_.mutable_blocks(0)->set_nonzero(2);
    reply_.mutable_blocks(2)->set_nonzero(0);
    payload_ = {Packed(format, {0, 7, 0, 0, 0, 0, 0, 0, -0.0f}),
                Encoded(Floats({5, 0}), format), Packed(format, {0, 0, 0})};
  }
  void ExpectRefused(const std::string& sentence) {
    Answer(sent_[0], reply_, payload_);
    EXPECT_THAT(weights_.variable(0), Each(0));
    EXPECT_THAT(weights_.variable(1), Each(0));
    EXPECT_EQ(weights_.version(0, 0).life(), 0u);
    const absl::Status end = End();
    EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
    EXPECT_THAT(std::string(end.message()), HasSubstr(sentence));
  }

  std::vector<Outbox::SendItem> sent_;
  v1::PullReply reply_;
  BufferChain payload_;
};

TEST_F(SessionPackedTest, OnlyWhoTakesPackedBlocksAsksForThem) {
  Use(Small());
  Pull();
  EXPECT_FALSE(HeadOf<v1::PullRequest>(Sent()[0]).takes_packed());
  Use(Small(), TakesPacked());
  Pull();
  EXPECT_TRUE(HeadOf<v1::PullRequest>(Sent()[0]).takes_packed());
  Use(Small(), TakesPacked());
  Weights next(session_->placement());
  pull_into_ = &next;
  Push(1);
  EXPECT_TRUE(HeadOf<v1::PushRequest>(Sent()[0]).pull().takes_packed());
}

TEST_F(SessionPackedTest, APackedBlockIsReadBitForBit) {
  for (const NumberFormat format :
       {NumberFormat::kFp32, NumberFormat::kBf16, NumberFormat::kFp16}) {
    Begin(format);
    reply_.set_encoding(HeadOf<v1::PullRequest>(sent_[0]).encoding());
    Answer(sent_[0], reply_, payload_);
    EXPECT_TRUE(End().ok());
    const absl::Span<const float> a = weights_.variable(0);
    EXPECT_THAT(a, ElementsAre(0, 7, 0, 0, 0, 0, 0, 0, 0));
    EXPECT_EQ(std::bit_cast<uint32_t>(a[0]), 0u);
    EXPECT_EQ(std::bit_cast<uint32_t>(a[8]), 0x80000000u);
    EXPECT_THAT(weights_.variable(1), ElementsAre(5, 0));
    EXPECT_THAT(weights_.variable(2), ElementsAre(0, 0, 0));
    EXPECT_EQ(weights_.version(0, 0).life(), 1u);
    EXPECT_EQ(weights_.version(2, 0).life(), 1u);
  }
}

TEST_F(SessionPackedTest, WhatWasThereBeforeIsOverwrittenByZeros) {
  Use(Small(), TakesPacked());
  Pull();
  for (const auto& sent : Sent()) {
    const v1::PullReply reply = PullReplyTo(sent);
    Answer(sent, reply, Values(reply, 5));
  }
  EXPECT_TRUE(End().ok());
  EXPECT_THAT(weights_.variable(1), Each(5));
  Pull();
  for (const auto& sent : Sent()) {
    v1::PullReply reply = PullReplyTo(sent, session_->placement(), /*life=*/2);
    const size_t elements = reply.blocks(0).elements();
    reply.mutable_blocks(0)->set_nonzero(0);
    Answer(sent, reply,
           {Packed(NumberFormat::kFp32, std::vector<float>(elements))});
  }
  EXPECT_TRUE(End().ok());
  EXPECT_THAT(weights_.variable(0), Each(0));
  EXPECT_THAT(weights_.variable(1), Each(0));
}

// More numbers than the processor's copy past the caches begins with.
TEST_F(SessionPackedTest, BlocksOfALargeVariableLandAtTheirPlaces) {
  const uint64_t elements = 32 * kMaxBlockElements + 5;
  Use(MakeConfiguration({{"w", {elements}, 0}}, 1), TakesPacked());
  std::vector<float> wanted(elements);
  for (uint64_t i = 0; i < elements; i += 7) wanted[i] = static_cast<float>(i);
  Pull();
  for (auto sent = Sent(); !sent.empty(); sent = Sent()) {
    for (const Outbox::SendItem& one : sent) {
      v1::PullReply reply = PullReplyTo(one);
      BufferChain payload;
      for (v1::PulledBlock& block : *reply.mutable_blocks()) {
        const auto begin =
            wanted.begin() +
            static_cast<ptrdiff_t>(block.block() * kMaxBlockElements);
        const std::vector<float> numbers(begin, begin + block.elements());
        block.set_nonzero(static_cast<uint32_t>(
            CountNonzero(numbers.data(), numbers.size())));
        payload.push_back(Packed(NumberFormat::kFp32, numbers));
      }
      Answer(one, reply, payload);
    }
  }
  EXPECT_TRUE(End().ok());
  EXPECT_TRUE(weights_.variable(0) == absl::MakeConstSpan(wanted));
}

TEST_F(SessionPackedTest, Promise9_AnotherNumberOfBitsThanNumbersIsRefused) {
  Begin();
  // As many bytes, and another bit.
  Buffer bits = Buffer::Copy(std::string("\x06\x01", 2));
  payload_[0] = payload_[0].Part(2, payload_[0].size() - 2);
  payload_.insert(payload_.begin(), bits);
  ExpectRefused(
      "block 0 of slice 0 packed with 2 numbers; 3 of its bits are "
      "set");
}

TEST_F(SessionPackedTest, Promise9_BitsBehindTheElementsAreRefused) {
  Begin();
  payload_[2] = Buffer::Copy(std::string(1, '\x08'));
  ExpectRefused("block 0 of slice 2 packed with bits behind its 3 elements");
}

TEST_F(SessionPackedTest, Promise9_MoreNumbersThanElementsAreRefused) {
  Begin();
  reply_.mutable_blocks(2)->set_nonzero(4);
  ExpectRefused("block 0 of slice 2 packed with 4 numbers of 3 elements");
}

TEST_F(SessionPackedTest, Promise9_WhatHasNotChangedIsNotPacked) {
  Begin();
  Answer(sent_[0], reply_, payload_);
  EXPECT_TRUE(End().ok());
  Pull();
  reply_.mutable_blocks(2)->set_elements(0);
  payload_.pop_back();
  Answer(Sent()[0], reply_, payload_);
  const absl::Status end = End();
  EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
  EXPECT_THAT(
      std::string(end.message()),
      HasSubstr("block 0 of slice 2 packed with 0 numbers of 0 elements"));
}

TEST_F(SessionPackedTest, Promise9_AnotherNumberOfBytesIsRefused) {
  Begin();
  payload_.push_back(Floats({1}));
  ExpectRefused(
      "a pull's answer has 23 bytes of encoding 1; its blocks need "
      "19");
}

}  // namespace
}  // namespace paramd
