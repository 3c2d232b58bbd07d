#include "server/core/slice_view.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::Pair;

constexpr uint64_t kViewedElements = 300000;  // Elements.

// A slice with one slot, of zeros, whose first block has 3 pushes.
class SliceViewTest : public ::testing::Test {
 protected:
  SliceViewTest()
      : slice_(testing::Zeros("a", {kViewedElements}), 1, {0, kViewedElements},
               &spare_) {
    slice_.SetTraining({}, {{"momentum"}}, /*seed=*/1);
    slice_.CreateBlocks(/*life=*/7);
    for (int b = 0; b < 2; ++b) {
      for (size_t part = 0; part < slice_.part_count(); ++part) {
        const absl::Span<std::byte> bytes = slice_.MutablePart(b, part);
        std::fill(bytes.begin(), bytes.end(), std::byte(1 + part));
      }
    }
    slice_.block(0).set_applied(3);
  }

  // Seals a snapshot, and then the first block takes another push.
  void SealThenPush() {
    fork_.Seal(Pair(1, 1), {&slice_});
    slice_.applied().MarkApplied({4, Pair(1, 1), 1}, 0);
    slice_.block(0).set_applied(4);
  }

  SpareBuffers spare_;
  Slice slice_;
  SnapshotFork fork_;
};

TEST_F(SliceViewTest, Promise3_OfASnapshotItSavesWhatThatHolds) {
  SealThenPush();
  v1::SavedSlice now;
  SliceView{slice_}.Save(&now);
  EXPECT_EQ(AppliedTo(now, 0), 4u);
  EXPECT_EQ(now.records_size(), 1);
  v1::SavedSlice held;
  SliceView{slice_, &fork_}.Save(&held);
  EXPECT_EQ(AppliedTo(held, 0), 3u);
  EXPECT_EQ(AppliedTo(held, 1), 0u);
  EXPECT_EQ(AppliedTo(held, 2), 0u) << "it has two blocks";
  EXPECT_EQ(held.records_size(), 0);
  EXPECT_EQ(held.variable(), "a");
  EXPECT_EQ(held.row_end(), kViewedElements);
}

TEST_F(SliceViewTest, APartIsOfTheBlocksThatAreAskedFor) {
  BufferChain slots;
  SliceView{slice_}.AddPart(1, 1, 2, &slots);
  EXPECT_EQ(ChainSize(slots), slice_.block_elements(1) * sizeof(float));
  EXPECT_EQ(slots[0].bytes().front(), std::byte{2});
  BufferChain values;
  SliceView{slice_}.AddPart(0, 0, 2, &values);
  EXPECT_EQ(ChainSize(values), kViewedElements * sizeof(float));
  EXPECT_EQ(values[1].bytes().front(), std::byte{1});
}

}  // namespace
}  // namespace paramd
