#include "checkpoint/table_report.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/directory.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/testing/sample.h"

namespace paramd {
namespace {

using testing::CommitIncrement;
using testing::CommitSample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SampleVariable;
using ::testing::SizeIs;

// One row of a table of width 2.
struct Row {
  int64_t key;
  int64_t used;  // 0: it has no key.
  std::vector<float> values;
  float steps;
};

class TableReportTest : public ::testing::Test {
 protected:
  TableReportTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
    table_.set_sparse(true);
    table_.set_keyed(true);
  }

  absl::StatusOr<TableReport> Report(const std::string& path,
                                     const std::string& name) {
    reader_ = *CheckpointReader::Open(path);
    return ReportTable(reader_.get(), name);
  }

  // A checkpoint of these rows alone, in one slice; a sketch of these counters
  // for each of them, unless that is 0.
  std::string Commit(const std::vector<Row>& rows,
                     uint64_t eight_counters = 0) {
    v1::Variable table = SampleVariable("t", {rows.size(), 2});
    table.set_sparse(true);
    table.set_keyed(true);
    if (eight_counters != 0) table.set_admit_after(3);
    CheckpointDirectory directory(root_, /*nonce=*/1);
    const std::vector<std::string> slots = {"key", "used", "sketch", "steps"};
    v1::CommitCheckpoint commit;
    *commit.mutable_manifest() =
        testing::SampleManifest({table}, slots, 1, 1, 10);
    v1::PrepareCheckpoint prepare;
    *prepare.mutable_snapshot() = commit.manifest().snapshot();
    commit.set_directory(directory.Prepare(prepare)->directory());
    BufferChain drawn;
    const v1::WriteShard write = testing::SampleWrite(
        commit.directory(), {{&table, {0, rows.size()}, 0}}, slots, 0, 1,
        &drawn);
    const auto written = WriteShardFile(write, Payload(rows, eight_counters));
    EXPECT_TRUE(written.ok()) << written.status();
    *commit.mutable_manifest()->add_files() = written->file();
    return directory.Commit(commit)->path();
  }

  const std::string root_;
  v1::Variable table_ = SampleVariable("table", {103, 4});
  std::unique_ptr<CheckpointReader> reader_;

 private:
  static BufferChain Payload(const std::vector<Row>& rows,
                             uint64_t eight_counters) {
    std::vector<float> values, steps;
    std::vector<int64_t> keys, used;
    for (const Row& row : rows) {
      values.insert(values.end(), row.values.begin(), row.values.end());
      keys.push_back(row.key);
      used.push_back(row.used);
      steps.push_back(row.steps);
    }
    BufferChain payload;
    const auto add = [&payload](const auto& numbers) {
      payload.push_back(Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers))));
    };
    add(values);
    add(keys);
    add(used);
    if (eight_counters != 0) {
      add(std::vector<uint64_t>(rows.size(), eight_counters));
    }
    add(steps);
    return payload;
  }
};

TEST_F(TableReportTest, ARowOfBf16TakesTwoBytesAValue) {
  table_.set_row_format(v1::Variable::ROW_FORMAT_BF16);
  const std::string path = *CommitSample(
      root_, {table_}, {"key", "used", "momentum"}, 1, 1, 10, 2, 400);
  EXPECT_EQ(Report(path, "table")->row_bytes, 40u);
}

TEST_F(TableReportTest, RowsAreCountedByBucketAgeAndNorm) {
  const std::string path =
      *CommitSample(root_, {table_, SampleVariable("w", {2})},
                    {"key", "used", "momentum"}, 1, 1, 10, 2, 400);
  const auto report = Report(path, "table");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rows, 102u);
  // 4 values and momentums, key and use.
  EXPECT_EQ(report->row_bytes, 48u);
  // In slices of 25 rows, which are a bucket each; row 0 has no key.
  EXPECT_EQ(report->buckets.count, 5u);
  EXPECT_EQ(report->buckets.full, 4u);
  EXPECT_THAT(report->buckets.by_fill,
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 5));
  EXPECT_THAT(report->ages.rows, ElementsAre(20, 21, 21, 20, 20));
  // Each value is drawn from [-0.5, 0.5).
  ASSERT_THAT(report->norms.quantiles, SizeIs(7));
  EXPECT_GT(report->norms.quantiles.front().norm, 0);
  EXPECT_LT(report->norms.quantiles.back().norm, 1);
  EXPECT_FALSE(report->sketch.has_value());
  EXPECT_FALSE(report->gradients.has_value());
}

