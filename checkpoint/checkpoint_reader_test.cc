#include "checkpoint/checkpoint_reader.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/file.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

using testing::CommitIncrement;
using testing::CommitSample;
using ::testing::HasSubstr;
using testing::SampleVariable;

class CheckpointReaderTest : public ::testing::Test {
 protected:
  CheckpointReaderTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
    // Slices of four rows, over three servers.
    full_ = *CommitSample(root_, {variable_}, {"momentum"}, 1, 1, 10, 3, 48);
  }

  const v1::Variable variable_ = SampleVariable("w", {10, 3});
  const std::string root_;
  std::string full_;
};

TEST_F(CheckpointReaderTest, AnyBytesAreThoseOfTheWholeVariable) {
  const auto reader = CheckpointReader::Open(full_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const char* slot : {"", "momentum"}) {
    const CheckpointReader::Numbers numbers = {(*reader)->index().Find("w"),
                                               slot};
    const std::string all =
        FlattenForTest({testing::SampleBytes(variable_, slot, {0, 10})});
    ASSERT_EQ(numbers.bytes(), all.size());
    for (uint64_t offset = 0; offset < all.size(); offset += 13) {
      for (uint64_t length = 0; length <= all.size() - offset; length += 11) {
        BufferChain chain;
        ASSERT_TRUE((*reader)->Read(numbers, offset, length, &chain).ok());
        EXPECT_EQ(FlattenForTest(chain), all.substr(offset, length));
      }
    }
  }
}

TEST_F(CheckpointReaderTest, WhatChangedSinceTheBaseIsReadAsItIsNow) {
  const auto changed = [](const v1::SavedSlice& slice, uint64_t) {
    return slice.row_begin() == 4;
  };
  const auto path = CommitIncrement(full_, changed);
  ASSERT_TRUE(path.ok()) << path.status();
  const auto reader = CheckpointReader::Open(*path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const SliceIndex::Entry* const entry = (*reader)->index().Find("w");
  std::string expected;
  for (const SliceIndex::Saved& saved : entry->saved) {
    expected += testing::SampleAfterIncrement(variable_, "momentum",
                                              *saved.slice, changed);
  }
  std::string found;
  EXPECT_TRUE((*reader)
                  ->ForEachPiece({entry, "momentum"},
                                 [&](const Buffer& piece) {
                                   found += FlattenForTest({piece});
                                   return absl::OkStatus();
                                 })
                  .ok());
  EXPECT_EQ(found, expected);
}

TEST_F(CheckpointReaderTest, PiecesEndWithTheFirstError) {
  const auto reader = CheckpointReader::Open(full_);
  int pieces = 0;
  const absl::Status status = (*reader)->ForEachPiece(
      {(*reader)->index().Find("w"), ""}, [&](const Buffer&) {
        ++pieces;
        return absl::CancelledError("enough");
      });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(pieces, 1);
}

TEST_F(CheckpointReaderTest, WithoutAManifestThePathIsNamed) {
  const auto reader = CheckpointReader::Open(root_ + "/nowhere");
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(reader.status().message()),
              HasSubstr(root_ + "/nowhere/manifest.json"));
}

// Reads all values of `w` and finishes.
absl::Status ReadAllOf(const std::string& path) {
  auto reader = CheckpointReader::Open(path);
  if (!reader.ok()) return reader.status();
  const absl::Status read =
      (*reader)->ForEachPiece({(*reader)->index().Find("w"), ""},
                              [](const Buffer&) { return absl::OkStatus(); });
  if (!read.ok()) return read;
  return (*reader)->Finish();
}

TEST_F(CheckpointReaderTest, AFlippedBitAnywhereIsFoundAtTheEnd) {
  const auto path =
      CommitIncrement(full_, [](const v1::SavedSlice& slice, uint64_t) {
        return slice.row_begin() == 4;
      });
  ASSERT_TRUE(path.ok()) << path.status();
  for (const std::string& flipped_in : {full_, *path}) {
    const std::vector<std::string> names = *ListDirectory(flipped_in);
    for (const std::string& name : names) {
      if (name == kTensorIndexFile) continue;
      // Of the base the manifest is nobody's.
      if (flipped_in == full_ && name.find("manifest") == 0) continue;
      const std::string file = absl::StrCat(flipped_in, "/", name);
      const std::string before = *ReadWholeFile(file, 100'000);
      for (size_t at = 0; at < before.size(); at += 7) {
        std::string flipped = before;
        flipped[at] ^= static_cast<char>(1 << at % 8);
        std::ofstream(file, std::ios::binary) << flipped;
        const absl::Status status = ReadAllOf(*path);
        EXPECT_TRUE(absl::IsDataLoss(status))
            << file << " byte " << at << ": " << status;
      }
      std::ofstream(file, std::ios::binary) << before;
    }
  }
  EXPECT_TRUE(ReadAllOf(*path).ok());
}

TEST_F(CheckpointReaderTest, TheWholeIsReadOnceAndItsProgressSaid) {
  const auto reader = CheckpointReader::Open(full_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->read_bytes(), 0u);
  EXPECT_EQ((*reader)->total_bytes(), CheckpointBytes((*reader)->manifest()));
  BufferChain chain;
  ASSERT_TRUE(
      (*reader)->Read({(*reader)->index().Find("w"), ""}, 0, 120, &chain).ok());
  EXPECT_EQ((*reader)->read_bytes(), 120u);
  uint64_t told = 120;
  ASSERT_TRUE((*reader)
                  ->Finish([&](uint64_t bytes, uint64_t) {
                    EXPECT_GT(bytes, told);
                    told = bytes;
                  })
                  .ok());
  EXPECT_EQ(told, (*reader)->total_bytes());
}

TEST_F(CheckpointReaderTest, ADirectoryNamedAfterAnotherCheckpointIsRefused) {
  const std::string other = root_ + "/000001-00000007.step-10";
  std::filesystem::rename(full_, other);
  EXPECT_TRUE(absl::IsDataLoss(CheckpointReader::Open(other).status()));
}

}  // namespace
}  // namespace paramd
