// Keyed variables: rows that come into being when a push names their keys.
#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "config/initial_values.h"
#include "proto/refusal.h"
#include "server/core/testing/shard_driver.h"
#include "tensor/disk_memory.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

using testing::AddRows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::MakeSeal;
using testing::Numbers;
using testing::Pair;
using testing::Payload;
using testing::ShardDriver;
using testing::Uniform;
using testing::Zeros;

v1::Variable Keyed(uint64_t rows, uint64_t width, bool evicts = true) {
  v1::Variable variable = Uniform("table", {rows, width});
  variable.set_sparse(true);
  variable.set_keyed(true);
  variable.set_when_full(evicts ? v1::Variable::EVICT : v1::Variable::IGNORE);
  return variable;
}

// In the order in which they travel.
std::vector<uint64_t> Sorted(std::vector<uint64_t> keys) {
  std::sort(keys.begin(), keys.end(),
            [](uint64_t a, uint64_t b) { return MixKey(a) < MixKey(b); });
  return keys;
}

Buffer Mixed(const std::vector<uint64_t>& keys) {
  std::vector<uint64_t> mixed;
  for (const uint64_t key : keys) mixed.push_back(MixKey(key));
  return Buffer::Copy(AsBytes(absl::MakeConstSpan(mixed)));
}

// Of a server with a disk.
Shard::Options OptionsOnDisk() {
  Shard::Options options;
  options.incarnation = 100;
  options.life_seed = 1000;
  options.disk = DiskMemory::CreateInMemory();
  return options;
}

// One table, of 4 rows of 2 unless told.
class ShardKeyedTest : public ::testing::Test {
 protected:
  ShardKeyedTest() { Use(MakeConfiguration({Keyed(4, 2)})); }

  void Use(const v1::Configuration& configuration) {
    configuration_ = configuration;
    driver_ = std::make_unique<ShardDriver>(options_);
    driver_->MakeReady(configuration);
  }

  // Worker 1's next, of gradients of `by` for each number of those keys' rows.
  v1::PushRequest PushOf(const std::vector<uint64_t>& keys) {
    const auto rows = static_cast<uint32_t>(keys.size());
    v1::PushRequest push = driver_->MakePush(++sequence_, {}, 0);
    AddRows({0, 0}, rows, push.mutable_rows());
    return push;
  }
  absl::StatusOr<v1::PushReply> Send(const v1::PushRequest& push,
                                     const std::vector<uint64_t>& keys,
                                     float by, size_t width = 2) {
    BufferChain payload = {Mixed(keys)};
    const std::vector<float> gradient(width * keys.size(), by);
    for (Buffer& buffer : Payload(gradient)) payload.push_back(buffer);
    return driver_->Ask<v1::PushReply>(PeerId::Worker(1), push, payload);
  }
  void Push(std::vector<uint64_t> keys, float by = 1) {
    keys = Sorted(std::move(keys));
    ASSERT_TRUE(Send(PushOf(keys), keys, by).ok());
  }
  ShardDriver::Answer PullOf(const std::vector<uint64_t>& keys,
                             uint32_t block = 0) {
    v1::PullRequest pull;
    pull.set_encoding(v1::FP32);
    AddRows({0, block}, static_cast<uint32_t>(keys.size()),
            pull.mutable_rows());
    return driver_->Call(PeerId::Worker(1), pull, {Mixed(keys)});
  }
  // What a key's row holds, as far as it is from the key's initial values.
  float Moved(uint64_t key) {
    const std::vector<float> now = Numbers(PullOf({key}).payload);
    const std::vector<float> first = Initial(key);
    EXPECT_EQ(now.size(), 2u);
    EXPECT_FLOAT_EQ(now[0] - first[0], now[1] - first[1]);
    return now[0] - first[0];
  }
  std::vector<float> Initial(uint64_t key) const {
    std::vector<float> row(2);
    InitialValues(configuration_.layout().variables(0), configuration_.seed())
        .FillRow(key, absl::MakeSpan(row));
    return row;
  }
  v1::TableStats Stats() const {
    v1::StatusReply status;
    driver_->shard().FillStatus(&status);
    EXPECT_EQ(status.server().tables_size(), 1);
    return status.server().tables(0);
  }
  // What the shard writes into its file.
  const Outbox::IoItem& Written() {
    driver_->Settle();
    const auto write = std::find_if(
        driver_->ios.begin(), driver_->ios.end(), [](const auto& io) {
          return io.head->GetDescriptor() == v1::WriteShard::descriptor();
        });
    EXPECT_NE(write, driver_->ios.end());
    return *write;
  }
  // Goes on with a server that was filled from that.
  void Restore(const Outbox::IoItem& written) {
    const auto& file = static_cast<const v1::WriteShard&>(*written.head).file();
    auto read = std::make_unique<v1::ReadSlicesResult>();
    read->mutable_manifest()->set_run_id("run");
    auto* const piece = read->add_slices()->add_pieces();
    *piece->mutable_saved() = file.slices(0);
    piece->set_row_end(file.slices(0).row_end());
    IoResult result;
    result.head = std::move(read);
    result.payload = written.payload;
    configuration_.mutable_servers(0)->set_restore_directory("/from");
    driver_ = std::make_unique<ShardDriver>(options_);
    EXPECT_FALSE(driver_->Configure(configuration_).ok());
    driver_->Settle();
    ASSERT_EQ(driver_->ios.size(), 1u);
    result.io = driver_->ios[0].io;
    driver_->Complete(std::move(result));
    driver_->MakeReady(configuration_);
  }

