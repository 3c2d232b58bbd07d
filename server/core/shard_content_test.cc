#include "server/core/shard_content.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Numbers;
using testing::Payload;
using testing::ShardDriver;
using testing::Uniform;
using testing::Zeros;

// Slices: 0 "w" of 4 elements, 1 "b" of 2, 2 "big" of 300,000 in two blocks.
v1::Configuration Three() {
  return MakeConfiguration(
      {Zeros("w", {2, 2}), Zeros("b", {2}), Zeros("big", {300000})});
}

class ShardContentTest : public ::testing::Test {
 protected:
  ShardContentTest() { driver_.MakeReady(Three()); }

  // Pushes something that must be refused, and says how.
  v1::Refusal Refused(const v1::PushRequest& request,
                      const std::vector<float>& gradient,
                      const std::string& sentence) {
    const auto reply = driver_.Push(request, gradient);
    EXPECT_FALSE(reply.ok());
    EXPECT_EQ(reply.status().message(), sentence);
    EXPECT_EQ(driver_.Pull(0), std::vector<float>(4));
    EXPECT_EQ(driver_.Pull(1), std::vector<float>(2));
    EXPECT_EQ(driver_.Pull(2, 1), std::vector<float>(37856));
    // The same push is admitted when it is right.
    const auto right = driver_.Push(driver_.MakePush(1, {{1, 0}}, 2), {-1, -2});
    EXPECT_EQ(right->blocks(0).result(), v1::PushedBlock::APPLIED);
    return RefusalOf(reply.status());
  }

  ShardDriver driver_;
};

TEST_F(ShardContentTest, APushChangesItsBlocksAndSaysTheirVersions) {
  const auto reply = driver_.Push(driver_.MakePush(1, {{1, 0}}, 2), {1, -2});
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->blocks_size(), 1);
  EXPECT_EQ(reply->blocks(0).slice(), 1u);
  EXPECT_EQ(reply->blocks(0).result(), v1::PushedBlock::APPLIED);
  EXPECT_EQ(reply->blocks(0).version().counter(), 1u);
  EXPECT_NE(reply->blocks(0).version().life(), 0u);
  EXPECT_EQ(driver_.Pull(1), (std::vector<float>{-1, 2}));
  EXPECT_EQ(driver_.Pull(0), std::vector<float>(4));
}

// A push of numbers in that format.
BufferChain In(NumberFormat format, const std::vector<float>& numbers) {
  return {Encoded(Payload(numbers)[0], format)};
}

TEST_F(ShardContentTest, AGradientInHalfTheBytesIsAppliedAsTheNumbersItIs) {
  uint64_t sequence = 0;
  for (const auto& [encoding, format] :
       {std::pair(v1::BF16, NumberFormat::kBf16),
        std::pair(v1::FP16, NumberFormat::kFp16)}) {
    // Of two blocks: the second one begins where the first one ends.
    v1::PushRequest push = driver_.MakePush(++sequence, {{0, 0}, {1, 0}}, 4);
    push.mutable_blocks(1)->set_elements(2);
    push.set_encoding(encoding);
    const auto reply = driver_.Ask<v1::PushReply>(
        PeerId::Worker(1), push, In(format, {1, 2, -0.5f, 8, 3, -4}));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->blocks(1).result(), v1::PushedBlock::APPLIED);
    const auto n = static_cast<float>(sequence);
    EXPECT_EQ(driver_.Pull(0), (std::vector<float>{-n, -2 * n, n / 2, -8 * n}));
    EXPECT_EQ(driver_.Pull(1), (std::vector<float>{-3 * n, 4 * n}));
    const auto again = driver_.Ask<v1::PushReply>(
        PeerId::Worker(1), push, In(format, {1, 2, -0.5f, 8, 3, -4}));
    EXPECT_EQ(again->blocks(1).result(), v1::PushedBlock::ALREADY_APPLIED);
    EXPECT_EQ(driver_.Pull(1), (std::vector<float>{-3 * n, 4 * n}));
  }
}

TEST_F(ShardContentTest, AHalfThatIsNotFiniteIsQuarantined) {
  v1::PushRequest push = driver_.MakePush(1, {{1, 0}}, 2);
  push.set_encoding(v1::FP16);
  const auto reply = driver_.Ask<v1::PushReply>(
      PeerId::Worker(1), push, In(NumberFormat::kFp16, {1, 70000}));
  EXPECT_EQ(RefusalOf(reply.status()).reason(), v1::Refusal::QUARANTINED);
  EXPECT_EQ(driver_.Pull(1), std::vector<float>(2));
}

