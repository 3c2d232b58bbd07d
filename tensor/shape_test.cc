#include "tensor/shape.h"

#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(RowShapeTest, AScalarIsOneRowOfOneElement) {
  const auto shape = ToRowShape({});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->rows, 1u);
  EXPECT_EQ(shape->row_elements, 1u);
}

TEST(RowShapeTest, TheFirstDimensionIsRows) {
  const auto shape = ToRowShape({3, 4, 5});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->rows, 3u);
  EXPECT_EQ(shape->row_elements, 20u);
}

TEST(RowShapeTest, HostileShapesAreRefused) {
  EXPECT_FALSE(ToRowShape({0}).ok());
  EXPECT_FALSE(ToRowShape({~uint64_t{0}, ~uint64_t{0}}).ok());
  EXPECT_FALSE(ToRowShape(std::vector<uint64_t>(9, 1)).ok());
}

// Each element of a slice is in one block, in order.
void ExpectCovered(const BlockCut& cut, uint64_t slice_elements) {
  uint64_t covered = 0;
  const uint64_t blocks = cut.Count(slice_elements);
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint64_t elements = cut.ElementsOf(b, slice_elements);
    EXPECT_EQ(cut.Begin(b), covered);
    EXPECT_EQ(cut.BlockOf(covered), b);
    EXPECT_EQ(cut.BlockOf(covered + elements - 1), b);
    EXPECT_GT(elements, 0u);
    if (b + 1 < blocks) {
      EXPECT_EQ(elements, cut.elements());
    }
    covered += elements;
  }
  EXPECT_EQ(covered, slice_elements);
}

TEST(BlockCutTest, ABlockOfADenseVariableIsAsLongAsItCanBe) {
  EXPECT_EQ(BlockCut::OfDense().elements(), 262144u);
  EXPECT_EQ(BlockCut::Of(/*sparse=*/false, 10), BlockCut::OfDense());
  for (const uint64_t elements : {1, 262143, 262144, 262145, 1048576}) {
    ExpectCovered(BlockCut::OfDense(), elements);
  }
}

TEST(BlockCutTest, ABlockOfASparseVariableHasAllTheWholeRowsThatFit) {
  for (const uint64_t width : {1, 2, 3, 10, 12, 24, 50, 100, 300, 1000, 65537,
                               131073, 262143, 262144}) {
    const BlockCut cut = BlockCut::OfSparse(width);
    EXPECT_EQ(cut.elements() % width, 0u) << width;
    EXPECT_EQ(cut.elements(), BlockRows(width) * width);
    EXPECT_LE(cut.elements(), 262144u);
    EXPECT_GT(cut.elements() + width, 262144u) << "one row more fits";
    EXPECT_EQ(BlockCut::Of(/*sparse=*/true, width), cut);
    for (const uint64_t rows : {uint64_t{1}, BlockRows(width),
                                BlockRows(width) + 1, 4 * BlockRows(width)}) {
      ExpectCovered(cut, rows * width);
    }
  }
  EXPECT_EQ(BlockRows(10), 26214u);
}

TEST(BlockCutTest, WhereRowsFillABlockItIsThatOfADenseVariable) {
  for (uint64_t width = 1; width <= 262144; width *= 2) {
    EXPECT_EQ(BlockCut::OfSparse(width), BlockCut::OfDense());
    EXPECT_EQ(MostSliceRows(/*sparse=*/true, width),
              MostSliceRows(/*sparse=*/false, width));
  }
  EXPECT_NE(BlockCut::OfSparse(3), BlockCut::OfDense());
}

TEST(BlockCutTest, TheLongestSliceOfASparseVariableIsWholeBlocks) {
  EXPECT_EQ(RowsThatFit(4 * 30 - 1, 10), 2u);
  EXPECT_EQ(RowsThatFit(4 * 30, 10), 3u);
  EXPECT_EQ(RowsThatFit(1, 10), 1u);
  EXPECT_EQ(MostSliceRows(/*sparse=*/false, 10), 104857u);
  EXPECT_EQ(MostSliceRows(/*sparse=*/true, 10), 4u * 26214);
  EXPECT_EQ(MostSliceRows(/*sparse=*/true, 262143), 4u);
  EXPECT_EQ(MostSliceRows(/*sparse=*/true, 200000), 4u);
  EXPECT_EQ(MostSliceRows(/*sparse=*/false, 2000000), 1u);
}

TEST(CheckSparseShapeTest, ARowFitsIntoABlock) {
  for (const uint64_t width : {1, 3, 10, 262143, 262144}) {
    EXPECT_TRUE(CheckSparseShape({7, width}).ok()) << width;
  }
  EXPECT_EQ(CheckSparseShape({7, 262145}).message(),
            "a sparse variable has two dimensions, of which the second is at "
            "most 262144; the shape is 7x262145");
  EXPECT_FALSE(CheckSparseShape({7, 0}).ok());
  EXPECT_FALSE(CheckSparseShape({7}).ok());
  EXPECT_FALSE(CheckSparseShape({7, 2, 2}).ok());
}

}  // namespace
}  // namespace paramd
