#include "coordinator/core/layout.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tensor/keyed_rows.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Variable Make(const std::string& name, std::vector<uint64_t> shape) {
  v1::Variable variable;
  variable.set_name(name);
  variable.set_dtype(v1::FLOAT32);
  for (const uint64_t d : shape) variable.add_shape(d);
  return variable;
}

// Of the fullest server, in servers' shares.
double MostOf(const std::vector<v1::Variable>& variables, uint32_t servers) {
  const std::vector<uint64_t> bytes =
      BytesOfServers(*PlanLayout(variables, servers), servers);
  return static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) *
         servers / std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

// Layers of a dense network for pictures of 784 numbers.
std::vector<v1::Variable> DenseModel(uint64_t width) {
  return {Make("hidden/kernel", {784, width}), Make("hidden/bias", {width}),
          Make("output/kernel", {width, 10}), Make("output/bias", {10})};
}

TEST(PlanLayoutTest, ASmallVariableIsOneSlice) {
  const auto layout = PlanLayout({Make("w", {400, 10})}, 3);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->slices_size(), 1);
  EXPECT_EQ(layout->slices(0).row_end(), 400u);
}

TEST(PlanLayoutTest, FiveMebibytesOnOneServerAreTwoSlicesOfWholeRows) {
  const auto layout = PlanLayout({Make("w", {1280, 1024})}, 1);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->slices_size(), 2);
  EXPECT_EQ(layout->slices(0).row_end(), 1024u);
  EXPECT_EQ(layout->slices(1).row_begin(), 1024u);
}

TEST(PlanLayoutTest, SlicesOfAKeyedVariableAreWholeBuckets) {
  v1::Variable table = Make("t", {10 * 16384, 16});
  table.set_sparse(true);
  table.set_keyed(true);
  for (const uint32_t servers : {1, 2, 3, 32}) {
    const auto layout = PlanLayout({table}, servers);
    ASSERT_TRUE(layout.ok()) << layout.status();
    for (const v1::Slice& slice : layout->slices()) {
      EXPECT_EQ(slice.row_begin() % 16384, 0u);
    }
    EXPECT_EQ(layout->slices().rbegin()->row_end(), 10u * 16384);
  }
  table.set_shape(0, 1000);  // One that is smaller.
  EXPECT_EQ(PlanLayout({table}, 3)->slices_size(), 1);
  table.set_shape(0, 16385);
  EXPECT_THAT(
      PlanLayout({table}, 3).status().message(),
      HasSubstr("variable 't': a keyed variable of 16385 rows of 16 has "
                "no whole number of buckets of 16384 rows"));
  table.set_shape(0, 16384);
  table.set_sparse(false);
  EXPECT_THAT(PlanLayout({table}, 3).status().message(),
              HasSubstr("variable 't': a keyed variable must be sparse"));
}

TEST(PlanLayoutTest, ALargeModelHasSlicesOfFourMebibytes) {
  const auto layout = PlanLayout({Make("w", {32768, 1024})}, 8);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->slices_size(), 32);
}

TEST(PlanLayoutTest, AModelOf400KilobytesLiesOnBothServers) {
  EXPECT_LE(MostOf(DenseModel(126), 2), 1.25);
  EXPECT_LE(MostOf({Make("w", {100000})}, 2), 1.25);
}

TEST(PlanLayoutTest, NobodyHoldsMoreThanAQuarterAboveItsShare) {
  for (const uint32_t servers : {2, 3, 5, 8, 32}) {
    // 64 KiB for each server, and what is a little or much more.
    for (const uint64_t elements : {16384, 20000, 100003, 1000000, 5000000}) {
      const uint64_t all = elements * servers;
      EXPECT_LE(MostOf({Make("w", {all})}, servers), 1.25)
          << all << " elements on " << servers;
      EXPECT_LE(MostOf({Make("one", {all / 2}), Make("rows", {all / 100, 25}),
                        Make("rest", {all / 4 + 1}), Make("bias", {10})},
                       servers),
                1.25)
          << all << " elements of several on " << servers;
    }
  }
}

TEST(PlanLayoutTest, AModelTooSmallToSpreadIsNotCutFiner) {
  const auto layout = PlanLayout({Make("w", {16383})}, 4);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->slices_size(), 4) << "16 KiB each";
}

