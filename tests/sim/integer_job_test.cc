#include "tests/sim/integer_job.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "coordinator/core/layout.h"
#include "tensor/number_format.h"
#include "tensor/shape.h"
#include "tests/sim/fine_cut.h"

namespace paramd {
namespace {

// The values of variable `v` after these batches.
std::vector<float> After(const IntegerJob& job, size_t v,
                         const std::multiset<BatchPlace>& batches) {
  const size_t elements = job.Gradient({1, 0})[v].size() / sizeof(float);
  const float initial = job.variables()[v].initializer().low();
  std::vector<float> values(elements, initial);
  for (const BatchPlace& batch : batches) {
    const BufferChain gradients = job.Gradient(batch);
    std::vector<float> gradient(elements);
    std::memcpy(gradient.data(), gradients[v].bytes().data(),
                gradients[v].size());
    for (size_t e = 0; e < elements; ++e) values[e] -= gradient[e];
  }
  return values;
}

TEST(IntegerJobTest, TheSumOfAllBatchesIsExact) {
  const FineCut cut({.block_elements = 16, .slice_bytes = 128});
  const IntegerJob job(3);
  const std::multiset<BatchPlace> all(job.batches().begin(),
                                      job.batches().end());
  for (size_t v = 0; v < job.variables().size(); ++v) {
    const std::vector<float> values = After(job, v, all);
    EXPECT_TRUE(job.CheckValues(v, values, all).ok());
    EXPECT_TRUE(job.CheckNotTorn(v, values).ok());
  }
}

TEST(IntegerJobTest, ABatchTooMuchTooFewOrInAnothersPlaceShows) {
  const FineCut cut({.block_elements = 16, .slice_bytes = 128});
  const IntegerJob job(3);
  const std::multiset<BatchPlace> two = {{1, 0}, {1, 4}};
  for (size_t v = 0; v < job.variables().size(); ++v) {
    const std::vector<float> values = After(job, v, two);
    EXPECT_TRUE(job.CheckValues(v, values, two).ok());
    EXPECT_FALSE(job.CheckValues(v, values, {{1, 0}}).ok());
    EXPECT_FALSE(job.CheckValues(v, values, {{1, 0}, {1, 4}, {1, 4}}).ok());
    EXPECT_FALSE(job.CheckValues(v, values, {{1, 0}, {2, 4}}).ok());
  }
}

TEST(IntegerJobTest, Promise2_ATornBlockShowsAndDifferentBlocksDoNot) {
  const FineCut cut({.block_elements = 16, .slice_bytes = 128});
  const IntegerJob job(1);
  const size_t v = 3;
  ASSERT_EQ(job.variables()[v].name(), "blocks");
  const std::vector<float> old_values = After(job, v, {});
  std::vector<float> values = After(job, v, {{1, 0}});
  // The second block is two elements long.
  values[values.size() - 2] = old_values[values.size() - 2];
  EXPECT_FALSE(job.CheckNotTorn(v, values).ok());
  values[values.size() - 1] = old_values[values.size() - 1];
  EXPECT_TRUE(job.CheckNotTorn(v, values).ok());
}

TEST(IntegerJobTest, WhatTravelsInHalfTheBytesIsExact) {
  const FineCut cut({.block_elements = 16, .slice_bytes = 128});
  const IntegerJob job(3, {.push_format = v1::JobConfig::WIRE_FORMAT_BF16});
  for (const BatchPlace& batch : job.batches()) {
    for (const Buffer& gradient : job.Gradient(batch)) {
      const size_t count = gradient.size() / sizeof(float);
      const Buffer half = Encoded(gradient, NumberFormat::kBf16);
      std::vector<float> decoded(count);
      DecodeNumbers(NumberFormat::kBf16, half.bytes().data(), count,
                    decoded.data());
      ASSERT_EQ(
          std::memcmp(decoded.data(), gradient.bytes().data(), gradient.size()),
          0);
    }
  }
}

TEST(IntegerJobTest, ASpoiledGradientIsNotFiniteInOneBlock) {
  const FineCut cut({.block_elements = 16, .slice_bytes = 128});
  const IntegerJob job(3, {.spoiled = 0.3});
  size_t spoiled = 0;
  for (const BatchPlace& batch : job.batches()) {
    size_t wrong = 0;
    for (const Buffer& gradient : job.Gradient(batch)) {
      std::vector<float> values(gradient.size() / sizeof(float));
      std::memcpy(values.data(), gradient.bytes().data(), gradient.size());
      for (const float value : values) wrong += std::isfinite(value) ? 0 : 1;
    }
    EXPECT_EQ(wrong, job.SpoiledBlock(batch).has_value() ? 1u : 0u);
    spoiled += wrong;
  }
  EXPECT_GT(spoiled, 0u);
  EXPECT_LT(spoiled, job.batches().size());
}

TEST(IntegerJobTest, ACountedJobSaysHowManyBatchesAreIn) {
  const FineCut cut({.block_elements = 16, .slice_bytes = 128});
  const IntegerJob job(3, {.counted = true});
  for (size_t b = 0; b < job.blocks().size(); ++b) {
    const size_t v = job.blocks()[b].variable;
    EXPECT_EQ(job.SumIn(b, After(job, v, {{1, 0}, {1, 4}, {1, 4}})), 3);
  }
}

TEST(IntegerJobTest, BlocksAreThoseOfTheLayoutThatACoordinatorPlans) {
  const FineCut cut({.block_elements = 16, .slice_bytes = 128});
  const IntegerJob job(1);
  const auto layout = PlanLayout(job.variables(), 3);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->slices_size(), static_cast<int>(job.slices().size()));
  uint32_t blocks = 0;
  for (int s = 0; s < layout->slices_size(); ++s) {
    const IntegerJob::SlicePlace& place = job.slices()[s];
    EXPECT_EQ(layout->slices(s).variable(), place.variable);
    EXPECT_EQ(layout->slices(s).row_begin(), place.row_begin);
    EXPECT_EQ(layout->slices(s).row_end(), place.row_end);
    EXPECT_EQ(place.first_block, blocks);
    blocks += place.blocks;
  }
  EXPECT_EQ(blocks, job.blocks().size());
  EXPECT_GT(blocks, job.slices().size()) << "slices have several blocks";
}

TEST(IntegerJobTest, BlocksOfRowsOfAnyWidthAreThoseOfTheLayoutToo) {
  for (const uint64_t elements : {8, 16, 32, 64}) {
    const FineCut cut({.block_elements = elements,
                       .slice_bytes = 2 * elements * sizeof(float)});
    for (const uint64_t width : {3, 4, 5, 7}) {
      const IntegerJob job(1, {.sparse = true, .width = width});
      const auto layout = PlanLayout(job.variables(), 3);
      ASSERT_TRUE(layout.ok()) << layout.status();
      ASSERT_EQ(layout->slices_size(), static_cast<int>(job.slices().size()));
      for (int s = 0; s < layout->slices_size(); ++s) {
        EXPECT_EQ(layout->slices(s).row_begin(), job.slices()[s].row_begin);
        EXPECT_EQ(layout->slices(s).row_end(), job.slices()[s].row_end);
      }
      uint64_t rows = 0;
      for (const IntegerJob::BlockPlace& block : job.blocks()) {
        if (!job.variables()[block.variable].sparse()) continue;
        EXPECT_EQ(block.first_element, rows * width);
        EXPECT_EQ(block.elements % width, 0u);
        rows += block.elements / width;
      }
      EXPECT_EQ(rows, elements + 1);
    }
  }
}

TEST(IntegerJobTest, SomeSeedsHaveRowsThatDoNotFillABlock) {
  for (const uint64_t elements : {8, 16, 32, 64}) {
    const FineCut cut({.block_elements = elements,
                       .slice_bytes = 2 * elements * sizeof(float)});
    int uneven = 0;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      const uint64_t width = IntegerJob::DrawWidth(seed);
      EXPECT_EQ(BlockRows(width) % 2, 0u) << "two groups fill them";
      uneven += elements % width != 0 ? 1 : 0;
    }
    EXPECT_GT(uneven, 20);
    EXPECT_LT(uneven, 100);
  }
}

