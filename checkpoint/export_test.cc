#include "checkpoint/export.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "base/crc32c.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/testing/system_calls.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

using testing::CommitIncrement;
using testing::CommitSample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SampleBytes;
using testing::SampleVariable;
using testing::SystemCalls;

class ExportTest : public ::testing::Test {
 protected:
  ExportTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
    checkpoint_ = *CommitSample(root_ + "/checkpoints", variables_,
                                {"momentum", "variance"}, 1, 1, 10, 3, 100);
    options_.to = root_ + "/out";
  }

  absl::StatusOr<ExportResult> Export() {
    const auto reader = CheckpointReader::Open(checkpoint_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return ExportCheckpoint(reader->get(), options_);
  }

  // The tensor's bytes in a file of the export; its dtype and shape are
  // checked.
  std::string Tensor(const std::string& file, const std::string& name,
                     const std::string& dtype,
                     const std::vector<uint64_t>& shape) {
    const auto open = SafetensorsFile::Open(absl::StrCat(root_, "/out/", file));
    EXPECT_TRUE(open.ok()) << open.status();
    const TensorInfo* const info = (*open)->Find(name);
    if (info == nullptr) return "no such tensor";
    EXPECT_EQ(info->dtype, dtype);
    EXPECT_EQ(info->shape, shape);
    BufferChain chain;
    EXPECT_TRUE((*open)->Read(*info, 0, info->end - info->begin, &chain).ok());
    return FlattenForTest(chain);
  }
  std::string Sample(int variable, const std::string& slot) const {
    const auto& shape = variables_[variable].shape();
    return FlattenForTest({SampleBytes(variables_[variable], slot,
                                       {0, shape.empty() ? 1 : shape[0]})});
  }

  const std::string root_;
  const std::vector<v1::Variable> variables_ = {
      SampleVariable("layer/kernel", {40, 11}), SampleVariable("bias", {131}),
      SampleVariable("scale", {})};
  std::string checkpoint_;
  ExportOptions options_;
};

TEST_F(ExportTest, EachVariableIsOneTensor) {
  uint64_t told = 0;
  uint64_t all = 0;
  options_.progress = [&](uint64_t bytes, uint64_t total) {
    EXPECT_GE(bytes, told);
    told = bytes;
    all = total;
  };
  const auto result = Export();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->directory, *AbsolutePath(root_ + "/out"));
  EXPECT_THAT(result->files, ElementsAre("model.safetensors"));
  EXPECT_EQ(result->tensors, 3u);
  EXPECT_EQ(result->bytes, uint64_t{572 * 4});
  EXPECT_EQ(told, all);  // Headers and slots too.
  EXPECT_EQ(Tensor("model.safetensors", "layer/kernel", "F32", {40, 11}),
            Sample(0, ""));
  EXPECT_EQ(Tensor("model.safetensors", "bias", "F32", {131}), Sample(1, ""));
  EXPECT_EQ(Tensor("model.safetensors", "scale", "F32", {}), Sample(2, ""));
  EXPECT_THAT(*ListDirectory(root_), ElementsAre("checkpoints", "out"));
}

TEST_F(ExportTest, SlotsLieInAFileOfTheirOwn) {
  options_.slots = true;
  options_.dtype = NumberFormat::kBf16;
  const auto result = Export();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->files,
              ElementsAre("model.safetensors", "optimizer.safetensors"));
  EXPECT_EQ(result->bytes, uint64_t{572 * (2 + 4 + 4) + 3 * 8});
  EXPECT_EQ(Tensor("optimizer.safetensors", "bias/slot:variance", "F32", {131}),
            Sample(1, "variance"));
  EXPECT_EQ(Tensor("optimizer.safetensors", "layer/kernel/slot:momentum", "F32",
                   {40, 11}),
            Sample(0, "momentum"));
}

TEST_F(ExportTest, RowsGoWithTheirKeys) {
  v1::Variable table = SampleVariable("table", {40, 4});
  table.set_sparse(true);
  table.set_keyed(true);
  table.set_admit_after(2);
  checkpoint_ =
      *CommitSample(root_ + "/keyed", {table},
                    {"key", "used", "sketch", "momentum"}, 1, 1, 10, 1, 10000);
  const auto result = Export();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tensors, 3u);
  for (const std::string slot : {"key", "used"}) {
    EXPECT_EQ(Tensor("model.safetensors", "table/slot:" + slot, "I64", {40}),
              FlattenForTest({SampleBytes(table, slot, {0, 40})}));
  }
  EXPECT_EQ(Tensor("model.safetensors", "table", "F32", {40, 4}),
            FlattenForTest({SampleBytes(table, "", {0, 40})}));
}

TEST_F(ExportTest, WithTheSlotsGoesHowOftenTheyWereUpdated) {
  v1::Manifest manifest = *ReadManifest(checkpoint_);
  uint64_t applied = 940;
  for (v1::ShardFile& file : *manifest.mutable_files()) {
    for (v1::SavedSlice& slice : *file.mutable_slices()) {
      slice.clear_applied();
      slice.add_applied()->set_applied(slice.variable() == "bias" ? ++applied
                                                                  : 7);
      slice.mutable_applied(0)->set_blocks(1);
    }
  }
  const std::string text = *EncodeManifest(manifest);
  std::ofstream(checkpoint_ + "/manifest.json") << text;
  std::ofstream(checkpoint_ + "/manifest.crc32c") << absl::StrFormat(
      "%08x\n", Crc32c(AsBytes<char>({text.data(), text.size()})));
  options_.slots = true;
  const auto result = Export();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->uneven, 1u);
  const auto step = [&](const std::string& variable) {
    int64_t number = 0;
    const std::string bytes =
        Tensor("optimizer.safetensors", variable + "/slot:step", "I64", {});
    EXPECT_EQ(bytes.size(), sizeof(number));
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number;
  };
  EXPECT_EQ(step("layer/kernel"), 7);
  EXPECT_EQ(step("bias"), static_cast<int64_t>(applied));
}

