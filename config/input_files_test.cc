#include "config/input_files.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

class InputFilesTest : public ::testing::Test {
 protected:
  InputFilesTest() {
    const ::testing::TestInfo& test =
        *::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = absl::StrCat(::testing::TempDir(), "/", test.name());
    mkdir(directory_.c_str(), 0700);
    v1::InputConfig* input = config_.mutable_input();
    input->set_directory(directory_);
    input->set_train_images("images.gz");
    input->set_train_labels("labels");
    origins_["input.directory"] = {"job.json", 3};
    origins_["input.train_images"] = {"default", 0};
    origins_["input.train_labels"] = {"job.json", 4};
  }

  void Write(absl::string_view name) {
    std::ofstream(absl::StrCat(directory_, "/", name)) << "x";
  }
  std::string Message() {
    Mistakes mistakes;
    CheckInputFiles(config_, origins_, &mistakes);
    return std::string(mistakes.ToStatus().message());
  }

  std::string directory_;
  v1::JobConfig config_;
  Origins origins_;
};

TEST_F(InputFilesTest, FilesThatAreThereAreFine) {
  Write("images.gz");
  Write("labels");
  EXPECT_EQ(Message(), "");
  config_.mutable_input()->set_train_images(directory_ + "/labels");
  EXPECT_EQ(Message(), "");
}

TEST_F(InputFilesTest, EveryMissingFileIsNamed) {
  EXPECT_EQ(
      Message(),
      absl::StrCat("job.json:3: input.train_images: can't read \"", directory_,
                   "/images.gz\": No such file or directory\n"
                   "job.json:4: input.train_labels: can't read \"",
                   directory_, "/labels\": No such file or directory"));
}

TEST_F(InputFilesTest, AFileThatIsOnlyNotCompressedIsPointedAt) {
  Write("images");
  Write("labels.gz");
  EXPECT_THAT(Message(), ::testing::HasSubstr("but \"images\" lies there; name "
                                              "that one"));
  EXPECT_THAT(Message(), ::testing::HasSubstr("but \"labels.gz\" lies there"));
}

TEST_F(InputFilesTest, AMissingDirectoryIsNamedOnce) {
  config_.mutable_input()->set_directory("/no/such");
  EXPECT_EQ(Message(),
            "job.json:3: input.directory: there is no directory \"/no/such\": "
            "No such file or directory");
  Write("file");
  config_.mutable_input()->set_directory(directory_ + "/file");
  EXPECT_THAT(Message(), ::testing::HasSubstr("is no directory"));
}

TEST_F(InputFilesTest, WhatIsKnownToBeWrongIsNotSaidAgain) {
  config_.mutable_input()->set_directory("");
  EXPECT_EQ(Message(), "");
}

}  // namespace
}  // namespace paramd
