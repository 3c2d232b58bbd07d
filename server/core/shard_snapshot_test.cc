#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::kChief;
using testing::MakeAdamConfiguration;
using testing::MakeSeal;
using testing::MakeWritten;
using testing::Numbers;
using testing::Pair;
using testing::ReasonOf;
using testing::ShardDriver;
using testing::Zeros;

class ShardSnapshotTest : public ::testing::Test {
 protected:
  ShardSnapshotTest() { driver_.MakeReady(Config()); }

  static v1::Configuration Config() {
    return MakeAdamConfiguration({Zeros("w", {2}), Zeros("big", {300, 1000})});
  }

  const v1::WriteShard& Work(size_t i = 0) {
    return static_cast<const v1::WriteShard&>(*driver_.ios.at(i).head);
  }
  IoResult Ended(const absl::Status& status, size_t i = 0) {
    IoResult result;
    result.io = driver_.ios.at(i).io;
    result.status = status;
    if (!status.ok()) return result;
    auto written = std::make_unique<v1::WriteShardResult>();
    *written->mutable_file() = Work(i).file();
    written->mutable_file()->set_bytes(123);
    result.head = std::move(written);
    return result;
  }

  ShardDriver driver_;
};

TEST_F(ShardSnapshotTest, Promise3_ValuesSlotsCountsAndRecordsAreOfOneInstant) {
  const v1::PushRequest half = driver_.MakePush(4, {{1, 1}}, 37856);
  ASSERT_TRUE(driver_.Push(half, std::vector<float>(37856, 1)).ok());
  const std::vector<float> values = driver_.Pull(1, 1);
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  // A later push, and the rest of this one, change nothing of what is frozen.
  ASSERT_TRUE(driver_.Push(driver_.MakePush(5, {{0, 0}}, 2), {1, 1}).ok());
  ASSERT_TRUE(driver_
                  .Push(driver_.MakePush(4, {{1, 0}}, 262144),
                        std::vector<float>(262144, 1))
                  .ok());

  const v1::WriteShard& work = Work();
  EXPECT_EQ(work.directory(), "/checkpoint");
  ASSERT_EQ(work.tensors_size(), 6);
  const char* const names[] = {"w",   "w/slot:momentum",   "w/slot:variance",
                               "big", "big/slot:momentum", "big/slot:variance"};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(work.tensors(i).name(), names[i]);
  EXPECT_EQ(work.tensors(5).shape(0), 300u);
  EXPECT_EQ(work.tensors(5).shape(1), 1000u);
  EXPECT_EQ(work.tensors(5).bytes(), 1200000u);
  const std::vector<float> all = Numbers(driver_.ios[0].payload);
  ASSERT_EQ(all.size(), 3u * 300002);
  EXPECT_EQ(std::vector<float>(all.begin(), all.begin() + 6),
            std::vector<float>(6));
  EXPECT_EQ(all[6], 0) << "block 0 of big came later";
  EXPECT_EQ(all[6 + 262144], values[0]);
  EXPECT_EQ(all[6 + 300000 + 262144], 0.1f) << "its momentum";

  const v1::ShardFile& file = work.file();
  EXPECT_EQ(file.name(), "ps-00001-of-00001.safetensors");
  EXPECT_EQ(file.server(), 0u);
  EXPECT_EQ(file.server_generation(), Pair(1, 1));
  ASSERT_EQ(file.slices_size(), 2);
  const v1::SavedSlice& big = file.slices(1);
  EXPECT_EQ(big.variable(), "big");
  EXPECT_EQ(big.row_end(), 300u);
  EXPECT_EQ(big.values_tensor(), "big");
  EXPECT_EQ(big.slot_tensors().at("variance"), "big/slot:variance");
  ASSERT_EQ(big.applied_size(), 2);
  EXPECT_EQ(big.applied(0).applied(), 0u);
  EXPECT_EQ(big.applied(1).applied(), 1u);
  ASSERT_EQ(big.records_size(), 3);
  EXPECT_EQ(big.records(1).worker(), 1u);
  EXPECT_EQ(big.records(1).sequence(), 4u);
  ASSERT_EQ(big.records(1).missing_blocks_size(), 1);
  EXPECT_EQ(big.records(1).missing_blocks(0), 0u);
}

