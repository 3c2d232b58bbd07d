#include "server/core/block.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "config/initial_values.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

Optimizer Make(bool adam) {
  v1::OptimizerConfig config;
  if (adam) {
    config.mutable_adam();
  } else {
    config.mutable_sgd();
  }
  config.set_learning_rate(0.5);
  return *Optimizer::Create(config, 0);
}

Block Filled(const Optimizer& optimizer, const std::vector<float>& values) {
  SpareBuffers memory;
  Block block(values.size(), optimizer.slots().size() * values.size(),
              /*life=*/9, &memory);
  std::copy(values.begin(), values.end(), block.mutable_values().begin());
  const absl::Span<float> slots = block.mutable_slots();
  std::fill(slots.begin(), slots.end(), 0.0f);
  return block;
}

std::vector<float> Numbers(const Buffer& buffer) {
  const auto* first = reinterpret_cast<const float*>(buffer.bytes().data());
  return {first, first + buffer.size() / sizeof(float)};
}

void Push(const Optimizer& optimizer, const std::vector<float>& gradient,
          Block* block, SpareBuffers* spare) {
  const BufferChain chain = {
      Buffer::Copy(AsBytes(absl::MakeConstSpan(gradient)))};
  ChainReader reader(chain);
  block->Apply(optimizer, &reader, spare);
}