// Where each block begins: its slice's first element and its own place there.
std::set<uint64_t> BlocksOf(const std::vector<uint64_t>& shape,
                            uint32_t servers) {
  const auto layout = PlanLayout({Make("w", shape)}, servers, Pieces::kBlocks);
  const RowShape rows = *ToRowShape(shape);
  std::set<uint64_t> blocks;
  for (const v1::Slice& slice : layout->slices()) {
    const uint64_t elements =
        (slice.row_end() - slice.row_begin()) * rows.row_elements;
    const BlockCut cut = BlockCut::OfDense();
    for (uint64_t b = 0; b < cut.Count(elements); ++b) {
      blocks.insert(slice.row_begin() * rows.row_elements + cut.Begin(b));
    }
  }
  return blocks;
}

TEST(PlanLayoutTest, BlocksAreThoseOfOneServerWhereTheJobNeedsThat) {
  // A kernel below a block, and rows of which a block has whole ones, none that
  // is whole, a slice none that is, or one that is several blocks.
  const std::vector<std::vector<uint64_t>> shapes = {
      {784, 32},   {100000},    {4096, 1024}, {5000, 1000},
      {9, 300000}, {40, 98304}, {5, 524288},  {3, 2000000}};
  for (const auto& shape : shapes) {
    const std::set<uint64_t> alone = BlocksOf(shape, 1);
    for (const uint32_t servers : {2, 3, 8, 64}) {
      EXPECT_EQ(BlocksOf(shape, servers), alone)
          << ShapeName(shape) << " on " << servers;
    }
  }
  EXPECT_EQ(BlocksOf({784, 32}, 2).size(), 1u);
}

TEST(PlanLayoutTest, WholeBlocksAreSpreadOverTheServers) {
  const auto layout =
      PlanLayout({Make("w", {4096, 1024})}, 16, Pieces::kBlocks);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->slices_size(), 16);
}

TEST(PlanLayoutTest, RowsOfASparseVariableNeedNoWholeBlocks) {
  v1::Variable table = Make("t", {10000, 16});
  table.set_sparse(true);
  const auto rows = PlanLayout({table}, 4);
  const auto blocks = PlanLayout({table}, 4, Pieces::kBlocks);
  ASSERT_TRUE(blocks.ok());
  EXPECT_GT(blocks->slices_size(), 1);
  EXPECT_EQ(blocks->SerializeAsString(), rows->SerializeAsString());
}

// Slices of a sparse variable: they cover its rows, and none is longer than
// four blocks, so that none has a last block of a few rows.
void ExpectSlicesOfRows(const v1::Variable& table, uint32_t servers) {
  const uint64_t width = table.shape(1);
  const auto layout = PlanLayout({table}, servers);
  ASSERT_TRUE(layout.ok()) << layout.status();
  uint64_t covered = 0;
  for (const v1::Slice& slice : layout->slices()) {
    EXPECT_EQ(slice.row_begin(), covered);
    EXPECT_LE(slice.row_end() - slice.row_begin(), 4 * BlockRows(width));
    if (table.keyed()) {
      EXPECT_EQ(covered % BlockRows(width), 0u);
    }
    covered = slice.row_end();
  }
  EXPECT_EQ(covered, table.shape(0));
  if (servers == 1) {
    const uint64_t most = 4 * BlockRows(width);
    EXPECT_EQ(static_cast<uint64_t>(layout->slices_size()),
              (table.shape(0) + most - 1) / most);
  }
}

TEST(PlanLayoutTest, RowsOfAnyWidthLieInBlocksThatHaveWholeOnes) {
  for (const uint64_t width :
       {1, 3, 10, 12, 16, 24, 50, 100, 300, 1000, 131073, 262143, 262144}) {
    for (const bool keyed : {false, true}) {
      v1::Variable table = Make("t", {5 * BlockRows(width), width});
      table.set_sparse(true);
      table.set_keyed(keyed);
      for (const uint32_t servers : {1, 2, 3, 32}) {
        SCOPED_TRACE(::testing::Message() << width << " on " << servers);
        ExpectSlicesOfRows(table, servers);
      }
    }
  }
}