TEST_F(ShardSnapshotTest, Promise3_APushBehindTheCutDoesNotWaitForTheSeal) {
  ASSERT_TRUE(driver_.Push(driver_.MakePush(1, {{0, 0}}, 2), {1, 1}).ok());
  const std::vector<float> before = driver_.Pull(0);
  v1::PushRequest behind = driver_.MakePush(2, {{0, 0}}, 2);
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 1);
  ASSERT_TRUE(driver_.Push(behind, {1, 1}).ok());
  EXPECT_NE(driver_.Pull(0), before);
  v1::StatusReply status;
  driver_.shard().FillStatus(&status);
  EXPECT_EQ(status.server().frozen_bytes(), 3 * 2 * sizeof(float));
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  std::vector<float> all = Numbers(driver_.ios[0].payload);
  all.resize(2);
  EXPECT_EQ(all, before);
  const v1::SavedSlice& w = Work().file().slices(0);
  EXPECT_EQ(w.applied(0).applied(), 1u);
  EXPECT_EQ(w.records(1).sequence(), 1u);
  driver_.Complete(Ended(absl::OkStatus()));
  driver_.shard().FillStatus(&status);
  EXPECT_EQ(status.server().frozen_bytes(), 0u);
}

TEST_F(ShardSnapshotTest, AChunkThatIsRefusedForksNothing) {
  v1::PushRequest behind = driver_.MakePush(1, {{0, 0}}, 2);
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 5);
  EXPECT_FALSE(driver_.Push(behind, {1}).ok());
  EXPECT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok())
      << "snapshot 1.5 was not heard of";
}

TEST_F(ShardSnapshotTest, AConfigurationThatNamesALaterSnapshotDropsTheFork) {
  v1::PushRequest behind = driver_.MakePush(1, {{0, 0}}, 2);
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 1);
  ASSERT_TRUE(driver_.Push(behind, {1, 1}).ok());
  v1::ConfigureRequest configure;
  configure.mutable_header()->set_term(1);
  *configure.mutable_header()->mutable_snapshot() = Pair(1, 2);
  *configure.mutable_configuration() = Config();
  ASSERT_TRUE(driver_.Ask<v1::ConfigureReply>(kChief, configure).ok());
  v1::StatusReply status;
  driver_.shard().FillStatus(&status);
  EXPECT_EQ(status.server().frozen_bytes(), 0u);
  const absl::Status late = driver_.Call(kChief, MakeSeal(1)).status;
  EXPECT_EQ(ReasonOf(late), v1::Refusal::SUPERSEDED);
  EXPECT_EQ(late.message(), "snapshot 1.1 has ended at ps-0, which knows 1.2");
}

TEST_F(ShardSnapshotTest, ALaterCoordinatorDropsTheFork) {
  v1::PushRequest behind = driver_.MakePush(1, {{0, 0}}, 2);
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 1);
  ASSERT_TRUE(driver_.Push(behind, {1, 1}).ok());
  v1::RecallRequest recall;
  recall.mutable_header()->set_term(2);
  recall.set_run_id("run");
  recall.set_job_digest("digest");
  ASSERT_TRUE(driver_.Ask<v1::RecallReply>(kChief, recall).ok());
  v1::StatusReply status;
  driver_.shard().FillStatus(&status);
  EXPECT_EQ(status.server().frozen_bytes(), 0u);
}

// Nobody knows whether its file will ever be committed; the next coordinator's
// snapshot is another.
TEST_F(ShardSnapshotTest,
       Promise3_OneThatReportedItsFileMayLoseTheCoordinator) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver_.Begin(kChief, MakeWritten(1));
  driver_.Complete(Ended(absl::OkStatus()));
  ASSERT_TRUE(driver_.Take(call).status.ok());
  v1::RecallRequest recall;
  recall.mutable_header()->set_term(2);
  recall.set_run_id("run");
  recall.set_job_digest("digest");
  ASSERT_TRUE(driver_.Ask<v1::RecallReply>(kChief, recall).ok());
  v1::StatusReply status;
  driver_.shard().FillStatus(&status);
  EXPECT_EQ(status.server().frozen_bytes(), 0u);
  for (const auto& late : {driver_.Call(kChief, MakeWritten(1)).status,
                           driver_.Call(kChief, MakeSeal(1)).status}) {
    EXPECT_EQ(ReasonOf(late), v1::Refusal::OLD_TERM);
  }
}

TEST_F(ShardSnapshotTest, BlocksOfEqualCountAreOneRun) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const v1::SavedSlice& big = Work().file().slices(1);
  ASSERT_EQ(big.applied_size(), 1);
  EXPECT_EQ(big.applied(0).blocks(), 2u);
}

