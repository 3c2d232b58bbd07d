#include "cli/commands/prediction_file.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Written(PredictionFile::Format format, Dims dims,
                    const std::vector<std::vector<float>>& batches,
                    bool names = true) {
  std::FILE* const file = std::tmpfile();
  PredictionFile predictions(format, file, names);
  FeatureSpec spec;
  spec.name = "prediction";
  spec.dims = dims;
  for (const std::vector<float>& values : batches) {
    Column column;
    column.Reset(spec, values.size() / spec.size());
    std::copy(values.begin(), values.end(), column.values<float>().begin());
    EXPECT_TRUE(predictions.Add({&column, 1}).ok());
  }
  EXPECT_TRUE(predictions.Finish().ok());
  std::string bytes(static_cast<size_t>(std::ftell(file)), '\0');
  std::fseek(file, 0, SEEK_END);
  bytes.resize(static_cast<size_t>(std::ftell(file)));
  std::rewind(file);
  EXPECT_EQ(std::fread(bytes.data(), 1, bytes.size(), file), bytes.size());
  std::fclose(file);
  return bytes;
}

TEST(PredictionFileTest, CsvHasALineOfNamesAndOneForEachExample) {
  EXPECT_EQ(Written(PredictionFile::Format::kCsv, {2}, {{0.5, 1}, {0.1f, 3}}),
            "prediction_0,prediction_1\n0.5,1\n0.100000001,3\n");
  EXPECT_EQ(Written(PredictionFile::Format::kCsv, {}, {{1, 2}}),
            "prediction\n1\n2\n");
}

TEST(PredictionFileTest, OfNoExamplesTheShapeIsKnown) {
  EXPECT_EQ(Written(PredictionFile::Format::kCsv, {2}, {{}}),
            "prediction_0,prediction_1\n");
  EXPECT_EQ(Written(PredictionFile::Format::kCsv, {2}, {{}, {1, 2}},
                    /*names=*/false),
            "1,2\n");
  EXPECT_EQ(Written(PredictionFile::Format::kJsonLines, {2}, {{}}), "");
  EXPECT_THAT(Written(PredictionFile::Format::kNpy, {2}, {{}}),
              HasSubstr("'shape': (0, 2,), }"));
}

TEST(PredictionFileTest, JsonLinesHaveNoNumbersThatJsonHasNot) {
  EXPECT_EQ(Written(PredictionFile::Format::kJsonLines, {2},
                    {{1, std::numeric_limits<float>::infinity()}}),
            "{\"prediction\": [1,null]}\n");
  EXPECT_EQ(Written(PredictionFile::Format::kJsonLines, {}, {{0.25}}),
            "{\"prediction\": 0.25}\n");
}

TEST(PredictionFileTest, NpyHasTheShapeOfAllBatches) {
  const std::string bytes =
      Written(PredictionFile::Format::kNpy, {2}, {{1, 2, 3, 4}, {5, 6}});
  EXPECT_THAT(bytes, StartsWith(std::string("\x93NUMPY\x01\x00\xb6\x00", 10)));
  EXPECT_THAT(bytes, HasSubstr("{'descr': '<f4', 'fortran_order': False, "
                               "'shape': (3, 2,), }"));
  ASSERT_EQ(bytes.size(), 192 + 6 * sizeof(float));
  EXPECT_EQ(bytes[191], '\n');
  float last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - sizeof(last), sizeof(last));
  EXPECT_EQ(last, 6);
}

// A column of zeros, of a number each.
Column Zeros(uint64_t examples) {
  Column column;
  column.Reset(FeatureSpec{"prediction", DType::kFloat32, {}}, examples);
  for (float& value : column.values<float>()) value = 0;
  return column;
}

TEST(PredictionFileTest, WhatIsNotWrittenIsSaidBeforeTheEnd) {
  std::FILE* const full = std::fopen("/dev/full", "wb");
  ASSERT_NE(full, nullptr);
  PredictionFile predictions(PredictionFile::Format::kCsv, full);
  const Column column = Zeros(100000);
  const absl::Status status = predictions.Add({&column, 1});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message(),
            "predictions can't be written: No space left on device");
  std::fclose(full);
}

TEST(PredictionFileTest, NpyInAPipeIsRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::FILE* const file = fdopen(ends[1], "wb");
  ASSERT_NE(file, nullptr);
  PredictionFile predictions(PredictionFile::Format::kNpy, file);
  const Column column = Zeros(1);
  ASSERT_TRUE(predictions.Add({&column, 1}).ok());
  const absl::Status status = predictions.Finish();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Illegal seek"));
  std::fclose(file);
  close(ends[0]);
}

TEST(PredictionFileTest, AnUnknownFormatIsRefused) {
  EXPECT_EQ(PredictionFile::ParseFormat("xml").status().message(),
            "--format is csv, jsonl or npy, not 'xml'");
}

TEST(PredictionFileTest, OtherThanFloatsAreRefused) {
  PredictionFile predictions(PredictionFile::Format::kCsv, stdout);
  FeatureSpec spec;
  spec.dtype = DType::kInt32;
  Column column;
  column.Reset(spec, 1);
  EXPECT_TRUE(absl::IsInternal(predictions.Add({&column, 1})));
}

// A model's outputs "click", a number, and "stars", two of them.
std::string WrittenOfTwo(PredictionFile::Format format) {
  Batch batch;
  batch.Reset({{FeatureSpec{"click", DType::kFloat32, {1}},
                FeatureSpec{"stars", DType::kFloat32, {2}}}},
              2);
  float next = 0;
  for (Column& column : batch.columns) {
    for (float& value : column.values<float>()) value = next += 0.5f;
  }
  std::FILE* const file = std::tmpfile();
  PredictionFile predictions(format, file);
  EXPECT_TRUE(predictions.Add(batch.columns).ok());
  EXPECT_TRUE(predictions.Finish().ok());
  std::fseek(file, 0, SEEK_END);
  std::string bytes(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(bytes.data(), 1, bytes.size(), file), bytes.size());
  std::fclose(file);
  return bytes;
}

TEST(PredictionFileTest, SeveralOutputsAreCalledByTheirNames) {
  EXPECT_EQ(WrittenOfTwo(PredictionFile::Format::kCsv),
            "click,stars_0,stars_1\n0.5,1.5,2\n1,2.5,3\n");
  EXPECT_EQ(WrittenOfTwo(PredictionFile::Format::kJsonLines),
            "{\"click\": [0.5], \"stars\": [1.5,2]}\n"
            "{\"click\": [1], \"stars\": [2.5,3]}\n");
  const std::string npy = WrittenOfTwo(PredictionFile::Format::kNpy);
  EXPECT_THAT(npy, HasSubstr("'shape': (2, 3,), }"));
  const float row[] = {0.5, 1.5, 2, 1, 2.5, 3};
  EXPECT_EQ(
      std::memcmp(npy.data() + npy.size() - sizeof(row), row, sizeof(row)), 0);
}

}  // namespace
}  // namespace paramd