TEST(PlanLayoutTest, RowsThatFillBlocksAreCutAsThoseOfADenseVariable) {
  for (const uint64_t width : {1, 2, 16, 4096, 262144}) {
    v1::Variable table = Make("t", {3000000 / width + 1, width});
    for (const uint32_t servers : {1, 2, 5}) {
      table.set_sparse(false);
      const auto dense = PlanLayout({table}, servers);
      table.set_sparse(true);
      const auto sparse = PlanLayout({table}, servers);
      ASSERT_TRUE(sparse.ok());
      ASSERT_EQ(sparse->slices_size(), dense->slices_size());
      for (int s = 0; s < sparse->slices_size(); ++s) {
        EXPECT_EQ(sparse->slices(s).SerializeAsString(),
                  dense->slices(s).SerializeAsString());
      }
    }
  }
}

TEST(PlanLayoutTest, ARowThatFitsIntoNoBlockIsRefused) {
  v1::Variable table = Make("t", {4, 262145});
  table.set_sparse(true);
  EXPECT_THAT(PlanLayout({table}, 1).status().message(),
              HasSubstr("variable 't': a sparse variable has two dimensions, "
                        "of which the second is at most 262144"));
}

TEST(PiecesOfTest, NormsAndSpikesAreOfWholeBlocks) {
  v1::JobConfig job;
  EXPECT_EQ(PiecesOf(job), Pieces::kRows);
  job.mutable_optimizer()->set_clip_value(1);
  EXPECT_EQ(PiecesOf(job), Pieces::kRows);
  job.mutable_optimizer()->set_clip_norm(1);
  EXPECT_EQ(PiecesOf(job), Pieces::kBlocks);
  job.clear_optimizer();
  job.mutable_optimizer()->mutable_lamb();
  EXPECT_EQ(PiecesOf(job), Pieces::kBlocks);
  job.mutable_optimizer()->mutable_adam();
  EXPECT_EQ(PiecesOf(job), Pieces::kRows);
  job.mutable_optimizer()->add_groups()->mutable_lamb();
  EXPECT_EQ(PiecesOf(job), Pieces::kBlocks);
  job.clear_optimizer();
  job.set_spike_factor(1000);
  EXPECT_EQ(PiecesOf(job), Pieces::kBlocks);
}

TEST(PlanLayoutTest, TheBalanceIsSaidInOneSentence) {
  const auto layout = PlanLayout({Make("w", {3, 4000}), Make("b", {4000})}, 3);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(BalanceText(*layout, 3),
            "the layout has 4 slices with 64000 bytes of values on 3 servers; "
            "ps-0 has the most, 1.50 times its share");
}

TEST(PlanLayoutTest, ARowAboveFourMebibytesIsASliceOfItsOwn) {
  for (const uint32_t servers : {1, 3}) {
    const auto layout = PlanLayout({Make("w", {2, 2000000})}, servers);
    ASSERT_TRUE(layout.ok());
    EXPECT_EQ(layout->slices_size(), 2);
  }
}

TEST(PlanLayoutTest, BytesAreSpreadOverTheServers) {
  const auto layout = PlanLayout({Make("a", {100}), Make("b", {1000, 1000}),
                                  Make("c", {100}), Make("d", {1000, 1000})},
                                 2);
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(BytesOfServers(*layout, 2), ElementsAre(4000400, 4000400));
}

TEST(PlanLayoutTest, ValuesOfBf16AreTwoBytes) {
  v1::Variable table = Make("t", {10, 16});
  table.set_sparse(true);
  table.set_keyed(true);
  table.set_row_format(v1::Variable::ROW_FORMAT_BF16);
  const auto layout = PlanLayout({table, Make("b", {100})}, 1);
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(BytesOfServers(*layout, 1), ElementsAre(320 + 400));
}

TEST(PlanLayoutTest, BadVariablesAreNamed) {
  EXPECT_THAT(
      PlanLayout({Make("w", {2}), Make("w", {2})}, 1).status().message(),
      HasSubstr("two variables are named 'w'"));
  EXPECT_THAT(PlanLayout({Make("w", {2, 0})}, 1).status().message(),
              HasSubstr("variable 'w': shape 2x0"));
  EXPECT_FALSE(PlanLayout({Make("", {2})}, 1).ok());
  EXPECT_FALSE(PlanLayout({Make(std::string(513, 'x'), {2})}, 1).ok());
}

}  // namespace
}  // namespace paramd
