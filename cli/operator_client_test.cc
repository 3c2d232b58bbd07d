#include "cli/operator_client.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "net/operator_socket.h"

namespace paramd {
namespace {

class OperatorClientTest : public testing::Test {
 protected:
  OperatorClientTest() {
    std::string name = absl::StrCat(testing::TempDir(), "/runs-XXXXXX");
    root_ = mkdtemp(name.data());
  }
  std::string MakeRun(const std::string& name) const {
    const std::string run = absl::StrCat(root_, "/", name);
    EXPECT_EQ(mkdir(run.c_str(), 0700), 0);
    return run;
  }

  std::string root_;
};

TEST_F(OperatorClientTest, TheOneRunWithAChiefIsFound) {
  MakeRun("a-1");
  const std::string run = MakeRun("a-2");
  const absl::Status none = OnlyChiefSocket(root_).status();
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_TRUE(absl::StrContains(none.message(), "--run_dir")) << none;
  const auto socket = OperatorSocket::Bind(ChiefSocket(run));
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(*OnlyChiefSocket(root_), ChiefSocket(run));
}

TEST_F(OperatorClientTest, SeveralRunsAreNamed) {
  const std::string first = MakeRun("a-1");
  const std::string second = MakeRun("a-2");
  const auto one = OperatorSocket::Bind(ChiefSocket(first));
  const auto other = OperatorSocket::Bind(ChiefSocket(second));
  EXPECT_EQ(OnlyChiefSocket(root_).status(),
            absl::InvalidArgumentError(
                absl::StrCat("several runs have a chief: ", first, ", ",
                             second, "; name one with --run_dir")));
}

TEST_F(OperatorClientTest, TheSocketOfAKilledChiefIsNoRunWithAChief) {
  const std::string dead = ChiefSocket(MakeRun("a-1"));
  {
    const auto bound = OperatorSocket::Bind(absl::StrCat(dead, ".bound"));
    ASSERT_TRUE(bound.ok());
    ASSERT_EQ(rename(absl::StrCat(dead, ".bound").c_str(), dead.c_str()), 0);
  }
  EXPECT_TRUE(absl::IsNotFound(OnlyChiefSocket(root_).status()));
  const std::string run = MakeRun("a-2");
  const auto socket = OperatorSocket::Bind(ChiefSocket(run));
  EXPECT_EQ(*OnlyChiefSocket(root_), ChiefSocket(run));
}

TEST_F(OperatorClientTest, WithoutASocketThereIsNobodyToAsk) {
  const std::string socket = ChiefSocket(MakeRun("a-1"));
  EXPECT_EQ(CallSet(socket, v1::SetRequest(), absl::Seconds(60)).status(),
            absl::NotFoundError(
                absl::StrCat("there is no socket '", socket, "'")));
}

TEST_F(OperatorClientTest, ASocketThatWasLeftBehindIsNamed) {
  const std::string socket = ChiefSocket(MakeRun("a-1"));
  const std::string kept = absl::StrCat(socket, ".kept");
  {
    const auto bound = OperatorSocket::Bind(socket);
    ASSERT_TRUE(bound.ok());
    ASSERT_EQ(rename(socket.c_str(), kept.c_str()), 0);
  }
  const absl::Status status =
      CallSet(kept, v1::SetRequest(), absl::Seconds(60)).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(),
            absl::StrCat("the chief at '", kept, "' can't be reached: refused"));
}

}  // namespace
}  // namespace paramd
