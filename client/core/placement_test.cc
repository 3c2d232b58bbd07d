#include "client/core/placement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using testing::MakeConfiguration;

v1::Layout TwoSlices(uint64_t first_end, uint64_t second_begin,
                     uint64_t second_end) {
  v1::Layout layout = MakeConfiguration({{"w", {10, 300000}, 0}}, 1).layout();
  layout.mutable_slices(0)->set_row_end(first_end);
  v1::Slice* second = layout.add_slices();
  second->set_row_begin(second_begin);
  second->set_row_end(second_end);
  second->set_server(1);
  return layout;
}

TEST(PlacementTest, ASliceKnowsItsElementsItsBlocksAndItsServer) {
  const auto placement = Placement::Create(TwoSlices(4, 4, 10), 2);
  ASSERT_TRUE(placement.ok()) << placement.status();
  ASSERT_EQ(placement->slices().size(), 2u);
  const PlacedSlice& second = placement->slices()[1];
  EXPECT_EQ(second.variable, 0u);
  EXPECT_EQ(second.rows, (RowRange{4, 10}));
  EXPECT_EQ(second.server, 1u);
  EXPECT_EQ(second.element_begin, 1200000u);
  EXPECT_EQ(second.elements, 1800000u);
  EXPECT_EQ(second.blocks, 7u);  // 6 whole blocks are 1,572,864 elements.
  EXPECT_EQ(placement->elements(), std::vector<uint64_t>{3000000});
  EXPECT_EQ(placement->names(), std::vector<std::string>{"w"});
  EXPECT_EQ(placement->servers(), 2u);
}

TEST(PlacementTest, AScalarIsOneRow) {
  const auto placement =
      Placement::Create(MakeConfiguration({{"s", {}, 0}}, 1).layout(), 1);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(placement->elements(), std::vector<uint64_t>{1});
  EXPECT_EQ(placement->slices()[0].blocks, 1u);
}

TEST(PlacementTest, ASparseSliceIsBlocksOfWholeRows) {
  v1::Layout layout = MakeConfiguration({{"t", {1000, 1000}, 0}}, 1).layout();
  for (const bool sparse : {false, true}) {
    layout.mutable_variables(0)->set_sparse(sparse);
    const auto placement = Placement::Create(layout, 1);
    ASSERT_TRUE(placement.ok()) << placement.status();
    const PlacedSlice& slice = placement->slices()[0];
    EXPECT_EQ(slice.blocks, 4u);
    EXPECT_EQ(slice.block_elements(0), sparse ? 262000u : 262144u);
    EXPECT_EQ(slice.block_begin(3), sparse ? 786000u : 786432u);
    EXPECT_EQ(slice.block_elements(3), sparse ? 214000u : 213568u);
  }
  EXPECT_EQ(Placement::Create(layout, 1)->slices()[0].block_rows(), 262u);
}

void ExpectRefused(const v1::Layout& layout, const std::string& sentence) {
  const absl::Status status = Placement::Create(layout, 2).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
}

TEST(PlacementTest, Promise9_AGapIsRefusedByName) {
  ExpectRefused(TwoSlices(4, 5, 10),
                "slices of 'w' leave a gap or overlap at row 5");
}

TEST(PlacementTest, Promise9_AnOverlapIsRefusedByName) {
  ExpectRefused(TwoSlices(4, 3, 10),
                "slices of 'w' leave a gap or overlap at row 3");
}

TEST(PlacementTest, Promise9_MissingRowsAtTheEndAreRefusedByName) {
  ExpectRefused(TwoSlices(4, 4, 9), "slices of 'w' cover 2700000 of 3000000");
}

TEST(PlacementTest, Promise9_RowsBeyondTheVariableAreRefused) {
  ExpectRefused(TwoSlices(4, 4, 11),
                "a slice of 'w' has rows 4 to 11; the variable has 10");
}

TEST(PlacementTest, Promise9_AnEmptySliceIsRefused) {
  ExpectRefused(TwoSlices(4, 4, 4), "a slice of 'w' has rows 4 to 4");
}

TEST(PlacementTest, Promise9_AVariableThatIsNotThereIsRefused) {
  v1::Layout layout = TwoSlices(4, 4, 10);
  layout.mutable_slices(1)->set_variable(1);
  ExpectRefused(layout, "a slice names variable 1; the layout has 1");
}

TEST(PlacementTest, Promise9_AServerThatIsNotThereIsRefused) {
  v1::Layout layout = TwoSlices(4, 4, 10);
  layout.mutable_slices(1)->set_server(2);
  ExpectRefused(layout, "a slice of 'w' names server 2; there are 2");
}

TEST(PlacementTest, Promise9_AVariableThatIsKeyedAndNotSparseIsRefused) {
  v1::Layout layout = TwoSlices(4, 4, 10);
  layout.mutable_variables(0)->set_keyed(true);
  ExpectRefused(layout, "variable 'w' is keyed and not sparse");
}

TEST(PlacementTest, Promise9_ASparseRowThatFitsIntoNoBlockIsRefused) {
  v1::Layout layout = TwoSlices(4, 4, 10);
  layout.mutable_variables(0)->set_sparse(true);
  ExpectRefused(layout, "the second is at most 262144");
}

TEST(PlacementTest, Promise9_ASliceThatBeginsAmidABucketIsRefused) {
  v1::Layout layout = MakeConfiguration({{"t", {524, 1000}, 0}}, 1).layout();
  layout.mutable_variables(0)->set_sparse(true);
  layout.mutable_variables(0)->set_keyed(true);
  EXPECT_TRUE(Placement::Create(layout, 2).ok());
  layout.mutable_slices(0)->set_row_end(261);
  v1::Slice* const second = layout.add_slices();
  second->set_row_begin(261);
  second->set_row_end(524);
  ExpectRefused(layout, "in the middle of a bucket of 262");
}

TEST(PlacementTest, Promise9_AShapeThatOverflowsIsRefused) {
  v1::Layout layout = TwoSlices(4, 4, 10);
  layout.mutable_variables(0)->set_shape(1, uint64_t{1} << 62);
  EXPECT_TRUE(absl::IsInvalidArgument(Placement::Create(layout, 2).status()));
}

}  // namespace
}  // namespace paramd
