#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using ::testing::Contains;
using testing::kChief;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::Next;
using ::testing::Not;
using testing::Pair;
using testing::Payload;
using testing::ReasonOf;
using testing::ShardDriver;
using testing::Small;
using testing::Zeros;

class ShardRestoreTest : public ::testing::Test {
 protected:
  ShardRestoreTest() : configuration_(Small()) {
    configuration_.mutable_servers(0)->set_restore_directory("/from");
    EXPECT_EQ(ReasonOf(driver_.Configure(configuration_).status()),
              v1::Refusal::NOT_READY);
    driver_.Settle();
    EXPECT_EQ(driver_.ios.size(), 1u);
  }

  IoResult Read(const std::vector<float>& numbers) {
    auto read = std::make_unique<v1::ReadSlicesResult>();
    read->mutable_manifest()->set_run_id("run");
    auto* piece = read->add_slices()->add_pieces();
    piece->set_row_end(2);
    piece->mutable_saved()->set_row_end(2);
    auto* record = piece->mutable_saved()->add_records();
    record->set_worker(1);
    *record->mutable_generation() = Pair(1, 11);
    record->set_sequence(6);
    IoResult result;
    result.io = driver_.ios[0].io;
    result.head = std::move(read);
    result.payload = Payload(numbers);
    return result;
  }

  ShardDriver driver_;
  v1::Configuration configuration_;
};

TEST_F(ShardRestoreTest, Promise1_ARestoredServerKnowsWhatItContains) {
  const auto& wanted = static_cast<const v1::ReadSlices&>(*driver_.ios[0].head);
  EXPECT_EQ(wanted.path(), "/from");
  driver_.Complete(Read({3, 4}));
  driver_.MakeReady(configuration_);
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{3, 4}));
  EXPECT_EQ(driver_.Push(driver_.MakeSmallPush(6), {1, 1})->blocks(0).result(),
            v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_EQ(driver_.Push(driver_.MakeSmallPush(9), {1, 1})->blocks(0).result(),
            v1::PushedBlock::APPLIED);
  EXPECT_EQ(driver_.notes.back(),
            "generation 1.1 holds 1 slices, 8 bytes, from /from");
}

// Another one may find yet that a file is damaged, which has numbers of this.
TEST_F(ShardRestoreTest, Promise3_NobodyReadsBeforeAllServersAreFilled) {
  configuration_.set_state(v1::STARTING);
  configuration_ = Next(configuration_);
  EXPECT_FALSE(driver_.Configure(configuration_).ok());
  driver_.Complete(Read({3, 4}));
  driver_.MakeReady(configuration_);
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks();
  const absl::Status early = driver_.Call(PeerId::Worker(1), pull).status;
  EXPECT_EQ(ReasonOf(early), v1::Refusal::NOT_READY);
  EXPECT_EQ(early.message(),
            "ps-0 is filled; the other servers are not all yet");
  configuration_.set_state(v1::RUNNING);
  driver_.MakeReady(configuration_ = Next(configuration_));
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{3, 4}));
}

TEST_F(ShardRestoreTest, WhatCannotBeReadIsSaidInTheAnswer) {
  IoResult failed;
  failed.io = driver_.ios[0].io;
  failed.status = absl::DataLossError("ps-0.safetensors is damaged");
  driver_.Complete(std::move(failed));
  const absl::Status refused = driver_.Configure(configuration_).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::DAMAGED);
  EXPECT_EQ(RefusalOf(refused).retry_after_ms(), 0u);
  EXPECT_EQ(refused.message(),
            "ps-0 could not restore '/from': ps-0.safetensors is damaged");
  // It may take another checkpoint yet: who pushes waits.
  EXPECT_EQ(ReasonOf(driver_.Push(driver_.MakeSmallPush(9), {1, 1}).status()),
            v1::Refusal::NOT_READY);
}

