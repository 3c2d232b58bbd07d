// A variable that no optimizer trains, beside one that Adam does.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kChief;
using testing::MakeAdamConfiguration;
using testing::MakeSeal;
using testing::Numbers;
using testing::ShardDriver;
using ::testing::UnorderedElementsAre;
using testing::Zeros;

// Slice 0 is trained and has 1 element, slice 1 is not and has 2.
v1::Configuration MakeBoth() {
  v1::Variable untrained = Zeros("mean", {2});
  untrained.set_untrained(true);
  v1::Configuration configuration =
      MakeAdamConfiguration({Zeros("w", {1}), untrained});
  configuration.mutable_optimizer()->set_schedule(v1::OptimizerConfig::COSINE);
  configuration.set_decay_steps(2);
  configuration.mutable_optimizer()->set_staleness_treatment(
      v1::OptimizerConfig::SCALE_RATE);
  return configuration;
}

v1::PushRequest MakePush(const ShardDriver& driver, uint64_t sequence) {
  v1::PushRequest push = driver.MakePush(sequence, {{0, 0}, {1, 0}}, 2);
  push.mutable_blocks(0)->set_elements(1);
  return push;
}

TEST(ShardUntrainedTest, AGradientIsSubtractedWhateverTheOptimizerDoes) {
  ShardDriver driver;
  driver.MakeReady(MakeBoth());
  // The schedule has reached zero after two of them.
  for (uint64_t n = 1; n <= 4; ++n) {
    ASSERT_TRUE(driver.Push(MakePush(driver, n), {1, 0.25f, -3}).ok());
  }
  EXPECT_THAT(driver.Pull(1), ElementsAre(-1, 12));
  // Twice is once.
  ASSERT_TRUE(driver.Push(MakePush(driver, 4), {1, 0.25f, -3}).ok());
  EXPECT_THAT(driver.Pull(1), ElementsAre(-1, 12));
}

TEST(ShardUntrainedTest, StaleGradientsCountInFull) {
  ShardDriver driver;
  driver.MakeReady(MakeBoth());
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks()->set_slice(1);
  const auto read = driver.Ask<v1::PullReply>(PeerId::Worker(1), pull);
  ASSERT_TRUE(read.ok());
  for (uint64_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(driver.Push(MakePush(driver, n), {1, 1, 1}).ok());
  }
  v1::PushRequest stale = MakePush(driver, 4);
  *stale.mutable_blocks(1)->mutable_computed_on() = read->blocks(0).version();
  ASSERT_TRUE(driver.Push(stale, {1, 8, 8}).ok());
  EXPECT_THAT(driver.Pull(1), ElementsAre(-11, -11));
}

TEST(ShardUntrainedTest, HalvedNumbersAreDecodedFirst) {
  ShardDriver driver;
  driver.MakeReady(MakeBoth());
  v1::PushRequest push = MakePush(driver, 1);
  push.set_encoding(v1::BF16);
  const std::vector<float> gradient = {1, 0.5f, -4};
  Buffer payload = Buffer::Allocate(gradient.size() * 2);
  EncodeNumbers(NumberFormat::kBf16, gradient.data(), gradient.size(),
                payload.mutable_bytes().data());
  ASSERT_TRUE(driver.Call(PeerId::Worker(1), push, {payload}).status.ok());
  EXPECT_THAT(driver.Pull(1), ElementsAre(-0.5f, 4));
}

TEST(ShardUntrainedTest, NoSizeOfItsGradientsIsASpike) {
  v1::Configuration configuration = MakeBoth();
  configuration.mutable_server_settings()->set_spike_factor(2);
  ShardDriver driver;
  driver.MakeReady(configuration);
  for (uint64_t n = 1; n <= 300; ++n) {
    ASSERT_TRUE(driver.Push(MakePush(driver, n), {1, 1e-6f, 1e-6f}).ok());
  }
  EXPECT_TRUE(driver.Push(MakePush(driver, 301), {1, 1e6f, 1e6f}).ok());
  EXPECT_FALSE(driver.Push(MakePush(driver, 302), {1e6f, 1, 1}).ok());
}

TEST(ShardUntrainedTest, ItsMemoryAndItsFileHaveNoSlots) {
  ShardDriver driver;
  driver.MakeReady(MakeBoth());
  v1::StatusReply status;
  driver.shard().FillStatus(&status);
  EXPECT_EQ(status.server().bytes(), (1 + 2 + 2) * sizeof(float));
  ASSERT_TRUE(driver.Push(MakePush(driver, 1), {1, 2, 3}).ok());
  ASSERT_TRUE(driver.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  ASSERT_EQ(driver.ios.size(), 1u);
  const auto& head = static_cast<const v1::WriteShard&>(*driver.ios[0].head);
  ASSERT_EQ(head.file().slices_size(), 2);
  EXPECT_THAT(
      head.file().slices(0).slot_tensors(),
      UnorderedElementsAre(::testing::Pair("momentum", "w/slot:momentum"),
                           ::testing::Pair("variance", "w/slot:variance")));
  EXPECT_THAT(head.file().slices(1).slot_tensors(), IsEmpty());
  EXPECT_EQ(head.file().slices(1).values_tensor(), "mean");
  EXPECT_EQ(head.tensors_size(), 4);
  const std::vector<float> numbers = Numbers(driver.ios[0].payload);
  ASSERT_EQ(numbers.size(), 5u);
  EXPECT_EQ(numbers[3], -2);
  EXPECT_EQ(numbers[4], -3);
}

TEST(ShardUntrainedTest, ItIsRestoredFromItsValuesAlone) {
  ShardDriver driver;
  v1::Configuration configuration = MakeBoth();
  configuration.mutable_servers(0)->set_restore_directory("/from");
  EXPECT_FALSE(driver.Configure(configuration).ok());
  driver.Settle();
  ASSERT_EQ(driver.ios.size(), 1u);
  const auto& wanted = static_cast<const v1::ReadSlices&>(*driver.ios[0].head);
  ASSERT_EQ(wanted.slices_size(), 2);
  EXPECT_FALSE(wanted.slices(0).values_only());
  EXPECT_TRUE(wanted.slices(1).values_only());
  EXPECT_THAT(wanted.slots(), ElementsAre("momentum", "variance"));
  auto read = std::make_unique<v1::ReadSlicesResult>();
  for (const uint64_t rows : {1, 2}) {
    auto* piece = read->add_slices()->add_pieces();
    piece->set_row_end(rows);
    piece->mutable_saved()->set_row_end(rows);
    auto* run = piece->mutable_saved()->add_applied();
    run->set_applied(2);
    run->set_blocks(1);
  }
  IoResult result;
  result.io = driver.ios[0].io;
  result.head = std::move(read);
  result.payload = testing::Payload({5, 0, 0, 7, 8});
  driver.Complete(std::move(result));
  driver.MakeReady(configuration);
  EXPECT_THAT(driver.Pull(0), ElementsAre(5));
  EXPECT_THAT(driver.Pull(1), ElementsAre(7, 8));
  ASSERT_TRUE(driver.Push(MakePush(driver, 1), {1, 1, 1}).ok());
  EXPECT_THAT(driver.Pull(1), ElementsAre(6, 7));
}

}  // namespace
}  // namespace paramd
