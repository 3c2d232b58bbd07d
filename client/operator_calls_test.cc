#include "client/operator_calls.h"

#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "net/operator_socket.h"

namespace paramd {
namespace {

class OperatorCallsTest : public ::testing::Test {
 protected:
  OperatorCallsTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/run-XXXXXX");
    socket_ = ChiefSocket(mkdtemp(name.data()));
  }

  std::string socket_;
};

TEST_F(OperatorCallsTest, WithoutASocketThereIsNobodyToAsk) {
  const absl::Status none = absl::NotFoundError(
      absl::StrCat("there is no socket '", socket_,
                   "': it is there while its process runs, on that machine"));
  EXPECT_EQ(CallSet({.socket = socket_}, v1::SetRequest(), absl::Seconds(60))
                .status(),
            none);
  EXPECT_EQ(CallCheckpoint({.socket = socket_}, absl::Seconds(60)).status(),
            none);
}

TEST_F(OperatorCallsTest, ASocketThatWasLeftBehindIsNamed) {
  const std::string kept = absl::StrCat(socket_, ".kept");
  {
    const auto bound = OperatorSocket::Bind(socket_);
    ASSERT_TRUE(bound.ok());
    ASSERT_EQ(rename(socket_.c_str(), kept.c_str()), 0);
  }
  const absl::Status gone = absl::UnavailableError(
      absl::StrCat("the chief at '", kept, "' can't be reached: refused"));
  EXPECT_EQ(
      CallSet({.socket = kept}, v1::SetRequest(), absl::Seconds(60)).status(),
      gone);
  EXPECT_EQ(CallCheckpoint({.socket = kept}, absl::Seconds(60)).status(), gone);
}

}  // namespace
}  // namespace paramd
