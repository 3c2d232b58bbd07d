// Tables whose rows are not as wide as divides a block: a block has whole rows,
// and some elements fewer than it could have.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/initial_values.h"
#include "proto/refusal.h"
#include "server/core/testing/shard_driver.h"
#include "tensor/keyed_rows.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using testing::AddRows;
using ::testing::HasSubstr;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::MakeSeal;
using testing::Numbers;
using testing::Payload;
using testing::ShardDriver;
using testing::Uniform;
using testing::Zeros;

// A block, and how many rows it has.
struct BlockOfRows {
  uint32_t slice;
  uint32_t block;
  uint32_t rows;
};

// Blocks of at most 16 elements, two to a slice. The parameter is how many
// elements a row has.
class ShardWidthTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static void SetUpTestSuite() {
    internal::cut = {.block_elements = 16, .slice_bytes = 128};
  }
  static void TearDownTestSuite() { internal::cut = Cut(); }

  static uint64_t width() { return GetParam(); }
  static uint64_t block_rows() { return 16 / width(); }

  // Five blocks and a row more.
  static v1::Variable Sparse() {
    v1::Variable table = Zeros("table", {5 * block_rows() + 1, width()});
    table.set_sparse(true);
    return table;
  }
  // Three buckets.
  static v1::Variable Keyed() {
    v1::Variable table = Uniform("table", {3 * block_rows(), width()});
    table.set_sparse(true);
    table.set_keyed(true);
    table.set_when_full(v1::Variable::EVICT);
    return table;
  }

  void Use(const v1::Configuration& configuration) {
    configuration_ = configuration;
    driver_ = std::make_unique<ShardDriver>();
    driver_->MakeReady(configuration);
    sequence_ = 0;
  }

  // In the order of the rows.
  std::vector<BlockOfRows> Blocks() const {
    std::vector<BlockOfRows> blocks;
    const auto& slices = configuration_.layout().slices();
    for (int s = 0; s < slices.size(); ++s) {
      uint64_t left = slices[s].row_end() - slices[s].row_begin();
      for (uint32_t b = 0; left > 0; ++b) {
        const uint64_t rows = std::min(left, block_rows());
        blocks.push_back(
            {static_cast<uint32_t>(s), b, static_cast<uint32_t>(rows)});
        left -= rows;
      }
    }
    return blocks;
  }
  // All numbers of the table.
  std::vector<float> PullAll() {
    std::vector<float> all;
    for (const BlockOfRows& block : Blocks()) {
      const std::vector<float> part = driver_->Pull(block.slice, block.block);
      EXPECT_EQ(part.size(), block.rows * width());
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  // Worker 1's next push, of all rows; row r's gradient is r + 1 times `by`.
  absl::Status PushAllRows(float by) {
    v1::PushRequest push = driver_->MakePush(++sequence_, {}, 0);
    std::vector<uint32_t> numbers;
    std::vector<float> gradient;
    uint64_t row = 0;
    for (const BlockOfRows& block : Blocks()) {
      AddRows({block.slice, block.block}, block.rows, push.mutable_rows());
      for (uint32_t r = 0; r < block.rows; ++r) {
        numbers.push_back(r);
        gradient.insert(gradient.end(), width(),
                        by * static_cast<float>(++row));
      }
    }
    return Send(push, Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers))),
                gradient);
  }
  absl::Status Send(const v1::PushRequest& push, const Buffer& names,
                    const std::vector<float>& gradient) {
    BufferChain payload = {names};
    for (Buffer& buffer : Payload(gradient)) payload.push_back(buffer);
    return driver_->Ask<v1::PushReply>(PeerId::Worker(1), push, payload)
        .status();
  }

  // Of the keyed table: so many keys of a bucket, and where it lies.
  static std::vector<uint64_t> KeysOf(uint64_t bucket, size_t count) {
    std::vector<uint64_t> keys;
    for (uint64_t key = 1; keys.size() < count; ++key) {
      const uint64_t begin =
          BucketBegin(MixKey(key), 3 * block_rows(), width());
      if (begin == bucket * block_rows()) keys.push_back(key);
    }
    return keys;
  }
  static Buffer Mixed(uint64_t key) {
    const uint64_t mixed = MixKey(key);
    return Buffer::Copy(AsBytes(absl::MakeConstSpan(&mixed, 1)));
  }
  absl::Status PushKey(const BlockOfRows& bucket, uint64_t key, float by) {
    v1::PushRequest push = driver_->MakePush(++sequence_, {}, 0);
    AddRows({bucket.slice, bucket.block}, 1, push.mutable_rows());
    return Send(push, Mixed(key), std::vector<float>(width(), by));
  }
  ShardDriver::Answer PullKey(const BlockOfRows& bucket, uint64_t key) {
    v1::PullRequest pull;
    pull.set_encoding(v1::FP32);
    AddRows({bucket.slice, bucket.block}, 1, pull.mutable_rows());
    return driver_->Call(PeerId::Worker(1), pull, {Mixed(key)});
  }
  // What a key begins with, less `by`.
  std::vector<float> InitialLess(uint64_t key, float by) const {
    std::vector<float> row(width());
    InitialValues(configuration_.layout().variables(0), configuration_.seed())
        .FillRow(key, absl::MakeSpan(row));
    for (float& value : row) value -= by;
    return row;
  }

  // Writes a snapshot, and goes on with a server that was filled from it.
  void SaveAndRestore() {
    ASSERT_TRUE(
        driver_->Ask<v1::SealReply>(PeerId::Coordinator(), MakeSeal(1)).ok());
    driver_->Settle();
    const auto write = std::find_if(
        driver_->ios.begin(), driver_->ios.end(), [](const auto& io) {
          return io.head->GetDescriptor() == v1::WriteShard::descriptor();
        });
    ASSERT_NE(write, driver_->ios.end());
    auto read = std::make_unique<v1::ReadSlicesResult>();
    read->mutable_manifest()->set_run_id("run");
    const auto& written = static_cast<const v1::WriteShard&>(*write->head);
    for (const v1::SavedSlice& saved : written.file().slices()) {
      auto* const piece = read->add_slices()->add_pieces();
      piece->set_row_begin(saved.row_begin());
      piece->set_row_end(saved.row_end());
      *piece->mutable_saved() = saved;
    }
    IoResult result;
    result.head = std::move(read);
    result.payload = write->payload;
    configuration_.mutable_servers(0)->set_restore_directory("/from");
    driver_ = std::make_unique<ShardDriver>();
    EXPECT_FALSE(driver_->Configure(configuration_).ok());
    driver_->Settle();
    ASSERT_EQ(driver_->ios.size(), 1u);
    result.io = driver_->ios[0].io;
    driver_->Complete(std::move(result));
    driver_->MakeReady(configuration_);
  }

  v1::Configuration configuration_;
  std::unique_ptr<ShardDriver> driver_;
  uint64_t sequence_ = 0;
};

