#include "checkpoint/nonce_file.h"

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "checkpoint/file.h"
#include "checkpoint/testing/system_calls.h"

namespace paramd {
namespace {

using testing::SystemCalls;

std::string Fresh(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  EXPECT_TRUE(RemoveTree(path).ok());
  EXPECT_TRUE(MakeDirectories(path).ok());
  return path;
}

TEST(NonceFileTest, OnlyWhoReadsWhatWasWrittenSeesTheDirectory) {
  const std::string path = Fresh("nonce");
  EXPECT_FALSE(HasNonceFile(path, 7)) << "there is no file";
  ASSERT_TRUE(WriteNonceFile(path, 7).ok());
  EXPECT_TRUE(HasNonceFile(path, 7));
  EXPECT_FALSE(HasNonceFile(path, 8)) << "another directory of that name";
  EXPECT_FALSE(HasNonceFile(absl::StrCat(path, "/not"), 7));
  ASSERT_TRUE(WriteNonceFile(path, 8).ok());
  EXPECT_TRUE(HasNonceFile(path, 8));
}

TEST(NonceFileTest, AFullDiskLeavesNoneAndIsNamed) {
  const std::string path = Fresh("nonce-full");
  absl::Status status;
  {
    const SystemCalls full(SystemCalls::Fault::kFull, 1, ENOSPC);
    status = WriteNonceFile(path, 7);
  }
  EXPECT_EQ(status.message(), absl::StrCat("cannot write '", path,
                                           "/nonce': no space left on device"));
  EXPECT_FALSE(HasNonceFile(path, 7));
}

}  // namespace
}  // namespace paramd