TEST(BlockTest, APushIsAppliedInPlaceWhenNobodyReads) {
  const Optimizer sgd = Make(false);
  SpareBuffers spare;
  Block block = Filled(sgd, {1, 2, 3});
  const std::byte* const place = block.values().bytes().data();
  Push(sgd, {2, 2, 2}, &block, &spare);
  EXPECT_EQ(Numbers(block.values()), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(block.values().bytes().data(), place);
  EXPECT_EQ(spare.count(), 0u);
}

TEST(BlockTest, Promise2_AReferenceThatLeftKeepsItsContent) {
  for (const bool adam : {false, true}) {
    const Optimizer optimizer = Make(adam);
    SpareBuffers spare;
    Block block = Filled(optimizer, {1, 2, 3});
    Push(optimizer, {1, -1, 1}, &block, &spare);
    const Buffer values = block.values();
    const Buffer slots = block.slots();
    const std::vector<float> old_values = Numbers(values);
    const std::vector<float> old_slots = Numbers(slots);
    Block alone = Filled(optimizer, {1, 2, 3});
    Push(optimizer, {1, -1, 1}, &alone, &spare);

    Push(optimizer, {3, 3, 3}, &block, &spare);
    Push(optimizer, {3, 3, 3}, &alone, &spare);
    EXPECT_EQ(Numbers(values), old_values);
    EXPECT_EQ(Numbers(slots), old_slots);
    EXPECT_EQ(Numbers(block.values()), Numbers(alone.values()));
    EXPECT_EQ(Numbers(block.slots()), Numbers(alone.slots()));
  }
}

TEST(BlockTest, AReplacedBufferIsUsedAgainOnceItWasRead) {
  const Optimizer sgd = Make(false);
  SpareBuffers spare;
  Block block = Filled(sgd, {1, 2});
  const std::byte* first;
  {
    const Buffer reply = block.values();
    first = reply.bytes().data();
    Push(sgd, {1, 1}, &block, &spare);
  }
  const Buffer reply = block.values();
  EXPECT_NE(reply.bytes().data(), first);
  Push(sgd, {1, 1}, &block, &spare);
  EXPECT_EQ(block.values().bytes().data(), first);
}

TEST(BlockTest, WhatIsNamedAsAWholeTakesAGradientOfAllItsElements) {
  const Optimizer sgd = Make(false);
  SpareBuffers spare;
  Block block = Filled(sgd, {1, 2, 3});
  const std::vector<float> gradient = {2, 2, 2};
  const BufferChain chain = {
      Buffer::Copy(AsBytes(absl::MakeConstSpan(gradient)))};
  ChainReader reader(chain);
  RowIds ids;
  ids.all = true;
  TableCounts counts;
  block.ApplyRows(sgd, ids, &reader, &spare, {}, &counts);
  EXPECT_EQ(Numbers(block.values()), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(block.applied(), 1u);
  // Of rows it would be a push that names none.
  ids.all = false;
  block.ApplyRows(sgd, ids, &reader, &spare, {}, &counts);
  EXPECT_EQ(Numbers(block.values()), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(block.applied(), 2u);
}

TEST(BlockTest, TheVersionNamesTheLifeAndCountsPushes) {
  const Optimizer sgd = Make(false);
  SpareBuffers spare;
  Block block = Filled(sgd, {1});
  block.set_applied(40);
  EXPECT_EQ(block.version().life(), 9u);
  EXPECT_EQ(block.version().counter(), 40u);
  Push(sgd, {1}, &block, &spare);
  EXPECT_EQ(block.version().counter(), 41u);
  EXPECT_EQ(block.applied(), 41u);
}

v1::OptimizerConfig Config(const char* kind) {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.5);
  const std::string name = kind;
  if (name == "sgd") config.mutable_sgd();
  if (name == "momentum") config.mutable_sgd()->set_momentum(0.9);
  if (name == "adagrad") config.mutable_adagrad();
  if (name == "adam") config.mutable_adam();
  return config;
}

// What it is while a block rests is what each optimizer's arithmetic gives.
TEST(BlockTest, AGradientOfZerosIsCountedAndChangesWhatTheOptimizerWould) {
  for (const char* const kind : {"sgd", "momentum", "adagrad", "adam"}) {
    const Optimizer optimizer = *Optimizer::Create(Config(kind), 0);
    const size_t slots = optimizer.slots().size();
    SpareBuffers memory;
    Block block(3, 3 * slots, /*life=*/9, &memory);
    const std::vector<float> begin = {-0.0f, 2, -3};
    std::copy(begin.begin(), begin.end(), block.mutable_values().begin());
    const absl::Span<float> beside_values = block.mutable_slots();
    if (slots > 0) {
      std::fill(beside_values.begin(), beside_values.end(),
                optimizer.initial_slot());
    }
    SpareBuffers spare;
    std::vector<float> values = begin;
    std::vector<float> beside = Numbers(block.slots());
    uint64_t applied = 0;
    for (const float gradient : {0.0f, 0.0f, 0.5f, 0.0f}) {
      const std::vector<float> gradients(3, gradient);
      const BufferChain chain = {
          Buffer::Copy(AsBytes(absl::MakeConstSpan(gradients)))};
      ChainReader reader(chain);
      optimizer.Apply(
          &reader, applied++,
          {3, values.data(), beside.data(), values.data(), beside.data()});
      Push(optimizer, gradients, &block, &spare);
      EXPECT_EQ(std::memcmp(values.data(), Numbers(block.values()).data(),
                            3 * sizeof(float)),
                0)
          << kind << " after " << applied;
      EXPECT_EQ(Numbers(block.slots()), beside) << kind;
      EXPECT_EQ(block.applied(), applied);
    }
    // Momentum goes on where there was a gradient once.
    const bool rests = slots == 0 || std::string(kind) == "adagrad";
    EXPECT_EQ(block.changed().counter(), rests ? 3u : 4u) << kind;
    EXPECT_EQ(block.changed().life(), 9u);
  }
}

TEST(BlockTest, NothingIsReplacedWhereNoNumberChanges) {
  const Optimizer sgd = Make(false);
  SpareBuffers spare;
  Block block = Filled(sgd, {1, 2, 3});
  const Buffer reader = block.values();
  Push(sgd, {0, 0, 0}, &block, &spare);
  EXPECT_EQ(block.values().bytes().data(), reader.bytes().data());
  EXPECT_EQ(block.version().counter(), 1u);
  EXPECT_EQ(block.changed().counter(), 0u);
  Push(sgd, {0, -0.0f, 0}, &block, &spare);
  EXPECT_EQ(block.changed().counter(), 2u)
      << "subtracting a negative zero may change the sign of a zero";
}

// Of 2,048 rows of 8 a quarter lie in memory.
class BlockOnDiskTest : public ::testing::Test {
 protected:
  static constexpr size_t kRows = 2048;
  static constexpr size_t kFastRows = 512;

  BlockOnDiskTest() {
    const absl::Span<float> slots = block_.mutable_slots();
    std::fill(slots.begin(), slots.end(), 0.0f);
  }

  static BlockPlacement Placement() {
    BlockPlacement placement;
    placement.fast_rows = kFastRows;
    AddPages(kFastRows * 32, kRows * 32, &placement.values);
    return placement;
  }

  // Of keys from `begin` on.
  void PushKeys(uint64_t begin, size_t count) {
    v1::Variable variable;
    variable.set_name("table");
    const KeyRules rules = {{.fast_rows = kFastRows}, {variable, /*seed=*/1}};
    std::vector<uint64_t> mixed(count);
    for (size_t i = 0; i < count; ++i) mixed[i] = MixKey(begin + i);
    const std::vector<float> gradient(count * 8, 1.0f);
    const BufferChain chain = {
        Buffer::Copy(AsBytes(absl::MakeConstSpan(gradient)))};
    ChainReader reader(chain);
    TableCounts counts;
    block_.ApplyRows(sgd_, {false, {}, mixed, 8, &rules}, &reader, &spare_, {},
                     &counts);
  }
  // Whether a byte of the last row, which has no key, is the same one in both.
  bool SharesTheDiskWith(const Block& other) const {
    auto* const last = const_cast<std::byte*>(&other.values().bytes().back());
    *last = std::byte{7};
    const bool shares = block_.values().bytes().back() == *last;
    *last = std::byte{0};
    return shares;
  }

  const Optimizer sgd_ = Make(false);
  const BlockPlacement placement_ = Placement();
  MemoryBudget budget_;
  const std::shared_ptr<DiskMemory> disk_ = DiskMemory::CreateInMemory();
  SpareBuffers spare_{&budget_, disk_.get()};
  Block block_{kRows * 8, /*life=*/9,
               Block::MakeMemory(kRows * 8, /*slot_words=*/4 * kRows,
                                 &placement_, &spare_),
               &placement_};
};

TEST_F(BlockOnDiskTest, ACopyOfRowsOnDiskIsMadeWhenOneIsWritten) {
  PushKeys(0, 500);
  const uint64_t in_memory = budget_.used();
  const Block frozen = block_;
  const std::vector<float> values = Numbers(frozen.values());
  // That key is in memory.
  PushKeys(0, 1);
  EXPECT_NE(Numbers(block_.values()), values);
  EXPECT_EQ(Numbers(frozen.values()), values);
  EXPECT_TRUE(SharesTheDiskWith(frozen));
  EXPECT_EQ(budget_.used(), 2 * in_memory);
  // To make room for new keys others move to the disk.
  PushKeys(500, 500);
  EXPECT_EQ(Numbers(frozen.values()), values);
  EXPECT_FALSE(SharesTheDiskWith(frozen));
  EXPECT_EQ(budget_.used(), 2 * in_memory);
}

// 64 rows of 8 that are kept as bf16, and begin with 1.
class NarrowBlockTest : public ::testing::Test {
 protected:
  static constexpr size_t kRows = 64;
  static constexpr size_t kWidth = 8;

  NarrowBlockTest() {
    v1::Variable variable;
    variable.set_name("table");
    variable.mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
    variable.mutable_initializer()->set_low(1);
    variable.mutable_initializer()->set_high(1);
    rules_ = std::make_unique<KeyRules>(KeyRules{{}, {variable, /*seed=*/1}});
    const absl::Span<float> slots = block_.mutable_slots();
    std::fill(slots.begin(), slots.end(), 0.0f);
  }

  void PushKeys(const std::vector<uint64_t>& keys, float by, Block* block) {
    std::vector<uint64_t> mixed;
    for (const uint64_t key : keys) mixed.push_back(MixKey(key));
    const std::vector<float> gradient(keys.size() * kWidth, by);
    const BufferChain chain = {
        Buffer::Copy(AsBytes(absl::MakeConstSpan(gradient)))};
    ChainReader reader(chain);
    block->ApplyRows(sgd_, {false, {}, mixed, kWidth, rules_.get()}, &reader,
                     &spare_, {}, &counts_);
  }
  std::vector<float> Row(uint64_t key) { return RowOf(key, &block_); }
  std::vector<float> RowOf(uint64_t key, Block* block) {
    const std::vector<uint64_t> mixed = {MixKey(key)};
    std::vector<float> row(kWidth);
    block->CopyRows({false, {}, mixed, kWidth, rules_.get()}, row.data(),
                    &counts_);
    return row;
  }

  const Optimizer sgd_ = Make(false);  // Of rate 0.5.
  const BlockPlacement placement_ = [] {
    BlockPlacement placement;
    placement.format = NumberFormat::kBf16;
    return placement;
  }();
  SpareBuffers spare_;
  TableCounts counts_;
  std::unique_ptr<KeyRules> rules_;
  Block block_{kRows * kWidth, /*life=*/9,
               Block::MakeMemory(kRows* kWidth, /*slot_words=*/4 * kRows,
                                 &placement_, &spare_),
               &placement_};
};

TEST_F(NarrowBlockTest, AValueTakesTwoBytes) {
  EXPECT_EQ(block_.values().size(), kRows * kWidth * 2);
  PushKeys({3, 4}, 0.5f, &block_);
  EXPECT_EQ(Row(3), std::vector<float>(kWidth, 0.75f));
  EXPECT_EQ(Row(5), std::vector<float>(kWidth, 1)) << "it has no row";
  PushKeys({4}, 0.25f, &block_);
  EXPECT_EQ(Row(3), std::vector<float>(kWidth, 0.75f));
  EXPECT_EQ(Row(4), std::vector<float>(kWidth, 0.625f));
}

// Of each a sixteenth of what the next smaller bf16 is away.
TEST_F(NarrowBlockTest, SmallStepsAreNotLost) {
  constexpr int kPushes = 640;
  constexpr float kStep = 1.0f / 256 / 16;
  for (int i = 0; i < kPushes; ++i) PushKeys({7}, 2 * kStep, &block_);
  double sum = 0;
  for (const float number : Row(7)) sum += number;
  // A step down has a variance of at most unit^2 / 16; five deviations of the
  // mean of eight.
  EXPECT_NEAR(sum / kWidth, 1 - kPushes * kStep,
              5 * std::sqrt(kPushes / 16.0 / kWidth) / 256);
}

TEST_F(NarrowBlockTest, TheSamePushesGiveTheSameBits) {
  PushKeys({1, 2, 3}, 0.3f, &block_);
  Block other = block_;
  const Buffer frozen = block_.values();
  const std::vector<std::byte> before(frozen.bytes().begin(),
                                      frozen.bytes().end());
  for (Block* const block : {&block_, &other}) {
    PushKeys({2, 9}, 0.001f, block);
    PushKeys({9, 1}, 0.001f, block);
  }
  EXPECT_TRUE(std::equal(before.begin(), before.end(), frozen.bytes().begin()))
      << "what a snapshot reads changed";
  EXPECT_TRUE(std::equal(block_.values().bytes().begin(),
                         block_.values().bytes().end(),
                         other.values().bytes().begin()));
}

// As where memory_rows or the capacity is another.
TEST_F(NarrowBlockTest, ChanceBelongsToTheKeyWhereverItsRowLies) {
  Block other = block_;
  PushKeys({1, 7}, 0.3f, &block_);
  PushKeys({7, 1}, 0.3f, &other);
  for (Block* const block : {&block_, &other}) {
    for (int i = 0; i < 16; ++i) PushKeys({7}, 0.01f, block);
  }
  EXPECT_FALSE(std::equal(block_.values().bytes().begin(),
                          block_.values().bytes().end(),
                          other.values().bytes().begin()))
      << "it lies at one place in both";
  EXPECT_EQ(Row(7), RowOf(7, &other));
  EXPECT_EQ(Row(1), RowOf(1, &other));
}

TEST_F(BlockOnDiskTest, WhatASnapshotHeldInMemoryGoesBackWithIt) {
  const uint64_t in_memory = budget_.used();
  absl::optional<Block> frozen = block_;
  PushKeys(0, 1);
  EXPECT_EQ(budget_.used(), 2 * in_memory);
  frozen.reset();
  EXPECT_EQ(budget_.used(), in_memory + spare_.bytes());
  EXPECT_EQ(spare_.bytes(), block_.slots().size());
}

}  // namespace
}  // namespace paramd