  // Begins anew with these keys out of something trained before: that of key k,
  // which is not 0, holds [k, k].
  void WarmStart(v1::Configuration configuration,
                 const std::vector<uint64_t>& keys) {
    configuration.mutable_warm_start()->set_path("/trained");
    driver_ = std::make_unique<ShardDriver>(options_);
    configuration_ = configuration;
    EXPECT_FALSE(driver_->Configure(configuration).ok());
    driver_->Settle();
    ASSERT_EQ(driver_->ios.size(), 1u);
    const auto& wanted =
        static_cast<const v1::ReadWarmStart&>(*driver_->ios[0].head);
    ASSERT_TRUE(wanted.slices(0).keyed());
    const size_t rows = wanted.slices(0).row_end();
    std::vector<float> values(rows * 2);
    std::vector<uint64_t> integers(rows * 2);
    for (size_t row = 0; row < keys.size(); ++row) {
      values[row * 2] = values[row * 2 + 1] = static_cast<float>(keys[row]);
      integers[row] = keys[row];
      integers[rows + row] = 1;
    }
    auto read = std::make_unique<v1::ReadWarmStartResult>();
    read->add_found(true);
    IoResult result;
    result.io = driver_->ios[0].io;
    result.head = std::move(read);
    result.payload = Payload(values);
    result.payload.push_back(
        Buffer::Copy(AsBytes(absl::MakeConstSpan(integers))));
    driver_->Complete(std::move(result));
    driver_->MakeReady(configuration);
    sequence_ = 0;
  }
  // What a key's row holds, twice the same.
  float Holds(uint64_t key) {
    const std::vector<float> now = Numbers(PullOf({key}).payload);
    EXPECT_EQ(now[0], now[1]);
    return now[0];
  }

  Shard::Options options_ = OptionsOnDisk();
  v1::Configuration configuration_;
  std::unique_ptr<ShardDriver> driver_;
  uint64_t sequence_ = 0;
};

TEST_F(ShardKeyedTest, Promise8_APullBeyondTheLimitReadsNoRow) {
  Use(MakeConfiguration({Keyed(4, 4096)}));
  std::vector<uint64_t> keys(300);
  std::iota(keys.begin(), keys.end(), 0);
  const absl::Status refused = PullOf(Sorted(keys)).status;
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(refused.message(),
            "the 1 blocks of this pull have more than 4259840 bytes; pull "
            "fewer at a time");
  EXPECT_EQ(Stats().looked_up(), 0);
}

TEST_F(ShardKeyedTest, ALookupOfAnUnknownKeyBringsItsInitialValuesAndNoRow) {
  const ShardDriver::Answer answer = PullOf(Sorted({5, ~uint64_t{0}}));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  std::vector<float> wanted;
  for (const uint64_t key : Sorted({5, ~uint64_t{0}})) {
    for (const float number : Initial(key)) wanted.push_back(number);
  }
  EXPECT_EQ(Numbers(answer.payload), wanted);
  EXPECT_NE(Initial(5), Initial(~uint64_t{0}));
  EXPECT_EQ(Stats().rows(), 0);
}

