#include "checkpoint/write_weights.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/file.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SampleVariable;

class WriteWeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "weights";
    std::filesystem::remove_all(directory_);
    *manifest_.add_variables() = SampleVariable("w", {2, 3});
    *manifest_.add_variables() = SampleVariable("b", {3});
    manifest_.mutable_snapshot()->set_term(1);
    manifest_.set_global_step(9);
    manifest_.add_slots("momentum");
    manifest_.mutable_job()->add_settings("seed=3");
  }
  absl::Status Write(const absl::Status& more = absl::OkStatus()) {
    const std::vector<std::vector<float>> values = {{1, 2, 3, 4, 5, 6},
                                                    {7, 8, 9}};
    return WriteWeights(directory_, manifest_, values,
                        [&](const std::string& directory) {
                          EXPECT_TRUE(IsDirectory(directory));
                          return more;
                        })
        .status();
  }

  std::string directory_;
  v1::Manifest manifest_;
};

TEST_F(WriteWeightsTest, WhatIsWrittenIsACheckpointWithoutSlots) {
  ASSERT_TRUE(Write().ok());
  EXPECT_THAT(CheckpointVerifier().Faults(directory_), IsEmpty());
  const auto manifest = ReadManifest(directory_);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->global_step(), 9u);
  EXPECT_THAT(manifest->slots(), IsEmpty());
  EXPECT_THAT(manifest->job().settings(), ElementsAre("seed=3"));
  const std::vector<v1::Variable> variables(manifest->variables().begin(),
                                            manifest->variables().end());
  const auto read = ReadWeights(directory_, variables, 1, {});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT((*read)[0], ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT((*read)[1], ElementsAre(7, 8, 9));
}

TEST_F(WriteWeightsTest, ADirectoryThatIsThereIsRefused) {
  ASSERT_TRUE(Write().ok());
  EXPECT_EQ(Write().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(WriteWeightsTest, NothingIsLeftIfTheRestFails) {
  EXPECT_EQ(Write(absl::InternalError("full")).message(), "full");
  EXPECT_FALSE(IsDirectory(directory_));
}

}  // namespace
}  // namespace paramd
