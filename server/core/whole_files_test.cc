#include "server/core/whole_files.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

#include "server/core/optimizer.h"
#include "server/core/spare_buffers.h"
#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Pair;
using testing::Payload;
using testing::Zeros;

constexpr uint64_t kTwoBlocks = 300000;

// A slice of two blocks, trained with SGD, and its snapshots.
class WholeFilesTest : public ::testing::Test {
 protected:
  WholeFilesTest()
      : optimizer_(*Optimizer::Create(
            MakeConfiguration({Zeros("a", {1})}).optimizer(), 0)),
        slice_(Zeros("a", {kTwoBlocks}), 1, {0, kTwoBlocks}, &spare_) {
    Begin(/*life=*/7);
  }

  void Begin(uint64_t life) {
    slice_.CreateBlocks(life);
    for (int b = 0; b < 2; ++b) {
      const auto values = slice_.block(b).mutable_values();
      std::fill(values.begin(), values.end(), 0.0f);
    }
  }

  // As a ShardContent takes a push with this stamp.
  void Push(int block, float gradient, const v1::SnapshotNumber& stamp = {}) {
    fork_.Hear(stamp);
    const SnapshotFork::Twin twin = fork_.BeforeChange(stamp, slice_, block);
    for (Block* const copy : {twin.block, &slice_.block(block)}) {
      if (copy == nullptr) continue;
      const BufferChain numbers =
          Payload(std::vector<float>(copy->elements(), gradient));
      ChainReader reader(numbers);
      copy->Apply(optimizer_, &reader, &spare_);
    }
  }
  // A snapshot; with `whole` it is one that files may refer to.
  void Seal(uint64_t counter, bool whole) {
    fork_.Seal(Pair(1, counter), {&slice_});
    if (whole) files_.Add(Pair(1, counter), fork_, {&slice_});
  }
  bool IsUnchanged(int block) const {
    return files_.IsUnchanged(slice_, block, fork_.block(slice_, block));
  }

  const Optimizer optimizer_;
  Slice slice_;
  SpareBuffers spare_;
  SnapshotFork fork_;
  WholeFiles files_;
};

TEST_F(WholeFilesTest, ABlockThatWasPushedToSinceIsChangedAndNoOther) {
  Seal(1, /*whole=*/true);
  Push(1, 2);
  Seal(2, /*whole=*/false);
  ASSERT_TRUE(files_.Use(Pair(1, 1)));
  EXPECT_TRUE(IsUnchanged(0));
  EXPECT_FALSE(IsUnchanged(1));
}

TEST_F(WholeFilesTest, AGradientOfZerosChangesNothing) {
  Push(0, 2);
  Seal(1, /*whole=*/true);
  Push(0, 0);
  Seal(2, /*whole=*/false);
  ASSERT_TRUE(files_.Use(Pair(1, 1)));
  EXPECT_EQ(fork_.block(slice_, 0).applied(), 2u);
  EXPECT_TRUE(IsUnchanged(0));
}

TEST_F(WholeFilesTest, Promise3_APushBehindTheCutOfTheBaseIsAChange) {
  Push(0, 1, Pair(1, 1));
  Seal(1, /*whole=*/true);
  Seal(2, /*whole=*/false);
  ASSERT_TRUE(files_.Use(Pair(1, 1)));
  EXPECT_FALSE(IsUnchanged(0));
  EXPECT_TRUE(IsUnchanged(1));
}

// After the cut a block was pushed nothing, then a push before the cut came
// late: as the one after another number of others, which an optimizer may treat
// in another way.
TEST_F(WholeFilesTest, Promise3_APushThatCameInAnotherPlaceIsAChange) {
  Push(0, 0, Pair(1, 1));
  Push(0, 3);
  Seal(1, /*whole=*/true);
  Seal(2, /*whole=*/false);
  ASSERT_TRUE(files_.Use(Pair(1, 1)));
  EXPECT_FALSE(IsUnchanged(0));
}

TEST_F(WholeFilesTest, AContentThatWasReplacedIsChanged) {
  Seal(1, /*whole=*/true);
  Begin(/*life=*/8);
  Seal(2, /*whole=*/false);
  ASSERT_TRUE(files_.Use(Pair(1, 1)));
  EXPECT_FALSE(IsUnchanged(0));
}

TEST_F(WholeFilesTest, OnlyTheNewestAndTheOneInUseAreKnown) {
  EXPECT_FALSE(files_.Use(Pair(1, 1))) << "nothing was written";
  Seal(1, /*whole=*/true);
  EXPECT_FALSE(files_.Use(Pair(1, 9)));
  EXPECT_TRUE(files_.Use(Pair(1, 1)));
  Seal(2, /*whole=*/true);
  EXPECT_TRUE(files_.Use(Pair(1, 1))) << "2 was not committed";
  Seal(3, /*whole=*/true);
  EXPECT_TRUE(files_.Use(Pair(1, 3)));
  EXPECT_FALSE(files_.Use(Pair(1, 1)));
  EXPECT_FALSE(files_.Use(Pair(1, 3))) << "a base was named that is not known";
  Seal(4, /*whole=*/true);
  EXPECT_FALSE(files_.Use({}));
  EXPECT_TRUE(files_.Use(Pair(1, 4)));
}

}  // namespace
}  // namespace paramd
