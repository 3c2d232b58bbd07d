#include "client/operator_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/operator_connection.h"
#include "client/testing/scripted_process.h"
#include "net/operator_socket.h"
#include "net/testing/certificates.h"

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

// A claim that differs from the certificate is refused.
TEST_F(OperatorCallsTest, WithACertificateTheCallerIsWhomItNames) {
  const Authority authority = MakeAuthority("j");
  for (const std::string index : {"0", "1"}) {
    const auto tls =
        TlsOf(CertificateDirectory(authority, "j", "operator-" + index), "j",
              "operator-" + index);
    const auto connection =
        ConnectToChief({.address = "127.0.0.1:1", .tls = tls});
    ASSERT_TRUE(connection.ok()) << connection.status();
    EXPECT_EQ(connection->caller, "operator/" + index);
  }
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

// What the chief waits for is kept until there is news, so the last call is cut
// by its deadline.
TEST_F(OperatorCallsTest, ADrainThatTakesLongerIsNotAChiefThatCannotBeReached) {
  const std::string run_dir = socket_.substr(0, socket_.rfind('/'));
  const int directory = open(run_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  std::promise<void> over;
  int calls = 0;
  std::vector<std::string> told;
  {
    // A short name of the socket, however long that of the directory is.
    ScriptedProcess chief(
        [&, ended = over.get_future().share()](
            const ScriptedProcess::Call&) -> absl::StatusOr<std::string> {
          v1::DrainReply reply;
          reply.set_waiting_for("the backup of ps-1 to take over");
          if (++calls > 1) ended.wait();
          return reply.SerializeAsString();
        },
        absl::StrCat("unix:/proc/self/fd/", directory, "/worker-0.sock"));
    const absl::Status status =
        CallDrain({.socket = socket_}, /*ps=*/1, /*nonce=*/7, absl::Seconds(2),
                  [&](const v1::DrainReply& reply) {
                    told.push_back(reply.waiting_for());
                  });
    over.set_value();
    EXPECT_EQ(status, absl::UnavailableError(
                          "ps-1 is not drained yet; it will be, though nobody "
                          "waits any more: waiting for the backup of ps-1 to "
                          "take over"));
  }
  EXPECT_THAT(told, ::testing::ElementsAre("the backup of ps-1 to take over"));
  close(directory);
}

}  // namespace
}  // namespace paramd
