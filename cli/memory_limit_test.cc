#include "cli/memory_limit.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

// A machine's files, in a directory of the test's own.
class MemoryLimitTest : public testing::Test {
 protected:
  MemoryLimitTest()
      : root_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
  }
  void Write(const std::string& path, const std::string& content) {
    const std::filesystem::path file(root_ + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void MachineHas(uint64_t kibibytes) {
    Write("/proc/meminfo", absl::StrCat("MemTotal:    ", kibibytes,
                                        " kB\nMemFree:   17 kB\n"));
  }

  const std::string root_;
};

TEST_F(MemoryLimitTest, WithoutAGroupTheMachineIsTheLimit) {
  MachineHas(1000);
  EXPECT_EQ(MemoryOfThisProcess(root_), 1024000u);
}

TEST_F(MemoryLimitTest, TheLeastOfTheGroupsAboveCounts) {
  MachineHas(1000);
  Write("/proc/self/cgroup", "0::/pods/one\n");
  Write("/sys/fs/cgroup/pods/one/memory.max", "max\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 1024000u);
  Write("/sys/fs/cgroup/pods/memory.max", "600000\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 600000u);
  Write("/sys/fs/cgroup/pods/one/memory.max", "500000\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 500000u);
}

TEST_F(MemoryLimitTest, InAContainerTheGroupIsTheTop) {
  MachineHas(1000);
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "700000\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 700000u);
}

TEST_F(MemoryLimitTest, GroupsOfVersionOneAreKnown) {
  MachineHas(1000);
  Write("/proc/self/cgroup",
        "12:cpu,cpuacct:/a\n7:memory:/docker/abc\n0::/docker/abc\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "300000\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "9223372036854771712\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 300000u);
}

TEST_F(MemoryLimitTest, WhatIsNotSaidIsNoLimit) {
  EXPECT_EQ(MemoryOfThisProcess(root_), 0u);
  Write("/proc/self/cgroup", "nonsense\n1:memory\n0::\n");
  Write("/proc/meminfo", "MemTotal: many\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 0u);
}

TEST_F(MemoryLimitTest, ThisMachineSaysSomething) {
  EXPECT_GT(MemoryOfThisProcess(), uint64_t{1} << 20);
}

TEST_F(MemoryLimitTest, HeldAndReceivedAreNineTenthsTogetherUnlessItIsTold) {
  for (const uint64_t found : {uint64_t{1000}, uint64_t{512} << 20,
                               uint64_t{1} << 30, uint64_t{128} << 30}) {
    const MemoryLimits limits = MemoryLimitsOf(0, found);
    EXPECT_EQ(limits.held + limits.received, found / 10 * 9);
    EXPECT_GE(limits.held, limits.received);
  }
  EXPECT_EQ(MemoryLimitsOf(0, uint64_t{1} << 30).received, uint64_t{256} << 20);
  EXPECT_EQ(MemoryLimitsOf(17, 1000).held, 17u);
  EXPECT_EQ(MemoryLimitsOf(17, 1000).received, 17u);
  EXPECT_EQ(MemoryLimitsOf(0, 0).held, 0u);
  EXPECT_EQ(MemoryLimitsOf(0, 0).received, 0u);
}

}  // namespace
}  // namespace paramd
