// Variables of several kinds of optimizer on one server.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/core/shard.h"
#include "server/core/testing/replication_bench.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using ::testing::IsEmpty;
using testing::kChief;
using testing::MakeAdamConfiguration;
using testing::MakeSeal;
using testing::Numbers;
using testing::Payload;
using testing::ReplicationBench;
using testing::ShardDriver;
using ::testing::UnorderedElementsAre;
using testing::Zeros;

constexpr int kVariables = 3;

// "w" by Adam, "t" by Adagrad, "b" by plain descent, of two elements each.
v1::Configuration OfThreeKinds() {
  v1::Configuration configuration = MakeAdamConfiguration(
      {Zeros("w", {2}), Zeros("t", {2}), Zeros("b", {2})});
  v1::OptimizerConfig* const optimizer = configuration.mutable_optimizer();
  v1::OptimizerConfig::Group* group = optimizer->add_groups();
  group->set_variables("t");
  group->mutable_adagrad()->set_initial_accumulator(0.5);
  group->set_learning_rate(0.25);
  group = optimizer->add_groups();
  group->set_variables("b");
  group->mutable_sgd();
  return configuration;
}

// A push to all three.
const std::vector<ShardDriver::Place> kAll = {{0, 0}, {1, 0}, {2, 0}};
const std::vector<float> kGradients = {1, 2, -3, 4, 5, -6};

void PushTo(ShardDriver* driver, uint64_t sequence) {
  const auto pushed =
      driver->Push(driver->MakePush(sequence, kAll, 2), kGradients);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
}

// What the shard begins to write of a snapshot.
Outbox::IoItem Sealed(ShardDriver* driver) {
  EXPECT_TRUE(driver->Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  EXPECT_EQ(driver->ios.size(), 1u);
  return std::move(driver->ios[0]);
}

TEST(ShardKindsTest, MemoryAndFileHaveTheSlotsOfEachVariable) {
  ShardDriver driver;
  driver.MakeReady(OfThreeKinds());
  v1::StatusReply status;
  driver.shard().FillStatus(&status);
  EXPECT_EQ(status.server().bytes(), (6 + 4 + 2) * sizeof(float));
  PushTo(&driver, 1);
  const Outbox::IoItem io = Sealed(&driver);
  const auto& head = static_cast<const v1::WriteShard&>(*io.head);
  ASSERT_EQ(head.file().slices_size(), kVariables);
  EXPECT_THAT(
      head.file().slices(0).slot_tensors(),
      UnorderedElementsAre(::testing::Pair("momentum", "w/slot:momentum"),
                           ::testing::Pair("variance", "w/slot:variance")));
  EXPECT_THAT(head.file().slices(1).slot_tensors(),
              UnorderedElementsAre(
                  ::testing::Pair("accumulator", "t/slot:accumulator")));
  EXPECT_THAT(head.file().slices(2).slot_tensors(), IsEmpty());
  const std::vector<float> numbers = Numbers(io.payload);
  ASSERT_EQ(numbers.size(), 12u);
  // Sums of squares, from 0.5.
  EXPECT_EQ(numbers[8], 9.5f);
  EXPECT_EQ(numbers[9], 16.5f);
}

TEST(ShardKindsTest, Promise3_WhatIsRestoredGoesOnWithEachVariablesSlots) {
  ShardDriver driver;
  driver.MakeReady(OfThreeKinds());
  PushTo(&driver, 1);
  PushTo(&driver, 2);
  const Outbox::IoItem io = Sealed(&driver);
  const auto& head = static_cast<const v1::WriteShard&>(*io.head);

  v1::Configuration configuration = OfThreeKinds();
  configuration.mutable_servers(0)->set_restore_directory("/from");
  ShardDriver restored;
  EXPECT_FALSE(restored.Configure(configuration).ok());
  restored.Settle();
  ASSERT_EQ(restored.ios.size(), 1u);
  auto read = std::make_unique<v1::ReadSlicesResult>();
  for (const v1::SavedSlice& slice : head.file().slices()) {
    auto* const piece = read->add_slices()->add_pieces();
    piece->set_row_end(slice.row_end());
    piece->mutable_saved()->set_row_end(slice.row_end());
    *piece->mutable_saved()->mutable_applied() = slice.applied();
  }
  IoResult result;
  result.io = restored.ios[0].io;
  result.head = std::move(read);
  result.payload = io.payload;
  restored.Complete(std::move(result));
  restored.MakeReady(configuration);
  for (uint32_t slice = 0; slice < kVariables; ++slice) {
    EXPECT_EQ(restored.Pull(slice), driver.Pull(slice)) << slice;
  }
  PushTo(&driver, 3);
  PushTo(&restored, 1);
  for (uint32_t slice = 0; slice < kVariables; ++slice) {
    EXPECT_EQ(restored.Pull(slice), driver.Pull(slice)) << slice;
  }
}

TEST(ShardKindsTest, Promise1_ABackupAppliesByEachVariablesKind) {
  ShardDriver alone;
  alone.MakeReady(OfThreeKinds());
  ReplicationBench bench(OfThreeKinds());
  const auto push_home = [&](uint64_t sequence) {
    PushTo(&alone, sequence);
    const CallId push =
        bench.home.Begin(PeerId::Worker(1), bench.PushOf(sequence, kAll, 2),
                         Payload(kGradients));
    bench.Carry();
    ASSERT_TRUE(bench.home.answered(push));
    EXPECT_TRUE(bench.home.Take(push).status.ok());
  };
  push_home(1);  // Its slots are copied to the backup.
  bench.BeginBackup();
  bench.MakeMember();
  push_home(2);
  EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
  bench.TakeOver();
  PushTo(&alone, 3);
  const auto pushed = bench.away.Push(bench.PushOf(3, kAll, 2), kGradients);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  for (uint32_t slice = 0; slice < kVariables; ++slice) {
    EXPECT_EQ(bench.away.Pull(slice), alone.Pull(slice)) << slice;
  }
}

}  // namespace
}  // namespace paramd