TEST_F(ShardSnapshotTest, TheSameSealAgainFreezesNothingAnew) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const auto again = driver_.Ask<v1::SealReply>(kChief, MakeSeal(1));
  EXPECT_EQ(again->snapshot(), Pair(1, 1));
  EXPECT_EQ(driver_.ios.size(), 1u);
  v1::SealRequest other = MakeSeal(1);
  other.set_directory("/elsewhere");
  EXPECT_EQ(driver_.Call(kChief, other).status.message(),
            "snapshot 1.1 was sealed before into another directory");
}

TEST_F(ShardSnapshotTest, AFileNameThatTheServerDoesNotFormItselfIsRefused) {
  for (const char* const name :
       {"ps-00002-of-00001.safetensors", "../ps-00001-of-00001.safetensors",
        "model.safetensors", ""}) {
    v1::SealRequest seal = MakeSeal(1);
    seal.set_file_name(name);
    const absl::Status refused = driver_.Call(kChief, seal).status;
    EXPECT_EQ(refused.message(),
              absl::StrCat("snapshot 1.1 of ps-0 is to be written into '", name,
                           "'; its file is 'ps-00001-of-00001.safetensors'"));
    EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  }
  EXPECT_TRUE(driver_.ios.empty());
}

TEST_F(ShardSnapshotTest, ADirectoryWithoutANonceIsRefused) {
  v1::SealRequest seal = MakeSeal(1);
  seal.clear_nonce();
  EXPECT_EQ(driver_.Call(kChief, seal).status.message(),
            "the directory of snapshot 1.1 has no nonce");
  EXPECT_TRUE(driver_.ios.empty());
}

TEST_F(ShardSnapshotTest, ANumberThatNobodyCanHaveOpenedSealsNothing) {
  const absl::Status refused = driver_.Call(kChief, MakeSeal(999)).status;
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::NOT_READY);
  EXPECT_EQ(refused.message(),
            "ps-0 has not heard of snapshot 1.999 yet; the newest it knows is "
            "0.0");
  // The next one is sealed as ever.
  EXPECT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  EXPECT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(17)).ok());
  EXPECT_EQ(ReasonOf(driver_.Call(kChief, MakeSeal(34)).status),
            v1::Refusal::NOT_READY);
}

TEST_F(ShardSnapshotTest, AStampThatNobodyCanHaveHeardEndsNoSnapshot) {
  v1::PushRequest push = driver_.MakePush(1, {{0, 0}}, 2);
  *push.mutable_header()->mutable_snapshot() = Pair(1, 1000000000);
  EXPECT_EQ(ReasonOf(driver_.Push(push, {1, 1}).status()),
            v1::Refusal::NOT_READY);
  *push.mutable_header()->mutable_snapshot() = Pair(2, 1);
  EXPECT_EQ(ReasonOf(driver_.Push(push, {1, 1}).status()),
            v1::Refusal::NOT_READY);
  EXPECT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
}

TEST_F(ShardSnapshotTest, APushFarAheadOfItsSessionSilencesItNot) {
  ASSERT_TRUE(driver_.Push(driver_.MakePush(1, {{0, 0}}, 2), {1, 1}).ok());
  const absl::Status refused =
      driver_.Push(driver_.MakePush(1000000000, {{0, 0}}, 2), {1, 1}).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  const auto next = driver_.Push(driver_.MakePush(2, {{0, 0}}, 2), {1, 1});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->blocks(0).result(), v1::PushedBlock::APPLIED);
}

TEST_F(ShardSnapshotTest, ALowerSnapshotIsSuperseded) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(2)).ok());
  EXPECT_EQ(ReasonOf(driver_.Call(kChief, MakeSeal(1)).status),
            v1::Refusal::SUPERSEDED);
}

TEST_F(ShardSnapshotTest, WrittenIsAnsweredBeforeItsCallerGivesUp) {
  v1::Configuration configuration = Config();
  configuration.mutable_server_settings()->set_park_timeout_ms(50000);
  ShardDriver driver;
  driver.MakeReady(configuration);
  ASSERT_TRUE(driver.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver.Begin(kChief, MakeWritten(1));
  driver.Advance(absl::Seconds(5));
  ASSERT_TRUE(driver.answered(call));
  EXPECT_EQ(ReasonOf(driver.Take(call).status), v1::Refusal::WAIT);
}

TEST_F(ShardSnapshotTest, ASealOfAnotherLifeIsRefused) {
  v1::SealRequest seal = MakeSeal(1);
  *seal.mutable_server_generations(0) = Pair(1, 2);
  const absl::Status refused = driver_.Call(kChief, seal).status;
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(),
            "snapshot 1.1 was not opened under generation 1.1 of ps-0");
  seal.clear_server_generations();
  EXPECT_EQ(ReasonOf(driver_.Call(kChief, seal).status), v1::Refusal::INVALID);
  EXPECT_TRUE(driver_.ios.empty());
}

