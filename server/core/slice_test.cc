#include "server/core/slice.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::Variable Variable(std::initializer_list<uint64_t> shape) {
  v1::Variable variable;
  variable.set_name("w");
  for (const uint64_t dimension : shape) variable.add_shape(dimension);
  return variable;
}

TEST(SliceTest, TheLastBlockHasTheRest) {
  SpareBuffers spare;
  Slice slice(Variable({300, 1000}), 1000, {0, 300}, &spare);
  EXPECT_EQ(slice.block_count(), 2);
  EXPECT_EQ(slice.block_elements(0), 262144u);
  EXPECT_EQ(slice.block_elements(1), 37856u);
  slice.SetTraining({}, {{"momentum"}, {"variance"}}, /*seed=*/1);
  slice.CreateBlocks(1);
  EXPECT_EQ(slice.block(1).values().size(), 37856u * 4);
  EXPECT_EQ(slice.block(1).slots().size(), 37856u * 8);
}

TEST(SliceTest, RowsOfKeysAreKeptInTheirFormat) {
  SpareBuffers spare;
  v1::Variable table = Variable({64, 8});
  table.set_sparse(true);
  table.set_keyed(true);
  table.set_row_format(v1::Variable::ROW_FORMAT_BF16);
  Slice slice(table, 8, {0, 64}, &spare);
  slice.SetTraining({}, {{"momentum"}}, /*seed=*/1);
  slice.CreateBlocks(1);
  EXPECT_EQ(slice.block(0).values().size(), 512u * 2);
  EXPECT_EQ(slice.block(0).slots().size(), 512u * 4);
  EXPECT_EQ(slice.BytesOf(512), 512u * 6);
  EXPECT_EQ(slice.read_bytes(), 512u * 8);
  EXPECT_EQ(slice.initial_bytes(), 512u * 4 + 64 * 16);
}

TEST(SliceTest, ABlockOfASparseVariableHasWholeRows) {
  SpareBuffers spare;
  v1::Variable table = Variable({600, 1000});
  table.set_sparse(true);
  Slice slice(table, 1000, {100, 500}, &spare);
  EXPECT_EQ(slice.block_count(), 2);
  EXPECT_EQ(slice.block_elements(0), 262000u);
  EXPECT_EQ(slice.block_elements(1), 138000u);
  EXPECT_EQ(slice.block_begin(0), 100000u);
  EXPECT_EQ(slice.block_begin(1), 362000u);
  slice.SetTraining({}, {{"momentum"}, {"steps", /*by_row=*/true}}, /*seed=*/1);
  slice.CreateBlocks(1);
  EXPECT_EQ(slice.block(0).values().size(), 262000u * 4);
  EXPECT_EQ(slice.block(0).slots().size(), (262000u + 262) * 4);
  EXPECT_EQ(slice.PlaceOfSlot(1, 1).begin, 138000u);
  EXPECT_EQ(slice.PlaceOfSlot(1, 1).words, 138u);
}

TEST(SliceTest, ABlockThatIsJustFullIsTheLast) {
  SpareBuffers spare;
  const Slice slice(Variable({512, 512}), 512, {0, 512}, &spare);
  EXPECT_EQ(slice.block_count(), 1);
  EXPECT_EQ(slice.block_elements(0), 262144u);
}

TEST(SliceTest, AScalarIsOneRowOfOneElement) {
  SpareBuffers spare;
  const Slice slice(Variable({}), 1, {0, 1}, &spare);
  EXPECT_TRUE(slice.whole());
  EXPECT_EQ(slice.block_count(), 1);
  EXPECT_EQ(slice.block_elements(0), 1u);
  EXPECT_TRUE(slice.TensorShape().empty());
}

TEST(SliceTest, AWholeVariableIsSavedUnderItsPlainName) {
  SpareBuffers spare;
  const Slice slice(Variable({4, 3}), 3, {0, 4}, &spare);
  EXPECT_EQ(slice.TensorName(), "w");
  EXPECT_EQ(slice.TensorName("momentum"), "w/slot:momentum");
  EXPECT_EQ(slice.TensorShape(), (std::vector<uint64_t>{4, 3}));
}

TEST(SliceTest, APartIsSavedWithItsRows) {
  SpareBuffers spare;
  const Slice slice(Variable({4, 3}), 3, {1, 3}, &spare);
  EXPECT_EQ(slice.TensorName(), "w[1:3]");
  EXPECT_EQ(slice.TensorName("variance"), "w/slot:variance[1:3]");
  EXPECT_EQ(slice.TensorShape(), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(slice.first_element(), 3u);
  EXPECT_EQ(slice.elements(), 6u);
}

}  // namespace
}  // namespace paramd