// The checkpoint is given up too; only at its end it matters that it may be
// read later.
TEST_F(ShardRestoreTest, WhatMayPassIsDamageWithATimeToAskAgain) {
  IoResult failed;
  failed.io = driver_.ios[0].io;
  failed.status = absl::UnavailableError("cannot read '/from/ps': stale");
  driver_.Complete(std::move(failed));
  const absl::Status refused = driver_.Configure(configuration_).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::DAMAGED);
  EXPECT_EQ(RefusalOf(refused).entity(), "/from");
  EXPECT_GT(RefusalOf(refused).retry_after_ms(), 0u);
}

TEST_F(ShardRestoreTest, AWrongSizeIsSaidInTheAnswer) {
  driver_.Complete(Read({3}));
  EXPECT_EQ(driver_.Configure(configuration_).status().message(),
            "ps-0 could not restore '/from': checkpoint gave 4 bytes; the "
            "slices asked for have 8");
}

TEST_F(ShardRestoreTest, WhatIsReadIntoItsMemoryIsItsContent) {
  IoResult read = Read({});
  read.payload = std::exchange(driver_.ios[0].payload, {});
  ASSERT_EQ(read.payload.size(), 1u);
  const std::vector<float> numbers = {3, 4};
  std::memcpy(read.payload[0].mutable_bytes().data(), numbers.data(), 8);
  driver_.Complete(std::move(read));
  driver_.MakeReady(configuration_);
  EXPECT_EQ(driver_.Pull(0), numbers);
  ASSERT_TRUE(driver_.Push(driver_.MakeSmallPush(7), {1, 1}).ok());
  EXPECT_NE(driver_.Pull(0), numbers);
}

TEST_F(ShardRestoreTest, ALaterGenerationReadsAgain) {
  IoResult late = Read({3, 4});
  v1::Configuration again = Next(configuration_);
  *again.mutable_servers(0)->mutable_generation() = Pair(1, 9);
  again.mutable_servers(0)->set_restore_directory("/other");
  (void)driver_.Configure(again);
  driver_.Settle();
  ASSERT_EQ(driver_.ios.size(), 2u);
  driver_.Complete(std::move(late));
  EXPECT_EQ(driver_.Settle(), 0) << "what was asked for before is dropped";
  IoResult right = Read({5, 6});
  right.io = driver_.ios[1].io;
  driver_.Complete(std::move(right));
  driver_.MakeReady(again);
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{5, 6}));
}

TEST_F(ShardRestoreTest, OnlyDamageIsWhatAnOlderCheckpointMayMend) {
  IoResult failed;
  failed.io = driver_.ios[0].io;
  failed.status = absl::FailedPreconditionError("there is no slot 'variance'");
  driver_.Complete(std::move(failed));
  EXPECT_EQ(ReasonOf(driver_.Configure(configuration_).status()),
            v1::Refusal::INVALID);
}

TEST(ShardRestoreProgressTest, Promise4_WhatTakesLongSaysHowFarItIs) {
  Shard::Options options;
  options.incarnation = 100;
  options.restore_window_bytes = 8;
  ShardDriver driver(options);
  v1::Configuration configuration =
      MakeConfiguration({Zeros("a", {2}), Zeros("b", {2})});
  configuration.mutable_servers(0)->set_restore_directory("/from");
  (void)driver.Configure(configuration);
  driver.Settle();
  ASSERT_EQ(driver.ios.size(), 2u);
  for (size_t window = 0; window < 2; ++window) {
    auto read = std::make_unique<v1::ReadSlicesResult>();
    read->add_slices();
    IoResult result;
    result.io = driver.ios[window].io;
    result.head = std::move(read);
    result.payload = Payload({1, 2});
    driver.Advance(absl::Seconds(window == 0 ? 11 : 3));
    driver.Complete(std::move(result));
    driver.Settle();
  }
  EXPECT_THAT(driver.notes,
              Contains("8 of 16 bytes are filled, from /from").Times(1));
  EXPECT_THAT(driver.notes,
              Not(Contains("16 of 16 bytes are filled, from /from")))
      << "only every ten seconds";
}