TEST_F(ShardSnapshotTest, WrittenAnswersWhenTheFileIs) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver_.Begin(kChief, MakeWritten(1));
  EXPECT_FALSE(driver_.answered(call));
  driver_.Complete(Ended(absl::OkStatus()));
  const auto answer = driver_.Take(call);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const auto& reply = static_cast<const v1::WrittenReply&>(*answer.head);
  EXPECT_EQ(reply.snapshot(), Pair(1, 1));
  EXPECT_EQ(reply.file().bytes(), 123u);
  EXPECT_EQ(
      driver_.Ask<v1::WrittenReply>(kChief, MakeWritten(1))->file().bytes(),
      123u);
}

TEST_F(ShardSnapshotTest, Promise4_WrittenSaysWaitAfterAWhile) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver_.Begin(kChief, MakeWritten(1));
  driver_.Advance(absl::Milliseconds(4999));
  EXPECT_FALSE(driver_.answered(call));
  driver_.Advance(absl::Milliseconds(1));
  const absl::Status status = driver_.Take(call).status;
  EXPECT_EQ(ReasonOf(status), v1::Refusal::WAIT);
  EXPECT_EQ(status.message(), "ps-0 is still writing snapshot 1.1");
  EXPECT_EQ(RefusalOf(status).waiting_for(), "ps-0");
}

TEST_F(ShardSnapshotTest, WhatCouldNotBeWrittenIsSaid) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver_.Begin(kChief, MakeWritten(1));
  driver_.Complete(Ended(absl::ResourceExhaustedError("no space left")));
  const absl::Status status = driver_.Take(call).status;
  EXPECT_EQ(ReasonOf(status), v1::Refusal::INVALID);
  EXPECT_EQ(status.message(),
            "ps-0 could not write snapshot 1.1: no space left");
  EXPECT_EQ(driver_.Call(kChief, MakeWritten(1)).status, status);
  EXPECT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(2)).ok());
}

TEST_F(ShardSnapshotTest, AHigherSnapshotDropsAnUnfinishedLowerOne) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver_.Begin(kChief, MakeWritten(1));
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(2)).ok());
  EXPECT_EQ(ReasonOf(driver_.Take(call).status), v1::Refusal::SUPERSEDED);
  EXPECT_EQ(driver_.Call(kChief, MakeWritten(1)).status.message(),
            "snapshot 1.1 is not open; 1.2 is");
  driver_.Complete(Ended(absl::OkStatus(), 0));
  const CallId next = driver_.Begin(kChief, MakeWritten(2));
  EXPECT_FALSE(driver_.answered(next)) << "the first one's end is not its end";
  driver_.Complete(Ended(absl::OkStatus(), 1));
  EXPECT_TRUE(driver_.Take(next).status.ok());
}

TEST_F(ShardSnapshotTest, NewContentDropsTheSnapshot) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver_.Begin(kChief, MakeWritten(1));
  v1::Configuration again = Config();
  *again.mutable_version() = Pair(1, 2);
  *again.mutable_servers(0)->mutable_generation() = Pair(1, 9);
  driver_.MakeReady(again);
  EXPECT_EQ(ReasonOf(driver_.Take(call).status), v1::Refusal::SUPERSEDED);
  EXPECT_EQ(driver_.Call(kChief, MakeWritten(1)).status.message(),
            "snapshot 1.1 is not open");
}

TEST_F(ShardSnapshotTest, Promise8_ParkedCallsAreBounded) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  for (size_t i = 0; i < SnapshotKeeper::kMostParked; ++i) {
    EXPECT_FALSE(driver_.answered(driver_.Begin(kChief, MakeWritten(1))));
  }
  EXPECT_EQ(ReasonOf(driver_.Call(kChief, MakeWritten(1)).status),
            v1::Refusal::OVER_LIMIT);
}

TEST(ShardSnapshotReadyTest, AnEmptyServerCannotBeSealed) {
  ShardDriver driver;
  EXPECT_EQ(ReasonOf(driver.Call(kChief, MakeSeal(1)).status),
            v1::Refusal::NOT_READY);
}

