#include "checkpoint/blocks_target.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// The two last rows of "a", four numbers, and three numbers of "b".
class BlocksTargetTest : public ::testing::Test {
 protected:
  BlocksTargetTest() {
    Want("a", {3, 2}, 1, 3);
    Want("b", {3}, 0, 3);
  }
  void Want(const std::string& variable, const std::vector<uint64_t>& shape,
            uint64_t begin, uint64_t end) {
    v1::ReadSlices::Want* const want = request_.add_slices();
    want->set_variable(variable);
    for (const uint64_t size : shape) want->add_shape(size);
    want->set_row_begin(begin);
    want->set_row_end(end);
  }
  static BufferChain Memory(const std::vector<size_t>& sizes) {
    BufferChain memory;
    for (const size_t size : sizes) memory.push_back(Buffer::Allocate(size));
    return memory;
  }
  // Writes 'a', 'b', ... into one number after another, at most `most` of them
  // at a time; what the memory holds then.
  static std::string Filled(BlocksTarget target, uint64_t most,
                            const BufferChain& memory) {
    char letter = 'a';
    while (!target.full()) {
      for (std::byte& byte : target.Next(most)) {
        byte = static_cast<std::byte>(letter++);
      }
    }
    EXPECT_TRUE(target.Next(most).empty());
    return FlattenForTest(memory);
  }
  void ExpectRefused(BufferChain memory, const std::string& why) {
    const auto target = BlocksTarget::Create(request_, &memory);
    EXPECT_TRUE(absl::IsInvalidArgument(target.status()));
    EXPECT_THAT(std::string(target.status().message()), HasSubstr(why));
  }

  v1::ReadSlices request_;
};

TEST_F(BlocksTargetTest, WithoutSlotsBlocksFollowOneAnother) {
  for (const uint64_t most : {1, 5, 100}) {
    BufferChain memory = Memory({12, 4, 12});
    auto target = BlocksTarget::Create(request_, &memory);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(Filled(*target, most, memory), "abcdefghijklmnopqrstuvwxyz{|");
  }
}

TEST_F(BlocksTargetTest, AnUntrainedSliceHasNoSlots) {
  request_.mutable_slices(0)->set_values_only(true);
  request_.add_slots("momentum");
  BufferChain memory = Memory({12, 4, 12, 12});
  auto target = BlocksTarget::Create(request_, &memory);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(Filled(*target, 100, memory).size(), 40u);
  ExpectRefused(Memory({12, 12, 4, 4, 12, 12}), "of 'a'");
}

TEST_F(BlocksTargetTest, EachSlotOfASliceLiesInThatOfItsBlocks) {
  request_.clear_slices();
  Want("a", {3}, 0, 3);
  request_.add_slots("momentum");
  request_.add_slots("variance");
  for (const uint64_t most : {1, 3, 100}) {
    // Two blocks, of two numbers and one.
    BufferChain memory = Memory({8, 16, 4, 8});
    auto target = BlocksTarget::Create(request_, &memory);
    ASSERT_TRUE(target.ok()) << target.status();
    const std::string first_block =
        "abcdefgh"
        "mnopqrst"
        "yz{|}~\x7f\x80";
    const std::string second_block =
        "ijkl"
        "uvwx"
        "\x81\x82\x83\x84";
    EXPECT_EQ(Filled(*target, most, memory), first_block + second_block);
  }
}

TEST_F(BlocksTargetTest, MemoryOfAnotherSizeIsRefusedNamingTheSlice) {
  ExpectRefused(Memory({16}), "rows [0, 3) of 'b' is not that of their blocks");
  ExpectRefused(Memory({12, 8, 12}), "rows [1, 3) of 'a'");
  ExpectRefused(Memory({16, 12, 1}), "more than is wanted");
  request_.add_slots("momentum");
  ExpectRefused(Memory({16, 12, 12, 12}), "rows [1, 3) of 'a'");
}

TEST_F(BlocksTargetTest, MemoryThatOthersHoldIsNotWrittenTo) {
  BufferChain memory = Memory({16, 12});
  const Buffer held = memory[1];
  EXPECT_FALSE(BlocksTarget::Create(request_, &memory).ok());
}

TEST_F(BlocksTargetTest, RowsThatDoNotExistAreRefused) {
  Want("c", {3}, 2, 4);
  ExpectRefused(Memory({16, 12, 8}), "rows [2, 4) of 'c' do not exist");
}

}  // namespace
}  // namespace paramd
