#include "checkpoint/file_error.h"

#include <cerrno>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(FileErrorTest, IsASentenceWithThePath) {
  const absl::Status status = FileError(ENOSPC, "write", "/data/w");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "cannot write '/data/w': no space left on device");
}

}  // namespace
}  // namespace paramd