// ---- files with a base

// 20 blocks of which the last is trained, as the last layer of a model may be:
// the gradients of all others are zeros.
class IncrementalTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kBlocks = 20;
  static constexpr uint64_t kBlockBytes = 3 * 262144 * sizeof(float);

  IncrementalTest() {
    driver_.MakeReady(MakeAdamConfiguration(
        {Zeros("body", {kBlocks - 1, 262144}), Zeros("head", {1, 262144})}));
  }

  // A push of all blocks, with this gradient in the trained one.
  void Push(uint64_t sequence, float gradient) {
    for (uint32_t b = 0; b < kBlocks; ++b) {
      // Slices of four blocks each, and the last one.
      const ShardDriver::Place place = {b / 4, b % 4};
      const bool trained = b + 1 == kBlocks;
      ASSERT_TRUE(
          driver_
              .Push(driver_.MakePush(
                        sequence, {trained ? ShardDriver::Place(5, 0) : place},
                        262144),
                    std::vector<float>(262144, trained ? gradient : 0))
              .ok());
    }
  }
  // Seals with this base; bytes of all tensors.
  uint64_t Seal(uint64_t counter, uint64_t base) {
    v1::SealRequest seal = MakeSeal(counter);
    if (base != 0) *seal.mutable_base() = testing::Pair(1, base);
    EXPECT_TRUE(driver_.Ask<v1::SealReply>(kChief, seal).ok());
    IoResult result;
    result.io = driver_.ios.back().io;
    auto written = std::make_unique<v1::WriteShardResult>();
    *written->mutable_file() = file();
    result.head = std::move(written);
    uint64_t bytes = 0;
    for (const auto& tensor : Work().tensors()) bytes += tensor.bytes();
    EXPECT_EQ(bytes, ChainSize(driver_.ios.back().payload));
    driver_.Complete(std::move(result));
    return bytes;
  }
  const v1::WriteShard& Work() {
    return static_cast<const v1::WriteShard&>(*driver_.ios.back().head);
  }
  const v1::ShardFile& file() { return Work().file(); }

  ShardDriver driver_;
};

TEST_F(IncrementalTest, OfAJobThatTrainsItsLastLayerOnlyThatIsWritten) {
  Push(1, 1);
  const uint64_t whole = Seal(1, /*base=*/0);
  EXPECT_EQ(whole, kBlocks * kBlockBytes);
  EXPECT_FALSE(file().has_base());
  for (uint64_t later = 2; later <= 4; ++later) {
    Push(later, 1);
    const uint64_t bytes = Seal(later, /*base=*/1);
    EXPECT_EQ(bytes, kBlockBytes);
    EXPECT_LE(6 * bytes, whole);
    EXPECT_EQ(file().base().snapshot(), Pair(1, 1));
  }
  ASSERT_EQ(file().slices_size(), 6);
  EXPECT_EQ(file().slices(0).changed_size(), 0);
  const v1::SavedSlice& head = file().slices(5);
  EXPECT_EQ(head.values_tensor(), "head") << "the base's";
  ASSERT_EQ(head.changed_size(), 1);
  const v1::ChangedBlocks& changed = head.changed(0);
  EXPECT_EQ(changed.first_block(), 0u);
  EXPECT_EQ(changed.blocks(), 1u);
  EXPECT_EQ(changed.values_tensor(), "head/blocks:0:1");
  EXPECT_EQ(changed.slot_tensors().at("variance"),
            "head/slot:variance/blocks:0:1");
  EXPECT_EQ(Work().tensors(0).name(), "head/blocks:0:1");
  ASSERT_EQ(Work().tensors(0).shape_size(), 1);
  EXPECT_EQ(Work().tensors(0).shape(0), 262144u);
  // Counts and records are whole in each manifest.
  for (const v1::SavedSlice& slice : file().slices()) {
    EXPECT_EQ(slice.applied(0).applied(), 4u);
    EXPECT_EQ(slice.records(1).sequence(), 4u);
  }
}