TEST(IntegerJobTest, KeysOfRowsThatDoNotFillABlockAreInGroupsToo) {
  const FineCut cut({.block_elements = 32, .slice_bytes = 256});
  const IntegerJob job(
      3, {.sparse = true, .width = 5, .keys = IntegerJob::Keys::kEvict});
  EXPECT_EQ(job.keys().size(), 5u * 9) << "three groups, of which two fill six";
  for (const BatchPlace& batch : job.batches()) {
    const std::vector<uint64_t> rows = job.RowsOf(batch);
    EXPECT_EQ(rows.size() % 3, 0u);
    EXPECT_EQ(job.Gradient(batch).back().size(), rows.size() * 5 * 4);
  }
}

TEST(IntegerJobTest, ABatchReadsTheKeysOfOnePartOfABucket) {
  const FineCut cut({.block_elements = 32, .slice_bytes = 256});
  for (const IntegerJob::Keys keys :
       {IntegerJob::Keys::kFit, IntegerJob::Keys::kEvict}) {
    const IntegerJob job(3, {.sparse = true, .keys = keys});
    const v1::Variable& variable = job.variables().back();
    ASSERT_TRUE(variable.keyed());
    const bool fit = keys == IntegerJob::Keys::kFit;
    EXPECT_EQ(job.has_evictions(), !fit);
    EXPECT_EQ(job.keys().size(), fit ? 5u * 8 : 5u * 12);
    EXPECT_EQ(job.AllRows(), job.keys());
    std::set<uint64_t> read;
    for (const BatchPlace& batch : job.batches()) {
      const std::vector<uint64_t> rows = job.RowsOf(batch);
      EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
      EXPECT_EQ(rows.size() % (fit ? 8 : 4), 0u);
      EXPECT_EQ(job.Gradient(batch).back().size(), rows.size() * 4 * 4);
      read.insert(rows.begin(), rows.end());
    }
    EXPECT_EQ(read.size(), job.keys().size());
  }
}

