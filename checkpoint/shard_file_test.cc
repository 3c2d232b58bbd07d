#include "checkpoint/shard_file.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "checkpoint/directory.h"
#include "checkpoint/restore_reader.h"
#include "checkpoint/testing/sample.h"

namespace paramd {
namespace {

using testing::CommitSample;
using testing::CutForServers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SampleVariable;
using testing::SampleWrite;

class ShardFileTest : public ::testing::Test {
 protected:
  ShardFileTest()
      : directory_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    request_ = SampleWrite(directory_, CutForServers(variables_, 1, 1 << 20),
                           {"momentum"}, 0, 1, &payload_);
  }

  // What WriteShardFile says to the request with a change.
  absl::Status Refused(const std::function<void(v1::WriteShard*)>& change) {
    v1::WriteShard request = request_;
    change(&request);
    return WriteShardFile(request, payload_).status();
  }

  // Reads rows [begin, end) of `w`, which has the shape 10x3, and its momentum.
  absl::Status Read(const std::string& path, uint64_t begin, uint64_t end,
                    const std::function<void(v1::ReadSlices*)>& change,
                    v1::ReadSlicesResult* result, std::string* bytes) {
    v1::ReadSlices request;
    request.set_path(path);
    auto* const want = request.add_slices();
    want->set_variable("w");
    want->add_shape(10);
    want->add_shape(3);
    want->set_row_begin(begin);
    want->set_row_end(end);
    request.add_slots("momentum");
    change(&request);
    BufferChain payload;
    const absl::Status status = RestoreReader().Read(request, result, &payload);
    *bytes = FlattenForTest(payload);
    return status;
  }

  const std::string directory_;
  const std::vector<v1::Variable> variables_ = {SampleVariable("w", {10, 3}),
                                                SampleVariable("s", {})};
  v1::WriteShard request_;
  BufferChain payload_;
};

TEST_F(ShardFileTest, SizeAndChecksumAreOfTheWholeFile) {
  const auto result = WriteShardFile(request_, payload_);
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string path = directory_ + "/ps-00001-of-00001.safetensors";
  const auto content = ReadWholeFile(path, 1 << 20);
  EXPECT_EQ(result->file().bytes(), content->size());
  EXPECT_EQ(result->file().crc32c(),
            Crc32c(AsBytes<char>({content->data(), content->size()})));
  EXPECT_EQ(result->file().slices_size(), 2);
  EXPECT_EQ(content->substr(content->size() - ChainSize(payload_)),
            FlattenForTest(payload_));
  EXPECT_THAT(*ListDirectory(directory_),
              ElementsAre("ps-00001-of-00001.safetensors"));
}

TEST_F(ShardFileTest, ThePayloadMayBeCutAnywhere) {
  const std::string bytes = FlattenForTest(payload_);
  BufferChain cut;
  for (size_t i = 0; i < bytes.size(); i += 7) {
    cut.push_back(Buffer::Copy(bytes.substr(i, 7)));
  }
  const auto whole = WriteShardFile(request_, payload_);
  const auto pieces = WriteShardFile(request_, cut);
  EXPECT_EQ(whole->file().crc32c(), pieces->file().crc32c());
}

TEST_F(ShardFileTest, AServerWithoutSlicesWritesAFileToo) {
  request_.clear_tensors();
  request_.mutable_file()->clear_slices();
  ASSERT_TRUE(WriteShardFile(request_, {}).ok());
  EXPECT_TRUE(
      SafetensorsFile::Open(directory_ + "/ps-00001-of-00001.safetensors")
          .ok());
}

TEST_F(ShardFileTest, ARequestThatDoesNotFitIsRefusedAndLeavesNothing) {
  const std::vector<std::function<void(v1::WriteShard*)>> changes = {
      [](auto* r) { r->mutable_file()->set_name("../escape"); },
      [](auto* r) { r->mutable_file()->set_name("manifest.json"); },
      [](auto* r) { r->mutable_file()->set_name(".hidden"); },
      [](auto* r) { r->mutable_file()->set_name(""); },
      [](auto* r) { r->mutable_tensors()->RemoveLast(); },
      [](auto* r) { r->mutable_tensors(0)->set_bytes(~uint64_t{0}); },
      [](auto* r) { r->mutable_tensors(0)->set_bytes(4); },
      [](auto* r) { r->mutable_tensors(0)->set_shape(0, 9); },
      [](auto* r) { r->mutable_tensors(0)->clear_dtype(); },
      [](auto* r) { r->mutable_tensors(1)->set_name("w"); },
      [](auto* r) {
        r->mutable_file()->mutable_slices(0)->set_values_tensor("nobody");
      }};
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(Refused(changes[i]).code(), absl::StatusCode::kInvalidArgument)
        << i;
  }
  EXPECT_THAT(*ListDirectory(directory_), IsEmpty());
}

