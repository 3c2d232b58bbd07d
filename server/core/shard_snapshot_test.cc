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

using testing::MakeAdamConfiguration;
using testing::MakeSeal;
using testing::MakeWritten;
using testing::Numbers;
using testing::Pair;
using testing::ShardDriver;
using testing::Zeros;

constexpr PeerId kChief = PeerId::Coordinator();

v1::Refusal::Reason Reason(const absl::Status& status) {
  return RefusalOf(status).reason();
}

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
  EXPECT_EQ(file.name(), "ps-0");
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
  EXPECT_EQ(Reason(late), v1::Refusal::SUPERSEDED);
  EXPECT_EQ(late.message(),
            "snapshot 1.1 has ended at ps-0, which knows 1.2");
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
  other.set_file_name("elsewhere");
  EXPECT_EQ(driver_.Call(kChief, other).status.message(),
            "snapshot 1.1 was sealed before into another file");
}

TEST_F(ShardSnapshotTest, ALowerSnapshotIsSuperseded) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(2)).ok());
  EXPECT_EQ(Reason(driver_.Call(kChief, MakeSeal(1)).status),
            v1::Refusal::SUPERSEDED);
}

TEST_F(ShardSnapshotTest, ASealOfAnotherLifeIsRefused) {
  v1::SealRequest seal = MakeSeal(1);
  *seal.mutable_server_generations(0) = Pair(1, 2);
  const absl::Status refused = driver_.Call(kChief, seal).status;
  EXPECT_EQ(Reason(refused), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(),
            "snapshot 1.1 was not opened under generation 1.1 of ps-0");
  seal.clear_server_generations();
  EXPECT_EQ(Reason(driver_.Call(kChief, seal).status), v1::Refusal::INVALID);
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
  EXPECT_EQ(Reason(status), v1::Refusal::WAIT);
  EXPECT_EQ(status.message(), "ps-0 is still writing snapshot 1.1");
  EXPECT_EQ(RefusalOf(status).waiting_for(), "ps-0");
}

TEST_F(ShardSnapshotTest, WhatCouldNotBeWrittenIsSaid) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver_.Begin(kChief, MakeWritten(1));
  driver_.Complete(Ended(absl::ResourceExhaustedError("no space left")));
  const absl::Status status = driver_.Take(call).status;
  EXPECT_EQ(Reason(status), v1::Refusal::INVALID);
  EXPECT_EQ(status.message(),
            "ps-0 could not write snapshot 1.1: no space left");
  EXPECT_EQ(driver_.Call(kChief, MakeWritten(1)).status, status);
  EXPECT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(2)).ok());
}

TEST_F(ShardSnapshotTest, AHigherSnapshotDropsAnUnfinishedLowerOne) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const CallId call = driver_.Begin(kChief, MakeWritten(1));
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(2)).ok());
  EXPECT_EQ(Reason(driver_.Take(call).status), v1::Refusal::SUPERSEDED);
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
  EXPECT_EQ(Reason(driver_.Take(call).status), v1::Refusal::SUPERSEDED);
  EXPECT_EQ(driver_.Call(kChief, MakeWritten(1)).status.message(),
            "snapshot 1.1 is not open");
}

TEST_F(ShardSnapshotTest, Promise8_ParkedCallsAreBounded) {
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  for (size_t i = 0; i < Shard::kMostParked; ++i) {
    EXPECT_FALSE(driver_.answered(driver_.Begin(kChief, MakeWritten(1))));
  }
  EXPECT_EQ(Reason(driver_.Call(kChief, MakeWritten(1)).status),
            v1::Refusal::OVER_LIMIT);
}

TEST(ShardSnapshotReadyTest, AnEmptyServerCannotBeSealed) {
  ShardDriver driver;
  EXPECT_EQ(Reason(driver.Call(kChief, MakeSeal(1)).status),
            v1::Refusal::NOT_READY);
}

}  // namespace
}  // namespace paramd