TEST_F(ShardContentTest, APullIsAnsweredInTheFormatThatItAsksFor) {
  ASSERT_TRUE(
      driver_.Push(driver_.MakePush(1, {{1, 0}}, 2), {-1, -1.00390625f}).ok());
  v1::PullRequest pull;
  pull.set_encoding(v1::BF16);
  pull.add_blocks()->set_slice(1);
  const ShardDriver::Answer answer = driver_.Call(PeerId::Worker(1), pull, {});
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const auto& reply = static_cast<const v1::PullReply&>(*answer.head);
  EXPECT_EQ(reply.encoding(), v1::BF16);
  EXPECT_EQ(reply.blocks(0).elements(), 2u);
  ASSERT_EQ(ChainSize(answer.payload), 4u);
  float read[2];
  DecodeNumbers(NumberFormat::kBf16, answer.payload[0].bytes().data(), 2, read);
  EXPECT_EQ(read[0], 1);
  EXPECT_EQ(read[1], 1);  // Half way to 1.0078125: to the even one.
}

// What no payload stands for would be read from it.
TEST_F(ShardContentTest, Promise9_APushOfNothingIsOfAStepOfSyncMode) {
  v1::PushRequest push = driver_.MakePush(1, {{1, 0}}, /*elements=*/0);
  push.set_step(1);
  EXPECT_EQ(
      Refused(push, {}, "push is of step 1; only mode sync has steps").reason(),
      v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise9_APushOfNothingIsNotPassedOverEither) {
  ASSERT_TRUE(driver_.Push(driver_.MakePush(1, {{1, 0}}, 2), {1, 1}).ok());
  v1::PushRequest again = driver_.MakePush(1, {{1, 0}}, /*elements=*/0);
  again.set_step(1);
  EXPECT_EQ(RefusalOf(driver_.Push(again, {}).status()).reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise1_ARepeatedPushIsAcknowledgedAndNotApplied) {
  const v1::PushRequest push = driver_.MakePush(1, {{1, 0}}, 2);
  ASSERT_TRUE(driver_.Push(push, {1, 1}).ok());
  const auto again = driver_.Push(push, {1, 1});
  EXPECT_EQ(again->blocks(0).result(), v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_EQ(again->blocks(0).version().counter(), 1u);
  EXPECT_EQ(driver_.Pull(1), (std::vector<float>{-1, -1}));
}

TEST_F(ShardContentTest, Promise1_AnEarlierPushIsSuperseded) {
  ASSERT_TRUE(driver_.Push(driver_.MakePush(2, {{1, 0}}, 2), {1, 1}).ok());
  const auto late = driver_.Push(driver_.MakePush(1, {{1, 0}}, 2), {5, 5});
  EXPECT_EQ(late->blocks(0).result(), v1::PushedBlock::SUPERSEDED);
  EXPECT_EQ(driver_.Pull(1), (std::vector<float>{-1, -1}));
}

TEST_F(ShardContentTest,
       Promise1_OfAResentChunkOnlyTheMissingBlocksAreApplied) {
  const std::vector<float> rest(37856, 1.0f);
  v1::PushRequest push = driver_.MakePush(1, {{2, 1}}, 37856);
  ASSERT_TRUE(driver_.Push(push, rest).ok());
  // The same push, now with both blocks: the one that is in lies second.
  v1::PushRequest both = driver_.MakePush(1, {{2, 0}, {2, 1}}, 262144);
  both.mutable_blocks(1)->set_elements(37856);
  std::vector<float> all(300000, 2.0f);
  const auto reply = driver_.Push(both, all);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->blocks(0).result(), v1::PushedBlock::APPLIED);
  EXPECT_EQ(reply->blocks(1).result(), v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_EQ(driver_.Pull(2, 0), std::vector<float>(262144, -2.0f));
  EXPECT_EQ(driver_.Pull(2, 1), std::vector<float>(37856, -1.0f));
}

TEST_F(ShardContentTest, WhatIsSkippedLeavesTheRestInItsPlace) {
  ASSERT_TRUE(
      driver_.Push(driver_.MakePush(1, {{0, 0}}, 4), {1, 1, 1, 1}).ok());
  v1::PushRequest both = driver_.MakePush(1, {{0, 0}, {1, 0}}, 4);
  both.mutable_blocks(1)->set_elements(2);
  ASSERT_TRUE(driver_.Push(both, {9, 9, 9, 9, 3, 4}).ok());
  EXPECT_EQ(driver_.Pull(0), std::vector<float>(4, -1.0f));
  EXPECT_EQ(driver_.Pull(1), (std::vector<float>{-3, -4}));
}

TEST_F(ShardContentTest, Promise9_WrongLengthGradientIsRejected) {
  EXPECT_EQ(Refused(driver_.MakePush(1, {{1, 0}}, 3), {1, 2, 3},
                    "gradient for 'b' has 3 values in block 0; the block has 2")
                .reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise9_AShortPayloadIsRejected) {
  EXPECT_EQ(Refused(driver_.MakePush(1, {{1, 0}}, 2), {1},
                    "chunk has 4 bytes of gradient; its blocks have 8")
                .reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise9_ALongPayloadIsRejected) {
  EXPECT_EQ(Refused(driver_.MakePush(1, {{1, 0}}, 2), {1, 2, 3},
                    "chunk has 12 bytes of gradient; its blocks have 8")
                .reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise9_AnInfiniteNumberQuarantinesTheWholeChunk) {
  v1::PushRequest push = driver_.MakePush(1, {{0, 0}, {1, 0}}, 4);
  push.mutable_blocks(1)->set_elements(2);
  const v1::Refusal refusal =
      Refused(push, {1, 1, 1, 1, 1, std::numeric_limits<float>::infinity()},
              "gradient for 'b' is not finite in block 0 of 'b'");
  EXPECT_EQ(refusal.reason(), v1::Refusal::QUARANTINED);
  EXPECT_EQ(refusal.entity(), "b");
}

TEST_F(ShardContentTest, Promise9_NotANumberQuarantinesTheWholeChunk) {
  EXPECT_EQ(Refused(driver_.MakePush(1, {{1, 0}}, 2), {1, std::nanf("")},
                    "gradient for 'b' is not finite in block 0 of 'b'")
                .reason(),
            v1::Refusal::QUARANTINED);
}

TEST_F(ShardContentTest, Promise9_AnUnknownSliceRefusesTheWholeChunk) {
  EXPECT_EQ(Refused(driver_.MakePush(1, {{1, 0}, {7, 0}}, 2), {1, 2, 3, 4},
                    "chunk names slice 7; the layout has 3")
                .reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise9_AnUnknownBlockRefusesTheWholeChunk) {
  EXPECT_EQ(Refused(driver_.MakePush(1, {{1, 0}, {1, 1}}, 2), {1, 2, 3, 4},
                    "chunk names block 1 of 'b', which has 1")
                .reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise9_ABlockTwiceRefusesTheWholeChunk) {
  EXPECT_EQ(Refused(driver_.MakePush(1, {{1, 0}, {1, 0}}, 2), {1, 2, 3, 4},
                    "chunk names block 0 of 'b' twice")
                .reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise9_AnUnknownEncodingIsRefused) {
  v1::PushRequest push = driver_.MakePush(1, {{1, 0}}, 2);
  push.set_encoding(static_cast<v1::Encoding>(9));
  EXPECT_EQ(Refused(push, {1, 2},
                    "encoding 9 is unknown here; known are FP32, BF16, FP16")
                .reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, Promise9_SequenceZeroIsRefused) {
  EXPECT_EQ(Refused(driver_.MakePush(0, {{1, 0}}, 2), {1, 2},
                    "push has sequence 0; the first one is 1")
                .reason(),
            v1::Refusal::INVALID);
}

TEST_F(ShardContentTest, RefusedAppliedAndRepeatedBlocksAreCounted) {
  const v1::PushRequest push = driver_.MakePush(1, {{1, 0}}, 2);
  ASSERT_TRUE(driver_.Push(push, {1, 1}).ok());
  ASSERT_TRUE(driver_.Push(push, {1, 1}).ok());
  ASSERT_FALSE(driver_.Push(push, {1}).ok());
  driver_.Pull(0);
  v1::StatusReply status;
  driver_.shard().FillStatus(&status);
  EXPECT_EQ(status.server().blocks_applied(), 1u);
  EXPECT_EQ(status.server().blocks_repeated(), 1u);
  EXPECT_EQ(status.server().blocks_refused(), 1u);
  EXPECT_EQ(status.server().pulls(), 1u);
  EXPECT_EQ(status.server().bytes(), 4u * (4 + 2 + 300000));
  EXPECT_TRUE(status.server().restored());
}

TEST_F(ShardContentTest, TheSlicesThatAreNamedMostAreTheHottest) {
  using Names = std::vector<std::string>;
  const auto hottest = [&] {
    v1::StatusReply status;
    driver_.shard().FillStatus(&status);
    Names names;
    for (const v1::SliceStats& slice : status.server().hottest_slices()) {
      EXPECT_GT(slice.named_blocks(), 0u);
      names.push_back(slice.name());
    }
    return names;
  };
  EXPECT_EQ(hottest(), Names());
  ASSERT_TRUE(driver_.Push(driver_.MakePush(1, {{1, 0}}, 2), {1, 1}).ok());
  EXPECT_EQ(hottest(), Names({"b"}));
  for (int i = 0; i < 5; ++i) driver_.Pull(0);
  EXPECT_EQ(hottest(), Names({"w", "b"}));
}

TEST_F(ShardContentTest, StalenessIsHowManyPushesCameSinceTheReadNamed) {
  v1::PushRequest push = driver_.MakePush(1, {{1, 0}}, 2);
  const auto first = driver_.Push(push, {1, 1});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(driver_.Push(driver_.MakePush(2, {{1, 0}}, 2), {1, 1}).ok());
  ASSERT_TRUE(driver_.Push(driver_.MakePush(3, {{1, 0}}, 2), {1, 1}).ok());
  push = driver_.MakePush(4, {{1, 0}}, 2);
  *push.mutable_blocks(0)->mutable_computed_on() = first->blocks(0).version();
  ASSERT_TRUE(driver_.Push(push, {1, 1}).ok());
  // Of another life: nothing is known.
  push = driver_.MakePush(5, {{1, 0}}, 2);
  push.mutable_blocks(0)->mutable_computed_on()->set_life(1);
  ASSERT_TRUE(driver_.Push(push, {1, 1}).ok());
  v1::StatusReply status;
  driver_.shard().FillStatus(&status);
  EXPECT_EQ(status.server().staleness().blocks(), 1u);
  EXPECT_EQ(status.server().staleness().sum(), 2u);
}

TEST_F(ShardContentTest, Promise2_ABlockThatDidNotChangeIsNotSentAgain) {
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks()->set_slice(0);
  pull.add_blocks()->set_slice(1);
  auto first = driver_.Call({}, pull);
  const auto& seen = static_cast<const v1::PullReply&>(*first.head);
  EXPECT_EQ(seen.encoding(), v1::FP32);
  EXPECT_EQ(ChainSize(first.payload), 24u);
  for (int i = 0; i < 2; ++i) {
    *pull.mutable_blocks(i)->mutable_known() = seen.blocks(i).version();
  }
  ASSERT_TRUE(driver_.Push(driver_.MakePush(1, {{1, 0}}, 2), {1, 1}).ok());
  auto second = driver_.Call({}, pull);
  const auto& reply = static_cast<const v1::PullReply&>(*second.head);
  EXPECT_EQ(reply.blocks(0).elements(), 0u);
  EXPECT_EQ(reply.blocks(1).elements(), 2u);
  EXPECT_EQ(Numbers(second.payload), (std::vector<float>{-1, -1}));
}

TEST_F(ShardContentTest, Promise2_AReplyOnItsWayIsNotTouchedByLaterPushes) {
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks()->set_slice(1);
  const auto reply = driver_.Call({}, pull);
  ASSERT_TRUE(driver_.Push(driver_.MakePush(1, {{1, 0}}, 2), {1, 1}).ok());
  EXPECT_EQ(Numbers(reply.payload), std::vector<float>(2));
  EXPECT_EQ(driver_.Pull(1), std::vector<float>(2, -1.0f));
}

TEST_F(ShardContentTest, APullCopiesNothing) {
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks()->set_slice(1);
  const auto one = driver_.Call({}, pull);
  const auto two = driver_.Call({}, pull);
  EXPECT_EQ(one.payload[0].bytes().data(), two.payload[0].bytes().data());
}

TEST_F(ShardContentTest, APullOfWhatIsNotThereIsRefused) {
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks()->set_slice(3);
  EXPECT_EQ(driver_.Call({}, pull).status.message(),
            "chunk names slice 3; the layout has 3");
  pull.mutable_blocks(0)->set_slice(2);
  pull.mutable_blocks(0)->set_block(2);
  EXPECT_EQ(driver_.Call({}, pull).status.message(),
            "chunk names block 2 of 'big', which has 2");
  pull.set_encoding(v1::ENCODING_UNSPECIFIED);
  EXPECT_EQ(driver_.Call({}, pull).status.message(),
            "encoding 0 is unknown here; known are FP32, BF16, FP16");
}

TEST_F(ShardContentTest, Promise8_APullBeyondTheLimitIsRefused) {
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  for (int i = 0; i < 5; ++i) pull.add_blocks()->set_slice(2);
  const absl::Status refused = driver_.Call({}, pull).status;
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(refused.message(),
            "the 5 blocks of this pull have more than 4259840 bytes; pull "
            "fewer at a time");
  pull.mutable_blocks()->DeleteSubrange(4, 1);
  EXPECT_TRUE(driver_.Call({}, pull).status.ok());
}

TEST(ShardContentOwnerTest, ASliceOfAnotherServerNamesItsOwner) {
  ShardDriver driver(0);
  driver.MakeReady(MakeConfiguration({Zeros("w", {2}), Zeros("b", {2})}, 2));
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks()->set_slice(1);
  const absl::Status pulled = driver.Call({}, pull).status;
  const absl::Status pushed =
      driver.Push(driver.MakePush(1, {{0, 0}, {1, 0}}, 2), {1, 2, 3, 4})
          .status();
  for (const absl::Status& refused : {pulled, pushed}) {
    EXPECT_EQ(refused.message(), "slice 1 is on ps-1; this is ps-0");
    const v1::Refusal refusal = RefusalOf(refused);
    EXPECT_EQ(refusal.reason(), v1::Refusal::WRONG_OWNER);
    EXPECT_EQ(refusal.entity(), "ps-1");
    EXPECT_EQ(refusal.version().counter(), 1u);
  }
  EXPECT_EQ(driver.Pull(0), std::vector<float>(2));
}

TEST(ShardContentLayoutTest, ALayoutThatMakesNoSenseIsRefusedByName) {
  const auto sentence = [](const std::function<void(v1::Configuration*)>&
                               break_it) {
    v1::Configuration configuration = MakeConfiguration({Zeros("w", {2, 2})});
    break_it(&configuration);
    ShardDriver driver;
    const absl::Status refused = driver.Configure(configuration).status();
    EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
    // Nothing changed: the right one is accepted under the same number.
    driver.MakeReady(MakeConfiguration({Zeros("w", {2, 2})}));
    return std::string(refused.message());
  };
  EXPECT_EQ(sentence([](auto* c) {
              c->mutable_layout()->mutable_slices(0)->set_row_end(3);
            }),
            "slice 0 is rows 0 to 3 of variable 0, which does not have them");
  EXPECT_EQ(sentence([](auto* c) {
              c->mutable_layout()->mutable_slices(0)->set_variable(1);
            }),
            "slice 0 is rows 0 to 2 of variable 1, which does not have them");
  EXPECT_EQ(sentence([](auto* c) {
              c->mutable_layout()->mutable_variables(0)->set_dtype(
                  v1::DTYPE_UNSPECIFIED);
            }),
            "variable 'w' has dtype 0; only FLOAT32 is known here");
  EXPECT_EQ(sentence([](auto* c) {
              c->mutable_layout()->mutable_variables(0)->clear_name();
            }),
            "a variable's name has 0 bytes; it must have 1 to 512");
  EXPECT_EQ(sentence([](auto* c) {
              *c->mutable_layout()->add_variables() = Zeros("w", {1});
            }),
            "layout names variable 'w' twice");
  EXPECT_EQ(sentence([](auto* c) { c->mutable_optimizer()->Clear(); }),
            "optimizer names none of sgd, adam, adagrad, adamw, rmsprop, "
            "ftrl, adadelta and lamb");
  EXPECT_EQ(sentence([](auto* c) {
              c->mutable_optimizer()->set_no_decay("w,norm*");
            }),
            "optimizer.no_decay names 'norm*', which no variable is called; "
            "the closest is 'w'");
  EXPECT_EQ(
      sentence([](auto* c) {
        auto* init =
            c->mutable_layout()->mutable_variables(0)->mutable_initializer();
        init->set_high(std::numeric_limits<float>::infinity());
      }),
      "variable 'w' starts between 0 and inf");
}

}  // namespace
}  // namespace paramd