TEST_F(ExportTest, FewerBitsAreThoseOfTheNearestNumber) {
  for (const NumberFormat format : {NumberFormat::kBf16, NumberFormat::kFp16}) {
    std::filesystem::remove_all(options_.to);
    options_.dtype = format;
    const auto result = Export();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->overflowed, 0u);
    const std::string numbers = Sample(1, "");
    std::string expected(131 * 2, '\0');
    EncodeNumbers(format, reinterpret_cast<const float*>(numbers.data()), 131,
                  reinterpret_cast<std::byte*>(expected.data()));
    EXPECT_EQ(Tensor("model.safetensors", "bias",
                     format == NumberFormat::kBf16 ? "BF16" : "F16", {131}),
              expected);
  }
}

TEST_F(ExportTest, SeveralFilesHaveAnIndex) {
  options_.max_shard_bytes = 530;  // bias (524) and scale (4), not more.
  const auto result = Export();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->files, ElementsAre("model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors",
                                         "model.safetensors.index.json"));
  EXPECT_EQ(Tensor("model-00001-of-00002.safetensors", "layer/kernel", "F32",
                   {40, 11}),
            Sample(0, ""));
  EXPECT_EQ(Tensor("model-00002-of-00002.safetensors", "scale", "F32", {}),
            Sample(2, ""));
  const auto index = nlohmann::json::parse(
      *ReadWholeFile(root_ + "/out/model.safetensors.index.json", 1 << 20));
  EXPECT_EQ(index["metadata"]["total_size"], 572 * 4);
  EXPECT_EQ(index["weight_map"]["bias"], "model-00002-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"].size(), 3u);
}

TEST_F(ExportTest, AnIncrementIsExportedWhole) {
  const auto changed = [](const v1::SavedSlice& slice, uint64_t) {
    return slice.variable() == "scale";
  };
  checkpoint_ = *CommitIncrement(checkpoint_, changed);
  ASSERT_TRUE(Export().ok());
  EXPECT_EQ(Tensor("model.safetensors", "bias", "F32", {131}), Sample(1, ""));
  EXPECT_EQ(Tensor("model.safetensors", "scale", "F32", {}), Sample(2, "+"));
}

TEST_F(ExportTest, ABundleHasAnIndexDataAndTheStateFile) {
  options_.layout = ExportOptions::Layout::kTensorBundle;
  options_.slots = true;
  const auto result = Export();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(
      result->files,
      ElementsAre("checkpoint", "ckpt.data-00000-of-00001", "ckpt.index"));
  EXPECT_EQ(result->tensors, 12u);
  EXPECT_EQ(std::filesystem::file_size(root_ + "/out/ckpt.data-00000-of-00001"),
            uint64_t{572 * 12 + 3 * 8});
  EXPECT_THAT(*ReadWholeFile(root_ + "/out/checkpoint", 1000),
              HasSubstr("model_checkpoint_path: \"ckpt\"\n"));
}

TEST_F(ExportTest, SomethingThatExistsIsNotTouched) {
  std::filesystem::create_directories(options_.to);
  const auto result = Export();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("/out' exists; an export makes a new directory"));
  EXPECT_THAT(*ListDirectory(root_), ElementsAre("checkpoints", "out"));
}

TEST_F(ExportTest, WhatAKilledExportLeftIsDeletedByTheNext) {
  const std::string left = root_ + "/.out.0123456789abcdef";
  const std::string others[] = {root_ + "/.out.0123456789abcde",
                                root_ + "/.out2.0123456789abcdef",
                                root_ + "/.out.0123456789abcdeg"};
  std::filesystem::create_directories(left);
  for (const std::string& other : others) {
    std::filesystem::create_directories(other);
  }
  // Another export to the same place, which goes on.
  const std::string at_work = root_ + "/.out.00000000000000aa";
  std::filesystem::create_directories(at_work);
  const int fd = open(at_work.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  ASSERT_TRUE(Export().ok());
  EXPECT_FALSE(std::filesystem::exists(left));
  for (const std::string& other : others) {
    EXPECT_TRUE(std::filesystem::exists(other)) << other;
  }
  EXPECT_TRUE(std::filesystem::exists(at_work));
  close(fd);
}

TEST_F(ExportTest, WhatFailsLeavesNothing) {
  options_.slots = true;
  for (const auto layout : {ExportOptions::Layout::kSafetensors,
                            ExportOptions::Layout::kTensorBundle}) {
    options_.layout = layout;
    // The disk is full from some call on, until it is after the last write.
    int failures = 0;
    for (int n = 1;; ++n) {
      absl::StatusOr<ExportResult> result;
      {
        const SystemCalls full(SystemCalls::Fault::kFull, n, ENOSPC);
        result = Export();
      }
      if (result.ok()) break;
      ++failures;
      EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(*ListDirectory(root_), ElementsAre("checkpoints"));
    }
    EXPECT_GT(failures, 5);
    std::filesystem::remove_all(options_.to);
  }
  std::filesystem::resize_file(checkpoint_ + "/ps-00002-of-00003.safetensors",
                               50);
  EXPECT_EQ(Export().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(*ListDirectory(root_), ElementsAre("checkpoints"));
}

}  // namespace
}  // namespace paramd