INSTANTIATE_TEST_SUITE_P(RowWidths, ShardWidthTest,
                         ::testing::Values(3, 5, 6, 7, 13));

TEST_P(ShardWidthTest, EachRowChangesWhereItsNumberSays) {
  Use(MakeConfiguration({Sparse()}));
  ASSERT_EQ(Blocks().size(), 6u);
  ASSERT_EQ(Blocks().back().rows, 1u);
  ASSERT_TRUE(PushAllRows(1).ok());
  std::vector<float> expected;
  for (uint64_t row = 1; row <= 5 * block_rows() + 1; ++row) {
    expected.insert(expected.end(), width(), -static_cast<float>(row));
  }
  EXPECT_EQ(PullAll(), expected);
}

TEST_P(ShardWidthTest, ARowOfTheNextBlockIsRefused) {
  Use(MakeConfiguration({Sparse()}));
  v1::PushRequest push = driver_->MakePush(1, {}, 0);
  AddRows({0, 0}, 1, push.mutable_rows());
  const auto row = static_cast<uint32_t>(block_rows());
  const absl::Status status =
      Send(push, Buffer::Copy(AsBytes(absl::MakeConstSpan(&row, 1))),
           std::vector<float>(width(), 1));
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("the block has ", block_rows())));
  EXPECT_EQ(PullAll(), std::vector<float>(PullAll().size()));
}

