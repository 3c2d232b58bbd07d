#include "cli/local/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace paramd {
namespace {

using ::testing::Contains;
using ::testing::Not;

ChildProcess Shell(const std::string& script,
                   std::vector<std::string> environment = {}) {
  auto child = ChildProcess::Start(
      {"/bin/sh", {"sh", "-c", script}, std::move(environment)});
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

// Everything the child prints until it closes its output.
std::string Output(const ChildProcess& child) {
  std::string text;
  char bytes[256];
  while (true) {
    pollfd wait = {child.output(), POLLIN, 0};
    poll(&wait, 1, -1);
    const ssize_t count = read(child.output(), bytes, sizeof(bytes));
    if (count <= 0) return text;
    text.append(bytes, count);
  }
}

int ExitCode(ChildProcess* child) {
  while (true) {
    if (const auto code = child->Poll(); code.has_value()) return *code;
    usleep(1000);
  }
}

TEST(ChildProcessTest, BothStreamsAndTheExitCodeComeBack) {
  ChildProcess child =
      Shell("echo out; echo $WHO >&2; exit 138", {"WHO=paramd"});
  EXPECT_EQ(Output(child), "out\nparamd\n");
  EXPECT_EQ(ExitCode(&child), 138);
}

TEST(ChildProcessTest, ASignalIs128AndItsNumber) {
  ChildProcess child = Shell("echo ready; read never; sleep 1000");
  EXPECT_FALSE(child.Poll().has_value() && *child.Poll() == 137);
  child.Signal(SIGKILL);
  EXPECT_EQ(ExitCode(&child), 137);
}

TEST(ChildProcessTest, AChildHasAProcessGroupOfItsOwn) {
  ChildProcess child = Shell("exec sleep 1000");
  EXPECT_EQ(getpgid(child.pid()), child.pid());
  EXPECT_NE(getpgid(child.pid()), getpgrp());
}

TEST(ChildProcessTest, TheDestructorLeavesNoProcess) {
  pid_t pid = 0;
  {
    ChildProcess child = Shell("trap '' TERM; echo ready; sleep 1000");
    pid = child.pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(ChildProcessTest, AProgramThatIsNotThereExits127) {
  auto child = ChildProcess::Start({"/nowhere/paramd", {"paramd"}, {}});
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(Output(*child), "paramd: cannot execute the program\n");
  EXPECT_EQ(ExitCode(&*child), 127);
}

TEST(ChildProcessTest, AVariableOfTheEnvironmentIsReplaced) {
  setenv("PARAMD_TEST_NAME", "old", 1);
  EXPECT_THAT(EnvironmentWith("PARAMD_TEST_NAME", "new"),
              Contains("PARAMD_TEST_NAME=new"));
  EXPECT_THAT(EnvironmentWith("PARAMD_TEST_NAME", "new"),
              Not(Contains("PARAMD_TEST_NAME=old")));
  EXPECT_THAT(EnvironmentWith("PARAMD_TEST_NAME", absl::nullopt),
              Not(Contains("PARAMD_TEST_NAME=old")));
}

}  // namespace
}  // namespace paramd
