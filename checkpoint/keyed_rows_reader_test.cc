#include "checkpoint/keyed_rows_reader.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/directory.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/testing/sample.h"
#include "config/initial_values.h"
#include "proto/testing/pair.h"
#include "tensor/buffer.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// Four rows make up a bucket; there are two.
constexpr uint64_t kWidth = 60000;
constexpr uint64_t kRows = 8;
constexpr uint64_t kSeed = 5;

v1::Variable MakeVariable() {
  v1::Variable variable = testing::SampleVariable("t", {kRows, kWidth});
  variable.set_sparse(true);
  variable.set_keyed(true);
  variable.mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
  variable.mutable_initializer()->set_low(-1);
  variable.mutable_initializer()->set_high(1);
  return variable;
}

template <typename Number>
std::string AddTensor(const std::string& slot, v1::DType dtype,
                      const std::vector<uint64_t>& shape,
                      const std::vector<Number>& numbers, v1::WriteShard* write,
                      BufferChain* payload) {
  v1::WriteShard::Tensor* const tensor = write->add_tensors();
  tensor->set_name("t" + slot + "[0:8]");
  tensor->set_dtype(dtype);
  *tensor->mutable_shape() = {shape.begin(), shape.end()};
  payload->push_back(Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers))));
  tensor->set_bytes(payload->back().size());
  return tensor->name();
}

// A checkpoint whose row r holds r + 1, with these mixed keys; 0: none.
std::string Commit(const std::string& name,
                   const std::vector<uint64_t>& mixed) {
  CheckpointDirectory directory(::testing::TempDir() + "/" + name, /*nonce=*/1);
  v1::CommitCheckpoint commit;
  *commit.mutable_manifest() =
      testing::SampleManifest({MakeVariable()}, {"key", "used"}, 1, 1, 10);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = testing::Pair(1, 1);
  commit.set_directory(directory.Prepare(prepare)->directory());
  std::vector<float> values(kRows * kWidth);
  std::vector<uint64_t> keys(kRows);
  std::vector<uint64_t> used(kRows);
  for (uint64_t row = 0; row < kRows; ++row) {
    std::fill_n(values.begin() + row * kWidth, kWidth, row + 1.0f);
    keys[row] = UnmixKey(mixed[row]);
    used[row] = mixed[row] == 0 ? 0 : row + 1;
  }
  v1::WriteShard write;
  BufferChain payload;
  write.set_directory(commit.directory());
  v1::ShardFile* const file = write.mutable_file();
  file->set_name("ps-00001-of-00001.safetensors");
  v1::SavedSlice* const saved = file->add_slices();
  saved->set_variable("t");
  saved->set_row_end(kRows);
  saved->set_values_tensor(
      AddTensor("", v1::FLOAT32, {kRows, kWidth}, values, &write, &payload));
  auto& slots = *saved->mutable_slot_tensors();
  slots["key"] =
      AddTensor("/slot:key", v1::INT64, {kRows}, keys, &write, &payload);
  slots["used"] =
      AddTensor("/slot:used", v1::INT64, {kRows}, used, &write, &payload);
  const auto written = WriteShardFile(write, payload);
  EXPECT_TRUE(written.ok()) << written.status();
  *commit.mutable_manifest()->add_files() = written->file();
  const auto committed = directory.Commit(commit);
  EXPECT_TRUE(committed.ok()) << committed.status();
  return committed->path();
}

std::vector<float> InitialOf(uint64_t mixed) {
  std::vector<float> row(kWidth);
  InitialValues(MakeVariable(), kSeed)
      .FillRow(UnmixKey(mixed), absl::MakeSpan(row));
  return row;
}

constexpr uint64_t kHalf = uint64_t{1} << 63;

TEST(KeyedRowsReaderTest, RowsAreFoundByTheirKeysAndOthersAreInitial) {
  const std::string path =
      Commit("found", {30, 10, 0, 20, 0, kHalf + 2, kHalf + 1, 0});
  const std::vector<uint64_t> keys = {10, 15, 30, kHalf + 1, kHalf + 3};
  RestoreReader reader;
  const auto rows = ReadKeyedRows(&reader, path, MakeVariable(), kSeed, keys);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), keys.size() * kWidth);
  const auto row = [&](size_t i) {
    return std::vector<float>(rows->begin() + i * kWidth,
                              rows->begin() + (i + 1) * kWidth);
  };
  EXPECT_TRUE(row(0) == std::vector<float>(kWidth, 2));
  EXPECT_TRUE(row(1) == InitialOf(15));
  EXPECT_TRUE(row(2) == std::vector<float>(kWidth, 1));
  EXPECT_TRUE(row(3) == std::vector<float>(kWidth, 7));
  EXPECT_TRUE(row(4) == InitialOf(kHalf + 3));
  EXPECT_TRUE(ReadKeyedRows(&reader, path, MakeVariable(), kSeed, {})->empty());
}

// Of which one has no room for them.
TEST(CheckpointWeightsTest, RowsAreFoundByTheirKeysWhateverTheCapacity) {
  const std::string path =
      Commit("capacity", {30, 10, 0, 20, 0, kHalf + 2, kHalf + 1, 0});
  const std::vector<std::vector<uint64_t>> keys = {{10, 15, kHalf + 1}};
  for (const uint64_t rows : {4, 8, 16}) {
    v1::Variable variable = MakeVariable();
    variable.set_shape(0, rows);
    const auto weights = ReadWeights(path, {variable}, kSeed, keys);
    ASSERT_TRUE(weights.ok()) << weights.status();
    ASSERT_EQ(weights->size(), 1u);
    const std::vector<float>& values = weights->front();
    ASSERT_EQ(values.size(), 3 * kWidth);
    EXPECT_EQ(values[0], 2);
    EXPECT_EQ(values[kWidth], InitialOf(15)[0]);
    EXPECT_EQ(values[2 * kWidth], 7);
  }
}

TEST(KeyedRowsReaderTest, WhatTheCheckpointDoesNotHaveIsNamed) {
  const std::string path = Commit("missing", std::vector<uint64_t>(kRows));
  v1::Variable other = MakeVariable();
  other.set_name("u");
  RestoreReader reader;
  EXPECT_THAT(
      std::string(
          ReadKeyedRows(&reader, path, other, kSeed, {1}).status().message()),
      ::testing::HasSubstr("'u'"));
}

}  // namespace
}  // namespace paramd