TEST_F(IncrementalTest, ConsecutiveBlocksShareATensor) {
  Seal(1, /*base=*/0);
  for (const uint32_t block : {0, 1, 3}) {
    ASSERT_TRUE(driver_
                    .Push(driver_.MakePush(1, {{1, block}}, 262144),
                          std::vector<float>(262144, 1))
                    .ok());
  }
  Seal(2, /*base=*/1);
  const v1::SavedSlice& slice = file().slices(1);
  ASSERT_EQ(slice.changed_size(), 2);
  EXPECT_EQ(slice.changed(0).values_tensor(), "body[4:8]/blocks:0:2");
  EXPECT_EQ(slice.changed(1).values_tensor(), "body[4:8]/blocks:3:4");
  EXPECT_EQ(slice.changed(1).first_block(), 3u);
  EXPECT_EQ(Work().tensors(0).shape(0), 2u * 262144);
  const std::vector<float> all = Numbers(driver_.ios.back().payload);
  EXPECT_EQ(all[0], driver_.Pull(1, 0)[0]);
  EXPECT_EQ(all[2 * 262144], 0.1f) << "momentum follows the values";
}

TEST_F(IncrementalTest, AServerThatDoesNotKnowTheBaseWritesAll) {
  EXPECT_EQ(Seal(2, /*base=*/1), kBlocks * kBlockBytes);
  EXPECT_FALSE(file().has_base());
  // Nor is a snapshot that was never committed ever named.
  Push(1, 1);
  EXPECT_EQ(Seal(3, /*base=*/1), kBlocks * kBlockBytes);
  EXPECT_EQ(Seal(4, /*base=*/3), 0u);
}

TEST_F(IncrementalTest, WithMoreThanHalfChangedAllIsWritten) {
  Seal(1, /*base=*/0);
  for (uint32_t b = 0; b < 11; ++b) {
    ASSERT_TRUE(driver_
                    .Push(driver_.MakePush(1, {{b / 4, b % 4}}, 262144),
                          std::vector<float>(262144, 1))
                    .ok());
    const bool most = b + 1 > kBlocks / 2;
    EXPECT_EQ(Seal(2 + b, /*base=*/1), (most ? kBlocks : b + 1) * kBlockBytes);
    EXPECT_NE(file().has_base(), most);
  }
}

// ---- files that can't be written where they are wanted

TEST_F(ShardSnapshotTest, AFileThatIsNotSeenIsKeptUntilItsFateIsKnown) {
  v1::SealRequest seal = MakeSeal(1);
  seal.set_nonce(17);
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, seal).ok());
  EXPECT_EQ(Work().nonce(), 17u);
  const auto fetch = [&](uint64_t offset, uint32_t limit) {
    v1::FetchShardRequest request;
    *request.mutable_header() = MakeWritten(1).header();
    request.set_offset(offset);
    request.set_limit(limit);
    return driver_.Call(kChief, request);
  };
  EXPECT_EQ(ReasonOf(fetch(0, 4).status), v1::Refusal::SUPERSEDED)
      << "it is being written";
  IoResult unseen = Ended(absl::OkStatus());
  static_cast<v1::WriteShardResult&>(*unseen.head).set_unseen(true);
  unseen.payload = {Buffer::Copy("file "), Buffer::Copy("as bytes")};
  driver_.Complete(std::move(unseen));
  const auto written = driver_.Ask<v1::WrittenReply>(kChief, MakeWritten(1));
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_TRUE(written->unseen());
  EXPECT_EQ(written->file().slices_size(), 2);

  const auto window = fetch(3, 6);
  ASSERT_TRUE(window.status.ok()) << window.status;
  const auto& reply = static_cast<const v1::FetchShardReply&>(*window.head);
  EXPECT_EQ(reply.snapshot(), Pair(1, 1));
  EXPECT_EQ(reply.offset(), 3u);
  EXPECT_EQ(reply.total(), 13u);
  EXPECT_EQ(FlattenForTest(window.payload), "e as b");
  EXPECT_EQ(FlattenForTest(fetch(3, 6).payload), "e as b") << "again";
  EXPECT_EQ(FlattenForTest(fetch(9, 100).payload), "ytes");
  EXPECT_EQ(fetch(14, 1).status.message(),
            "1 bytes from 14 are asked of ps-00001-of-00001.safetensors, which "
            "has 13");
  EXPECT_EQ(ReasonOf(fetch(0, 0).status), v1::Refusal::INVALID);

  ASSERT_TRUE(driver_.Configure(Config(), /*committed=*/Pair(1, 1)).ok());
  const absl::Status gone = fetch(0, 4).status;
  EXPECT_EQ(ReasonOf(gone), v1::Refusal::SUPERSEDED);
  EXPECT_EQ(gone.message(), "ps-0 keeps no file of snapshot 1.1");
}

}  // namespace
}  // namespace paramd