TEST_F(ShardKeyedTest, APushGivesItsKeysRows) {
  Push({0, 7}, 0.5);
  Push({7}, 0.25);
  EXPECT_FLOAT_EQ(Moved(0), -0.5);
  EXPECT_FLOAT_EQ(Moved(7), -0.75);
  EXPECT_FLOAT_EQ(Moved(8), 0);
  EXPECT_EQ(Stats().variable(), "table");
  EXPECT_EQ(Stats().rows(), 2);
  EXPECT_EQ(Stats().capacity(), 4);
  EXPECT_EQ(Stats().created(), 2);
}

// Rows are counted for people: that may take a look at each.
TEST_F(ShardKeyedTest, TheCoordinatorHearsCountsAndNoRows) {
  Push({1, 2, 3, 4});
  Push({5});
  const auto told = driver_->Configure(configuration_);
  ASSERT_TRUE(told.ok()) << told.status();
  ASSERT_EQ(told->tables_size(), 1);
  const v1::TableStats& table = told->tables(0);
  EXPECT_EQ(table.variable(), "table");
  EXPECT_EQ(table.capacity(), 4);
  EXPECT_EQ(table.created(), 5);
  EXPECT_EQ(table.evicted(), 1);
  EXPECT_EQ(table.keys(), 5);
  EXPECT_EQ(table.rows(), 0);
}

TEST_F(ShardKeyedTest, Promise1_KeysPushedAgainAreInOnce) {
  const v1::PushRequest push = PushOf({9});
  ASSERT_TRUE(Send(push, {9}, 1).ok());
  const auto again = Send(push, {9}, 1);
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(again->row_results(),
              ElementsAre(v1::PushedBlock::ALREADY_APPLIED));
  EXPECT_FLOAT_EQ(Moved(9), -1);
  EXPECT_EQ(Stats().created(), 1);
}

TEST_F(ShardKeyedTest, AFullTableGivesANewKeyTheRowUnusedForLongest) {
  Push({1, 2, 3, 4});
  Push({1, 3, 4});
  Push({5});
  EXPECT_FLOAT_EQ(Moved(5), -1);
  EXPECT_FLOAT_EQ(Moved(2), 0);
  EXPECT_FLOAT_EQ(Moved(1), -2);
  // It begins anew.
  Push({2});
  EXPECT_FLOAT_EQ(Moved(2), -1);
  EXPECT_EQ(Stats().rows(), 4);
  EXPECT_EQ(Stats().evicted(), 2);
}

TEST_F(ShardKeyedTest, OrDropsItsGradient) {
  Use(MakeConfiguration({Keyed(4, 2, /*evicts=*/false)}));
  Push({1, 2, 3, 4});
  Push({1, 5});
  EXPECT_FLOAT_EQ(Moved(1), -2);
  EXPECT_FLOAT_EQ(Moved(5), 0);
  EXPECT_EQ(Stats().ignored(), 1);
  EXPECT_EQ(Stats().evicted(), 0);
}

TEST_F(ShardKeyedTest, AKeyGetsARowWithTheGradientThatAdmitsIt) {
  v1::Variable table = Keyed(4, 2);
  table.set_admit_after(2);
  Use(MakeConfiguration({table}));
  Push({1, 2});
  EXPECT_FLOAT_EQ(Moved(1), 0);
  Push({1, 3});
  EXPECT_FLOAT_EQ(Moved(1), -1);
  EXPECT_FLOAT_EQ(Moved(2), 0);
  Push({1});
  EXPECT_FLOAT_EQ(Moved(1), -2);
  EXPECT_EQ(Stats().rows(), 1);
  EXPECT_EQ(Stats().created(), 1);
  EXPECT_EQ(Stats().not_admitted(), 3);
}

TEST_F(ShardKeyedTest, ARowThatNothingNamesAnyMoreIsGivenUp) {
  v1::Variable table = Keyed(4, 2);
  table.set_expire_after(3);
  Use(MakeConfiguration({table}));
  Push({1, 2});
  for (int i = 0; i < 8; ++i) Push({1});
  EXPECT_EQ(Stats().rows(), 1);
  EXPECT_EQ(Stats().expired(), 1);
  EXPECT_FLOAT_EQ(Moved(2), 0);
  // It begins anew.
  Push({2});
  EXPECT_FLOAT_EQ(Moved(2), -1);
}

TEST_F(ShardKeyedTest, Promise9_AnAdmissionThatCanNotBeCountedIsRefused) {
  v1::Variable table = Keyed(4, 2);
  table.set_admit_after(256);
  ShardDriver driver;
  EXPECT_THAT(
      std::string(
          driver.Configure(MakeConfiguration({table})).status().message()),
      HasSubstr("'table' admits keys after 256 gradients; the most is "
                "255"));
}