TEST_F(ShardFileTest, AMissingDirectoryIsNamed) {
  const auto status =
      Refused([](auto* r) { r->set_directory("/nowhere/at all"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/at all"));
}

TEST_F(ShardFileTest, RowsAcrossSavedSlicesComeInTheirPieces) {
  // Slices of four rows: [0, 4), [4, 8), [8, 10).
  const auto path =
      CommitSample(directory_, variables_, {"momentum"}, 1, 1, 1, 2, 48);
  v1::ReadSlicesResult result;
  std::string bytes;
  const absl::Status status = Read(
      *path, 3, 9, [](auto*) {}, &result, &bytes);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(bytes,
            FlattenForTest(
                {testing::SampleBytes(variables_[0], "", {3, 9}),
                 testing::SampleBytes(variables_[0], "momentum", {3, 9})}));
  ASSERT_EQ(result.slices_size(), 1);
  ASSERT_EQ(result.slices(0).pieces_size(), 3);
  const uint64_t rows[3][4] = {{3, 4, 0, 4}, {4, 8, 4, 8}, {8, 9, 8, 10}};
  for (int i = 0; i < 3; ++i) {
    const auto& piece = result.slices(0).pieces(i);
    EXPECT_EQ(piece.row_begin(), rows[i][0]);
    EXPECT_EQ(piece.row_end(), rows[i][1]);
    EXPECT_EQ(piece.saved().row_begin(), rows[i][2]);
    EXPECT_EQ(piece.saved().row_end(), rows[i][3]);
  }
  EXPECT_GT(result.manifest().files_size(), 0);
}

TEST_F(ShardFileTest, WhatTheCheckpointDoesNotHaveIsNamed) {
  const auto path =
      CommitSample(directory_, variables_, {"momentum"}, 1, 1, 1, 2, 48);
  const auto refusal = [&](const std::function<void(v1::ReadSlices*)>& change) {
    v1::ReadSlicesResult result;
    std::string bytes;
    return std::string(Read(*path, 0, 10, change, &result, &bytes).message());
  };
  EXPECT_THAT(refusal([](auto* r) { r->mutable_slices(0)->set_variable("v"); }),
              HasSubstr("no variable 'v'"));
  EXPECT_THAT(
      refusal([](auto* r) { r->mutable_slices(0)->set_shape(1, 4); }),
      HasSubstr("the shape 10x3 in the checkpoint; the job wants 10x4"));
  EXPECT_THAT(refusal([](auto* r) { r->mutable_slices(0)->set_row_end(11); }),
              HasSubstr("rows [0, 11) of 'w' do not exist"));
  EXPECT_THAT(refusal([](auto* r) { r->mutable_slices(0)->set_row_end(0); }),
              HasSubstr("do not exist"));
  EXPECT_THAT(refusal([](auto* r) { r->add_slots("variance"); }),
              HasSubstr("no slot 'variance' of 'w'"));
  EXPECT_THAT(refusal([&](auto* r) { r->set_path(directory_ + "/x"); }),
              HasSubstr(directory_ + "/x/manifest.json"));
}

}  // namespace
}  // namespace paramd