// Two slices of two numbers with Adam's moments, of a server that does not see
// the checkpoint.
class ShardHandedTest : public ::testing::Test {
 protected:
  explicit ShardHandedTest(std::initializer_list<v1::Variable> variables =
                               {Zeros("w", {2}), Zeros("b", {2})})
      : configuration_(MakeAdamConfiguration(variables)) {
    configuration_.mutable_servers(0)->set_restore_directory("/from");
    (void)driver_.Configure(configuration_);
    driver_.Settle();
    auto unseen = std::make_unique<v1::ReadSlicesResult>();
    unseen->set_unseen(true);
    IoResult result;
    result.io = driver_.ios.at(0).io;
    result.head = std::move(unseen);
    driver_.Complete(std::move(result));
  }

  v1::FillRequest Piece(uint32_t slice, uint64_t offset) {
    v1::FillRequest request;
    request.mutable_header()->set_term(1);
    *request.mutable_header()->mutable_configuration() = Pair(1, 1);
    *request.mutable_header()->mutable_server_generation() = Pair(1, 1);
    request.set_slice(slice);
    request.set_offset(offset);
    request.set_total(24);
    request.set_run_id("run");
    v1::FillRequest::Piece* const piece = request.add_pieces();
    piece->set_row_end(2);
    piece->mutable_saved()->set_row_end(2);
    v1::PushRecord* const record = piece->mutable_saved()->add_records();
    record->set_worker(1);
    *record->mutable_generation() = Pair(1, 11);
    record->set_sequence(6);
    return request;
  }
  absl::StatusOr<v1::FillReply> Fill(const v1::FillRequest& request,
                                     const std::vector<float>& numbers) {
    return driver_.Ask<v1::FillReply>(kChief, request, Payload(numbers));
  }
  void ExpectNext(const absl::StatusOr<v1::FillReply>& reply, uint32_t slice,
                  uint64_t offset) {
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->slice(), slice);
    EXPECT_EQ(reply->offset(), offset);
  }

  ShardDriver driver_;
  v1::Configuration configuration_;
};

TEST_F(ShardHandedTest, ItSaysSoAndTakesTheSlicesInPieces) {
  EXPECT_EQ(driver_.notes.back(),
            "ps-0 does not see '/from'; its slices come through the chief");
  const auto asked = driver_.Configure(configuration_);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->unseen());
  EXPECT_FALSE(asked->restored());

  ExpectNext(Fill(Piece(0, 0), {1, 2, 3, 4}), 0, 16);
  ExpectNext(Fill(Piece(0, 16), {5, 6}), 1, 0);
  driver_.Settle();
  EXPECT_FALSE(driver_.Configure(configuration_)->restored());
  ExpectNext(Fill(Piece(1, 0), {7, 8, 9, 10, 11, 12}), 2, 0);
  driver_.Settle();
  EXPECT_TRUE(driver_.Configure(configuration_)->restored());
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{1, 2}));
  EXPECT_EQ(driver_.Pull(1), (std::vector<float>{7, 8}));
  // Records come along: push 6 is in.
  EXPECT_EQ(driver_.Push(driver_.MakeSmallPush(6), {1, 1})->blocks(0).result(),
            v1::PushedBlock::ALREADY_APPLIED);
  ExpectNext(Fill(Piece(1, 0), {7, 8, 9, 10, 11, 12}), 2, 0);
}