TEST_F(ShardKeyedTest, AnEvictedKeysSlotsAreNotInherited) {
  Use(MakeAdamConfiguration({Keyed(1, 2)}));
  Push({1}, 4);
  const float first = Moved(1);
  Push({1}, 4);
  Push({2}, 4);
  EXPECT_FLOAT_EQ(Moved(2), first);
}

TEST_F(ShardKeyedTest, Promise3_ASnapshotHasTheKeysBeforeItsCut) {
  Push({1, 2, 3, 4});
  // After the cut a row changes hands; then a push from before it comes.
  v1::PushRequest behind = PushOf({5});
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 1);
  ASSERT_TRUE(Send(behind, {5}, 1).ok());
  Push({2});
  ASSERT_TRUE(
      driver_->Ask<v1::SealReply>(PeerId::Coordinator(), MakeSeal(1)).ok());
  Restore(Written());
  EXPECT_EQ(Stats().rows(), 4);
  EXPECT_FLOAT_EQ(Moved(1), -1);
  EXPECT_FLOAT_EQ(Moved(2), -2);
  EXPECT_FLOAT_EQ(Moved(5), 0);
}

TEST_F(ShardKeyedTest, ARestoredTableGoesOnAsTheSavedOne) {
  v1::Variable table = Keyed(16, 2);
  table.set_admit_after(2);
  table.set_expire_after(10);
  for (const bool restored : {false, true}) {
    Use(MakeAdamConfiguration({table}));
    sequence_ = 0;
    Push({1, 2, 3, 4, 6, 8});
    Push({1, 2, 3});
    Push({4, 2});
    if (restored) {
      ASSERT_TRUE(
          driver_->Ask<v1::SealReply>(PeerId::Coordinator(), MakeSeal(1)).ok());
      Restore(Written());
    }
    // One that a gradient was named before, and one that none was.
    Push({6, 7});
    Push({4, 7});
    for (int i = 0; i < 20; ++i) Push({7});
    EXPECT_GT(Stats().expired(), 0);
    EXPECT_GT(Stats().not_admitted(), 0);
    static std::vector<float> undisturbed;
    if (!restored) {
      undisturbed = driver_->Pull(0);
    } else {
      EXPECT_EQ(driver_->Pull(0), undisturbed);
    }
  }
}

// Of 2,048 rows a quarter lie in memory. Adam's slots go with their rows.
TEST_F(ShardKeyedTest, RowsOfAWarmStartAreThereBeforeAnyPush) {
  v1::Variable table = Keyed(4, 2);
  table.set_admit_after(3);
  v1::Configuration configuration = MakeConfiguration({table});
  configuration.mutable_optimizer()->mutable_adagrad()->set_initial_accumulator(
      3);
  WarmStart(configuration, {17, 5});
  EXPECT_EQ(Stats().rows(), 2);
  EXPECT_EQ(Holds(17), 17);
  EXPECT_FLOAT_EQ(Moved(6), 0);
  // Its key is admitted, and its slots begin as those of a new row.
  Push({5, 6});
  EXPECT_NEAR(Holds(5), 5 - 0.5, 1e-5);  // 1 / sqrt(3 + 1)
  EXPECT_EQ(Holds(17), 17);
  EXPECT_EQ(Stats().not_admitted(), 1);
}

TEST_F(ShardKeyedTest, FtrlBeginsFromTheRowsOfAWarmStart) {
  v1::Configuration configuration = MakeConfiguration({Keyed(4, 2)});
  configuration.mutable_optimizer()->set_learning_rate(0.05);
  configuration.mutable_optimizer()->mutable_ftrl()->set_l1(0.5);
  WarmStart(configuration, {17, 5});
  Push({5, 17}, 0);
  EXPECT_NEAR(Holds(5), 5, 1e-5);
  EXPECT_NEAR(Holds(17), 17, 1e-4);
  Push({5});
  EXPECT_LT(Holds(5), 5);
  EXPECT_GT(Holds(5), 4);
}

