#include "checkpoint/diff.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/testing/sample.h"

namespace paramd {
namespace {

using testing::CommitIncrement;
using testing::CommitSample;
using ::testing::ElementsAre;
using testing::SampleBytes;
using testing::SampleVariable;
using ::testing::SizeIs;

class DiffTest : public ::testing::Test {
 protected:
  DiffTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
  }

  std::unique_ptr<CheckpointReader> Open(const std::string& path) {
    auto reader = CheckpointReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  // Cut into slices of `slice_bytes` for so many servers.
  std::string Commit(const std::string& name,
                     const std::vector<v1::Variable>& variables,
                     uint32_t servers, uint64_t slice_bytes) {
    return *CommitSample(absl::StrCat(root_, "/", name), variables,
                         {"momentum"}, 1, 1, 10, servers, slice_bytes);
  }

  const std::string root_;
  const v1::Variable w_ = SampleVariable("w", {10, 3});
};

TEST_F(DiffTest, TheSameNumbersCutOtherwiseAreTheSame) {
  const auto a = Open(Commit("a", {w_, SampleVariable("s", {})}, 3, 48));
  const auto b = Open(Commit("b", {SampleVariable("s", {}), w_}, 1, 1000));
  DiffOptions options;
  options.slots = true;
  uint64_t told = 0;
  uint64_t all = 0;
  options.progress = [&](uint64_t bytes, uint64_t total) {
    EXPECT_GT(bytes, told);
    told = bytes;
    all = total;
  };
  const auto difference = DiffCheckpoints(a.get(), b.get(), options);
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_TRUE(difference->same());
  EXPECT_THAT(difference->common, SizeIs(4));
  // Headers too.
  EXPECT_GT(told, uint64_t{2 * 31 * 2 * 4});
  EXPECT_EQ(told, all);
}

TEST_F(DiffTest, WhatChangedIsMeasured) {
  const std::string before = Commit("a", {w_}, 2, 60);
  // Rows 5 to 10, the half.
  const auto a = Open(before);
  const auto b =
      Open(*CommitIncrement(before, [](const v1::SavedSlice& slice, uint64_t) {
        return slice.row_begin() == 5;
      }));
  const auto difference = DiffCheckpoints(a.get(), b.get());
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_FALSE(difference->same());
  ASSERT_THAT(difference->common, SizeIs(1));
  const CheckpointDifference::Common& w = difference->common[0];
  EXPECT_EQ(w.elements, 30u);
  EXPECT_EQ(w.changed, 15u);
  EXPECT_EQ(w.not_finite, 0u);
  const Buffer whole = SampleBytes(w_, "", {0, 10});
  const auto* const old = reinterpret_cast<const float*>(whole.bytes().data());
  const Buffer half = SampleBytes(w_, "+", {5, 10});
  const auto* const now = reinterpret_cast<const float*>(half.bytes().data());
  double max = 0, squares = 0, squares_a = 0;
  for (int i = 0; i < 30; ++i) {
    const double to = i < 15 ? old[i] : now[i - 15];
    max = std::max(max, std::abs(to - old[i]));
    squares += (to - old[i]) * (to - old[i]);
    squares_a += double{old[i]} * old[i];
  }
  EXPECT_DOUBLE_EQ(w.max_abs_difference, max);
  EXPECT_DOUBLE_EQ(w.norm_difference, std::sqrt(squares));
  EXPECT_DOUBLE_EQ(w.norm_a, std::sqrt(squares_a));
  EXPECT_NE(w.norm_b, w.norm_a);
}

TEST_F(DiffTest, VariablesThatAppearVanishOrChangeTheirShapeAreNamed) {
  const auto a = Open(
      Commit("a", {SampleVariable("old", {4}), SampleVariable("r", {2, 6}), w_},
             1, 1000));
  const auto b = Open(
      Commit("b", {w_, SampleVariable("r", {3, 4}), SampleVariable("new", {5})},
             1, 1000));
  const auto difference = DiffCheckpoints(a.get(), b.get());
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_FALSE(difference->same());
  ASSERT_THAT(difference->only_in_a, SizeIs(1));
  EXPECT_EQ(difference->only_in_a[0].name, "old");
  EXPECT_THAT(difference->only_in_a[0].shape, ElementsAre(4));
  ASSERT_THAT(difference->only_in_b, SizeIs(1));
  EXPECT_EQ(difference->only_in_b[0].name, "new");
  ASSERT_THAT(difference->reshaped, SizeIs(1));
  EXPECT_THAT(difference->reshaped[0].shape_a, ElementsAre(2, 6));
  EXPECT_THAT(difference->reshaped[0].shape_b, ElementsAre(3, 4));
  ASSERT_THAT(difference->common, SizeIs(1));
  EXPECT_EQ(difference->common[0].name, "w");
}

TEST_F(DiffTest, AFileThatCannotBeReadIsNamed) {
  const auto a = Open(Commit("a", {w_}, 1, 1000));
  const std::string path = Commit("b", {w_}, 1, 1000);
  const auto b = Open(path);
  std::filesystem::remove(path + "/ps-00001-of-00001.safetensors");
  const auto difference = DiffCheckpoints(a.get(), b.get());
  EXPECT_EQ(difference.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(difference.status().message(),
                                "ps-00001-of-00001.safetensors"))
      << difference.status();
}

}  // namespace
}  // namespace paramd