TEST_F(TableReportTest, NormsAndGradientsAreThoseOfRowsWithAKey) {
  const auto report = Report(Commit({{5, 3, {3, 4}, 6},
                                     {-1, 20000, {0, 0}, 2},
                                     {9, 0, {100, 100}, 1000},
                                     {8, 7, {NAN, 1}, 2}}),
                             "t");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rows, 3u);
  EXPECT_EQ(report->buckets.full, 0u);
  EXPECT_EQ(report->buckets.by_fill[7], 1u);
  EXPECT_EQ(report->norms.zero, 1u);
  EXPECT_EQ(report->norms.not_finite, 1u);
  EXPECT_EQ(report->norms.quantiles.front().norm, 0);
  EXPECT_EQ(report->norms.quantiles.back().norm, 5);
  ASSERT_TRUE(report->gradients.has_value());
  const TableReport::Gradients& gradients = *report->gradients;
  EXPECT_EQ(gradients.all, 10);
  ASSERT_THAT(gradients.hottest, SizeIs(3));
  EXPECT_EQ(gradients.hottest[0].key, 5);
  EXPECT_EQ(gradients.hottest[0].gradients, 6u);
  EXPECT_EQ(gradients.hottest[1].key, -1);
  EXPECT_EQ(gradients.hottest[2].key, 8);
  ASSERT_THAT(gradients.shares, SizeIs(2));
  EXPECT_EQ(gradients.shares[0].rows, 1u);
  EXPECT_EQ(gradients.shares[0].share, 0.6);
  EXPECT_EQ(gradients.shares[1].rows, 3u);
  EXPECT_EQ(gradients.shares[1].share, 1);
}

TEST_F(TableReportTest, OfManyRowsTheTenHottestAreListed) {
  std::vector<Row> rows;
  for (int i = 1; i <= 200; ++i) {
    rows.push_back({i, 1, {1, 1}, static_cast<float>(i * 37 % 201)});
  }
  const auto report = Report(Commit(rows), "t");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->gradients->hottest, SizeIs(10));
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(report->gradients->hottest[i].gradients, 200 - i);
  }
  // 1, 10, 100 and all 200.
  ASSERT_THAT(report->gradients->shares, SizeIs(4));
  EXPECT_NEAR(report->gradients->shares[2].share, 15050. / 20100, 0.008);
}

TEST_F(TableReportTest, CountersOfKeysThatWaitAreThoseBelowAdmitAfter) {
  const auto report = Report(
      Commit({{5, 3, {3, 4}, 6}, {9, 0, {1, 1}, 0}}, 0x0000000003020100), "t");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->sketch.has_value());
  EXPECT_EQ(report->sketch->counters, 16u);
  EXPECT_EQ(report->sketch->in_use, 6u);
  EXPECT_EQ(report->sketch->waiting, 4u);
}

TEST_F(TableReportTest, OfAnIncrementItIsWhatTheIncrementHas) {
  const std::string base = *CommitSample(
      root_, {table_}, {"key", "used", "momentum"}, 1, 1, 10, 2, 400);
  // Rows 0 to 24 then have what was in rows 1 to 25, which all have a key.
  const auto path = CommitIncrement(
      base, [](const auto& slice, uint64_t) { return slice.row_begin() == 0; });
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(Report(base, "table")->rows, 102u);
  const auto report = Report(*path, "table");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rows, 103u);
  EXPECT_EQ(report->buckets.full, 5u);
}

TEST_F(TableReportTest, ANameOfNoTableIsRefusedWithThoseThereAre) {
  const std::string path =
      *CommitSample(root_, {table_, SampleVariable("w", {2})}, {"key", "used"},
                    1, 1, 10, 2, 400);
  for (const char* name : {"w", "nothing"}) {
    const auto report = Report(path, name);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(report.status().message()),
                HasSubstr(absl::StrCat("no table '", name,
                                       "' of rows by key; it has 'table'")));
  }
}

TEST_F(TableReportTest, ADamagedOneIsDataLoss) {
  const std::string path = *CommitSample(
      root_, {table_}, {"key", "used", "momentum"}, 1, 1, 10, 1, 400);
  std::filesystem::resize_file(path + "/ps-00001-of-00001.safetensors", 900);
  const auto report = Report(path, "table");
  EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paramd