// Adam has slots of each number, and one of each row.
TEST_P(ShardWidthTest, Promise3_RowsThatAreRestoredGoOnAsThoseThatWereSaved) {
  std::vector<std::vector<float>> outcomes;
  for (const bool restored : {false, true}) {
    Use(MakeAdamConfiguration({Sparse()}));
    ASSERT_TRUE(PushAllRows(1).ok());
    const std::vector<float> saved = PullAll();
    if (restored) SaveAndRestore();
    EXPECT_EQ(PullAll(), saved);
    ASSERT_TRUE(PushAllRows(-0.5f).ok());
    EXPECT_NE(PullAll(), saved);
    outcomes.push_back(PullAll());
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
}

TEST_P(ShardWidthTest, ABucketHasRoomForItsRowsAndThenEvicts) {
  Use(MakeConfiguration({Keyed()}));
  const std::vector<BlockOfRows> buckets = Blocks();
  ASSERT_EQ(buckets.size(), 3u);
  for (uint64_t b = 0; b < buckets.size(); ++b) {
    const std::vector<uint64_t> keys = KeysOf(b, block_rows() + 1);
    for (size_t k = 0; k + 1 < keys.size(); ++k) {
      ASSERT_TRUE(PushKey(buckets[b], keys[k], 1).ok());
    }
    for (size_t k = 0; k + 1 < keys.size(); ++k) {
      EXPECT_EQ(Numbers(PullKey(buckets[b], keys[k]).payload),
                InitialLess(keys[k], 1))
          << "key " << k << " of bucket " << b;
    }
    ASSERT_TRUE(PushKey(buckets[b], keys.back(), 1).ok());
    EXPECT_EQ(Numbers(PullKey(buckets[b], keys.back()).payload),
              InitialLess(keys.back(), 1));
    EXPECT_EQ(Numbers(PullKey(buckets[b], keys.front()).payload),
              InitialLess(keys.front(), 0))
        << "it was named longest ago";
  }
  const uint64_t elsewhere = KeysOf(1, 1).front();
  EXPECT_THAT(std::string(PushKey(buckets[0], elsewhere, 1).message()),
              HasSubstr("is another block's"));
}

TEST_P(ShardWidthTest, Promise3_KeysThatAreRestoredGoOnAsThoseThatWereSaved) {
  std::vector<std::vector<float>> outcomes;
  for (const bool restored : {false, true}) {
    Use(MakeAdamConfiguration({Keyed()}));
    const std::vector<BlockOfRows> buckets = Blocks();
    for (const int round : {1, 2}) {
      for (uint64_t b = 0; b < buckets.size(); ++b) {
        // In the second round one more, which takes the row of the first.
        for (const uint64_t key : KeysOf(b, block_rows() + round - 1)) {
          ASSERT_TRUE(PushKey(buckets[b], key, 0.5f).ok());
        }
      }
      if (restored && round == 1) SaveAndRestore();
    }
    outcomes.push_back(PullAll());
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
}

TEST_P(ShardWidthTest, Promise9_SlicesThatAreNoWholeBucketsAreRefused) {
  if (block_rows() == 1) GTEST_SKIP() << "any row begins a bucket";
  v1::Configuration configuration = MakeConfiguration({Keyed()});
  // As if a bucket had one row less.
  configuration.mutable_layout()->mutable_slices(0)->set_row_end(
      2 * block_rows() - 1);
  configuration.mutable_layout()->mutable_slices(1)->set_row_begin(
      2 * block_rows() - 1);
  ShardDriver driver;
  EXPECT_THAT(
      std::string(driver.Configure(configuration).status().message()),
      HasSubstr(absl::StrCat("are not whole buckets of ", block_rows())));
}

}  // namespace
}  // namespace paramd
