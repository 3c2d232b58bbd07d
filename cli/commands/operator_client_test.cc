#include "cli/commands/operator_client.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "net/operator_socket.h"

namespace paramd {
namespace {

class OperatorClientTest : public ::testing::Test {
 protected:
  OperatorClientTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/runs-XXXXXX");
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
                absl::StrCat("several runs have a chief: ", first, ", ", second,
                             "; name one with --run_dir")));
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

TEST_F(OperatorClientTest, FlagsThatDoNotFitTogetherAreRefused) {
  ChiefFlags flags;
  flags.address = "host:7077";
  EXPECT_TRUE(absl::IsInvalidArgument(flags.Find().status()));
  flags = {};
  flags.tls_dir = "tls";
  EXPECT_TRUE(absl::IsInvalidArgument(flags.Find().status()));
  flags = {};
  flags.run_dir = MakeRun("a-1");
  const auto chief = flags.Find();
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_EQ(chief->socket, ChiefSocket(flags.run_dir));
}

TEST_F(OperatorClientTest, AnArgumentStandsForOneOfTheFlags) {
  ChiefFlags flags;
  flags.place = MakeRun("a-1");
  const auto chief = flags.Find();
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_EQ(chief->socket, ChiefSocket(flags.place));
  flags.run_dir = flags.place;
  EXPECT_EQ(flags.Find().status().message(),
            absl::StrCat("both '", flags.place,
                         "' and a flag say which job is meant"));
  flags = {};
  flags.place = "10.0.0.7:2222";
  EXPECT_TRUE(
      absl::StrContains(flags.Find().status().message(), "belong together"));
  flags.place = absl::StrCat(root_, "/nowhere");
  EXPECT_TRUE(absl::StrContains(flags.Find().status().message(),
                                "nor the directory of a run"));
}

}  // namespace
}  // namespace paramd