TEST_F(ShardKeyedTest, ARowOfAWarmStartCountsAsUsedByTheFirstPush) {
  v1::Variable table = Keyed(4, 2);
  table.set_expire_after(20);
  WarmStart(MakeConfiguration({table}), {1, 2, 3, 4});
  Push({4, 9});
  EXPECT_EQ(Stats().ignored(), 1) << "all rows are in use now";
  Push({9});
  EXPECT_FLOAT_EQ(Moved(1), 0) << "of equals the first goes";
  EXPECT_FLOAT_EQ(Moved(9), -1);
  EXPECT_EQ(Holds(2), 2);
  for (int i = 0; i < 64 + 20; ++i) Push({9}, 0);
  EXPECT_EQ(Stats().expired(), 3);
  EXPECT_EQ(Stats().rows(), 1);
}

TEST_F(ShardKeyedTest, RowsOfAWarmStartLieOnTheDiskWhereThatIsSaid) {
  v1::Variable table = Keyed(8, 2);
  table.set_memory_rows(4);
  WarmStart(MakeConfiguration({table}), {1, 2, 3, 4, 5, 6});
  for (uint64_t key = 1; key <= 6; ++key) EXPECT_EQ(Holds(key), key);
  EXPECT_EQ(Stats().on_disk(), 2) << "of the lookups";
  for (int i = 0; i < 3; ++i) {
    for (uint64_t key = 1; key <= 6; ++key) Push({key});
  }
  for (uint64_t key = 1; key <= 6; ++key) EXPECT_EQ(Holds(key), key - 3.0f);
  EXPECT_EQ(Stats().evicted(), 0);
}

// With rows of 11 a page of the disk begins amid one.
class RowsOnDiskTest : public ShardKeyedTest,
                       public ::testing::WithParamInterface<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(DiskWidths, RowsOnDiskTest, ::testing::Values(8, 11));

TEST_P(RowsOnDiskTest, TheyHoldWhatThoseInMemoryWould) {
  std::vector<std::vector<float>> outcomes;
  for (const uint64_t memory_rows : {0, 512}) {
    for (const bool restored : {false, true}) {
      v1::Variable table = Keyed(2048, GetParam());
      table.set_memory_rows(memory_rows);
      Use(MakeAdamConfiguration({table}));
      sequence_ = 0;
      RandomStream random(7);
      for (int push = 0; push < 100; ++push) {
        std::set<uint64_t> keys;
        while (keys.size() < 40) keys.insert(random.Below(1500));
        const std::vector<uint64_t> sorted = Sorted({keys.begin(), keys.end()});
        const auto by = random.Uniform();
        v1::PushRequest request = PushOf(sorted);
        if (restored && push >= 50) {
          *request.mutable_header()->mutable_snapshot() = Pair(1, 1);
        }
        ASSERT_TRUE(Send(request, sorted, by, GetParam()).ok());
        if (restored && push == 70) {
          ASSERT_TRUE(
              driver_->Ask<v1::SealReply>(PeerId::Coordinator(), MakeSeal(1))
                  .ok());
        }
      }
      EXPECT_EQ(Stats().evicted(), 0);
      EXPECT_EQ(Stats().memory_rows(), memory_rows > 0 ? 512 : 2048);
      std::vector<uint64_t> all(1500);
      std::iota(all.begin(), all.end(), 0);
      outcomes.push_back(Numbers(PullOf(Sorted(all)).payload));
      EXPECT_EQ(Stats().looked_up(), 1500);
      // Of those in memory a quarter at most are spare.
      const uint64_t most = memory_rows > 0 ? Stats().rows() - 384 : 0;
      const uint64_t least = memory_rows > 0 ? Stats().rows() - 512 : 0;
      EXPECT_GE(Stats().on_disk(), least);
      EXPECT_LE(Stats().on_disk(), most);
      if (!restored) continue;
      // As of the cut.
      Restore(Written());
      outcomes.push_back(Numbers(PullOf(Sorted(all)).payload));
    }
  }
  ASSERT_EQ(outcomes.size(), 6);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcomes[i], outcomes[i + 3]) << i;
  EXPECT_EQ(outcomes[0], outcomes[1]);
  EXPECT_NE(outcomes[1], outcomes[2]);
}

TEST_F(ShardKeyedTest, WhatLiesOnDiskTakesNoMemory) {
  const auto bytes = [&](uint64_t memory_rows) {
    v1::Variable table = Keyed(262144, 8);
    table.set_memory_rows(memory_rows);
    Use(MakeConfiguration({table}));
    v1::StatusReply status;
    driver_->shard().FillStatus(&status);
    return status.server().memory_bytes();
  };
  // 8 buckets of values; keys and uses stay.
  EXPECT_EQ(bytes(0), (8 << 20) + 262144 * 16);
  EXPECT_EQ(bytes(65536), (2 << 20) + 262144 * 16);
}

