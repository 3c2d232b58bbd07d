#include "checkpoint/read_again.h"

#include <cerrno>
#include <deque>
#include <initializer_list>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/file_error.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<absl::Duration>* pauses = nullptr;

class ReadAgainTest : public ::testing::Test {
 protected:
  ReadAgainTest() {
    pauses = &pauses_;
    PauseReadsForTest([](absl::Duration pause) { pauses->push_back(pause); });
  }
  ~ReadAgainTest() override { PauseReadsForTest(nullptr); }

  // Of a reader to which these come, one after the other.
  static absl::Status Read(std::deque<int> errors) {
    return ReadAgain([&] {
      const int error = errors.front();
      if (errors.size() > 1) errors.pop_front();
      return error == 0 ? absl::OkStatus() : FileError(error, "read", "/f");
    });
  }

  std::vector<absl::Duration> pauses_;
};

TEST_F(ReadAgainTest, WhatIsReadAtOnceWaitsForNothing) {
  EXPECT_TRUE(Read({0}).ok());
  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(ReadAgainTest, WhatPassesIsNoError) {
  EXPECT_TRUE(Read({ESTALE, ETIMEDOUT, EIO, 0}).ok());
  EXPECT_THAT(pauses_, ElementsAre(absl::Milliseconds(100),
                                   absl::Milliseconds(500), absl::Seconds(2)));
}

TEST_F(ReadAgainTest, WhatStaysIsSaidWithHowOften) {
  const absl::Status status = Read({ESTALE});
  EXPECT_TRUE(MayPass(status));
  EXPECT_EQ(status.message(), "cannot read '/f': stale file handle, 4 times");
  EXPECT_EQ(pauses_.size(), 3u);
}

TEST_F(ReadAgainTest, WhatDoesNotPassIsSaidAtOnce) {
  for (const int error : {ENOENT, EACCES, ENOTDIR, EMFILE}) {
    const absl::Status status = Read({error});
    EXPECT_FALSE(MayPass(status)) << status;
    EXPECT_EQ(status, FileError(error, "read", "/f"));
  }
  EXPECT_TRUE(absl::IsNotFound(Read({EIO, ENOENT})));
  EXPECT_THAT(pauses_, ElementsAre(absl::Milliseconds(100)));
}

TEST_F(ReadAgainTest, DamageDoesNotPass) {
  EXPECT_FALSE(MayPass(absl::DataLossError("other bytes")));
  EXPECT_FALSE(MayPass(absl::OkStatus()));
}

}  // namespace
}  // namespace paramd