TEST_F(ShardHandedTest, WhatComesAgainOrTooEarlyChangesNothing) {
  ExpectNext(Fill(Piece(1, 0), {7, 8, 9, 10, 11, 12}), 0, 0);
  ExpectNext(Fill(Piece(0, 0), {1, 2}), 0, 8);
  ExpectNext(Fill(Piece(0, 0), {1, 2}), 0, 8);
  ExpectNext(Fill(Piece(0, 16), {5, 6}), 0, 8);
  ExpectNext(Fill(Piece(0, 8), {3, 4, 5, 6}), 1, 0);
  ExpectNext(Fill(Piece(1, 0), {7, 8, 9, 10, 11, 12}), 2, 0);
  driver_.Settle();
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{1, 2}));
  EXPECT_EQ(driver_.Pull(1), (std::vector<float>{7, 8}));
}

TEST_F(ShardHandedTest, WhatCannotBeOfTheSliceIsRefused) {
  v1::FillRequest wrong = Piece(0, 0);
  wrong.set_total(28);
  EXPECT_EQ(Fill(wrong, {1}).status().message(),
            "slice 0 has 24 bytes here; 28 are to come");
  EXPECT_EQ(Fill(Piece(0, 0), {1, 2, 3, 4, 5, 6, 7}).status().message(),
            "28 bytes from 0 of 24 of slice 0");
  EXPECT_EQ(ReasonOf(Fill(Piece(0, 0), {}).status()), v1::Refusal::INVALID);
  ExpectNext(Fill(Piece(0, 0), {1, 2}), 0, 8);
}

TEST_F(ShardHandedTest, WhatIsForAnotherLifeOrTermIsRefused) {
  v1::FillRequest earlier = Piece(0, 0);
  *earlier.mutable_header()->mutable_server_generation() = Pair(0, 1);
  EXPECT_EQ(ReasonOf(Fill(earlier, {1, 2}).status()), v1::Refusal::NOT_READY);
  earlier = Piece(0, 0);
  earlier.mutable_header()->set_term(0);
  EXPECT_EQ(ReasonOf(Fill(earlier, {1, 2}).status()), v1::Refusal::OLD_TERM);
}

class ManySlicesHandedTest : public ShardHandedTest {
 protected:
  ManySlicesHandedTest()
      : ShardHandedTest({Zeros("a", {2}), Zeros("b", {2}), Zeros("c", {2}),
                         Zeros("d", {2})}) {}
};

TEST_F(ManySlicesHandedTest, OnesThatAreNotFilledInYetKeepTheNextAway) {
  for (uint32_t slice = 0; slice < 3; ++slice) {
    ExpectNext(Fill(Piece(slice, 0), {1, 2, 3, 4, 5, 6}), slice + 1, 0);
  }
  EXPECT_EQ(ReasonOf(Fill(Piece(3, 0), {7, 8, 9, 10, 11, 12}).status()),
            v1::Refusal::RETRY);
  driver_.Settle();
  ExpectNext(Fill(Piece(3, 0), {7, 8, 9, 10, 11, 12}), 4, 0);
}

TEST_F(ShardHandedTest, AnotherGenerationBeginsAnew) {
  ExpectNext(Fill(Piece(0, 0), {1, 2}), 0, 8);
  v1::Configuration again = Next(configuration_);
  *again.mutable_servers(0)->mutable_generation() = Pair(1, 9);
  (void)driver_.Configure(again);
  driver_.Settle();
  EXPECT_EQ(driver_.ios.size(), 2u) << "it looks whether it sees this one";
  EXPECT_EQ(ReasonOf(Fill(Piece(0, 8), {3, 4}).status()),
            v1::Refusal::NOT_READY);
}

TEST(ShardFillTest, AServerThatReadsByItselfWantsNothing) {
  ShardDriver driver;
  v1::Configuration configuration = Small();
  configuration.mutable_servers(0)->set_restore_directory("/from");
  (void)driver.Configure(configuration);
  v1::FillRequest request;
  request.mutable_header()->set_term(1);
  *request.mutable_header()->mutable_server_generation() = Pair(1, 1);
  EXPECT_EQ(ReasonOf(driver.Call(kChief, request).status),
            v1::Refusal::NOT_READY);
}

}  // namespace
}  // namespace paramd