TEST_F(ShardKeyedTest, RowsOnDiskNeedADisk) {
  v1::Variable table = Keyed(4, 2);
  table.set_memory_rows(1);
  ShardDriver fits;
  EXPECT_FALSE(fits.Configure(MakeConfiguration({table})).ok());
  fits.Settle();
  EXPECT_TRUE(fits.Configure(MakeConfiguration({table})).ok())
      << "no page can lie there";
  table = Keyed(2048, 8);
  table.set_memory_rows(512);
  ShardDriver driver;
  EXPECT_THAT(
      std::string(
          driver.Configure(MakeConfiguration({table})).status().message()),
      HasSubstr("not all rows of 'table' lie in memory (memory_rows), "
                "and disk_directory of this server is empty"));
}

TEST_F(ShardKeyedTest, AFileHasKeysAndUsesAsIntegers) {
  Push({11});
  Push({12});
  ASSERT_TRUE(
      driver_->Ask<v1::SealReply>(PeerId::Coordinator(), MakeSeal(1)).ok());
  const Outbox::IoItem& written = Written();
  const auto& head = static_cast<const v1::WriteShard&>(*written.head);
  ASSERT_EQ(head.tensors_size(), 3);
  EXPECT_EQ(head.tensors(1).name(), "table/slot:key");
  EXPECT_EQ(head.tensors(2).name(), "table/slot:used");
  for (const int column : {1, 2}) {
    EXPECT_EQ(head.tensors(column).dtype(), v1::INT64);
    EXPECT_THAT(head.tensors(column).shape(), ElementsAre(4));
    EXPECT_EQ(head.tensors(column).bytes(), 32);
  }
  std::vector<int64_t> columns(8);
  ChainReader reader(written.payload);
  reader.Take(8 * sizeof(float));
  ASSERT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(columns))));
  EXPECT_THAT(columns, ElementsAre(11, 12, 0, 0, 1, 2, 0, 0));
}

TEST_F(ShardKeyedTest, Promise9_WrongKeysAreRefusedAndChangeNothing) {
  // 8 rows in buckets of 2.
  constexpr uint32_t kWidth = 131072;
  Use(MakeConfiguration({Keyed(8, kWidth)}));
  uint64_t elsewhere = 0;
  while (BucketBegin(MixKey(elsewhere), 8, kWidth) == 0) ++elsewhere;
  const auto refused = [&](const std::vector<uint64_t>& keys,
                           const std::string& sentence) {
    const auto reply = Send(PushOf(keys), keys, 1, kWidth);
    EXPECT_EQ(RefusalOf(reply.status()).reason(), v1::Refusal::INVALID);
    EXPECT_THAT(std::string(reply.status().message()), HasSubstr(sentence));
    EXPECT_THAT(std::string(PullOf(keys).status.message()),
                HasSubstr(sentence));
  };
  refused({elsewhere}, "is another block's");
  refused({elsewhere, elsewhere}, "they must ascend");
  EXPECT_EQ(Stats().rows(), 0);
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  AddRows({0, 0}, 1u << 31, pull.mutable_rows());
  EXPECT_THAT(std::string(driver_->Call(PeerId::Worker(1), pull, {Mixed({1})})
                              .status.message()),
              HasSubstr("has 8 bytes of names of rows"));
}

TEST_F(ShardKeyedTest, AVariableThatCannotBeKeyedIsRefused) {
  const auto why = [](const v1::Variable& variable) {
    ShardDriver driver;
    return std::string(
        driver.Configure(MakeConfiguration({variable})).status().message());
  };
  v1::Variable dense = Keyed(4, 2);
  dense.set_sparse(false);
  EXPECT_THAT(why(dense), HasSubstr("not sparse"));
  v1::Variable undecided = Keyed(4, 2);
  undecided.clear_when_full();
  EXPECT_THAT(why(undecided), HasSubstr("when it is full"));
  EXPECT_THAT(why(Keyed(3, 131072)), HasSubstr("must be a multiple"));
  EXPECT_THAT(why(Keyed(3, 131071)), HasSubstr("must be a multiple"));
  EXPECT_THAT(why(Keyed(3, 262145)), HasSubstr("at most 262144"));
}

}  // namespace
}  // namespace paramd