TEST(IntegerJobTest, WithAPolicyKeysComeAndGoByThemselves) {
  const FineCut cut({.block_elements = 64, .slice_bytes = 512});
  const IntegerJob job(
      3, {.sparse = true, .keys = IntegerJob::Keys::kFit, .expire_after = 5});
  const size_t last = job.blocks().size() - 1;  // Of 16 rows.
  EXPECT_TRUE(job.has_evictions());
  EXPECT_EQ(job.variables().back().expire_after(), 5u);
  EXPECT_EQ(job.variables().back().memory_rows(), 0u);
  EXPECT_EQ(job.groups(last), 1u);
  EXPECT_EQ(job.parts(last), 16u);
  EXPECT_EQ(job.parts(0), 1u);
}

TEST(IntegerJobTest, RowsOfAMessageAreFoundByTheirKeys) {
  const FineCut cut({.block_elements = 32, .slice_bytes = 256});
  const IntegerJob job(3, {.sparse = true, .keys = IntegerJob::Keys::kFit});
  const size_t last = job.blocks().size() - 1;  // Of 8 rows.
  const std::vector<uint64_t> named = {job.keys()[33], job.keys()[39]};
  const BufferChain chain = {Buffer::Copy(AsBytes<uint64_t>(named))};
  ChainReader reader(chain);
  EXPECT_EQ(*job.ReadRows(last, 2, &reader), (std::vector<uint64_t>{1, 7}));
  ChainReader again(chain);
  EXPECT_FALSE(job.ReadRows(last - 1, 2, &again).ok()) << "another bucket's";
}

TEST(IntegerJobTest, AKeyThatNoBatchNamesHasNoRow) {
  const FineCut cut({.block_elements = 32, .slice_bytes = 256});
  const IntegerJob job(3, {.sparse = true, .keys = IntegerJob::Keys::kFit});
  const BatchPlace batch = *job.batches().begin();
  std::vector<bool> present(job.keys().size());
  EXPECT_TRUE(job.CheckKeys(present, {}).ok());
  for (const uint64_t key : job.RowsOf(batch)) {
    present[std::lower_bound(job.keys().begin(), job.keys().end(), key) -
            job.keys().begin()] = true;
  }
  EXPECT_TRUE(job.CheckKeys(present, {batch}).ok());
  EXPECT_FALSE(job.CheckKeys(present, {}).ok());
  present.flip();
  EXPECT_FALSE(job.CheckKeys(present, {batch}).ok());
}

TEST(IntegerJobTest, ABatchMayHaveZerosForWholeBlocks) {
  const FineCut cut({.block_elements = 16, .slice_bytes = 128});
  const IntegerJob all(1);
  const IntegerJob job(1, {.touched = 0.1});
  uint64_t zeros = 0;
  uint64_t numbers = 0;
  for (const BatchPlace& batch : job.batches()) {
    const BufferChain gradient = job.Gradient(batch);
    for (size_t b = 0; b < job.blocks().size(); ++b) {
      const IntegerJob::BlockPlace& place = job.blocks()[b];
      const float coefficient = job.Coefficient(batch, b);
      const bool is_small = job.variables()[place.variable].shape_size() < 2;
      if (is_small || coefficient != 0) {
        EXPECT_EQ(coefficient, all.Coefficient(batch, b));
      }
      zeros += coefficient == 0 ? 1 : 0;
      numbers += coefficient != 0 && !is_small ? 1 : 0;
      const auto* first = reinterpret_cast<const float*>(
          gradient[place.variable].bytes().data());
      for (uint64_t e = 0; e < place.elements; ++e) {
        ASSERT_EQ(first[place.first_element + e] != 0, coefficient != 0);
      }
    }
  }
  EXPECT_GT(zeros, 5 * numbers);
  EXPECT_GT(numbers, 0u);
  for (size_t v = 0; v < job.variables().size(); ++v) {
    const std::multiset<BatchPlace> batches(job.batches().begin(),
                                            job.batches().end());
    EXPECT_TRUE(job.CheckNotTorn(v, After(job, v, batches)).ok());
    EXPECT_TRUE(job.CheckValues(v, After(job, v, batches), batches).ok());
  }
}

}  // namespace
}  // namespace paramd
