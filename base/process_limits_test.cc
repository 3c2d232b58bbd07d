#include "base/process_limits.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

// A machine's files, in a directory of the test's own.
class ProcessLimitsTest : public ::testing::Test {
 protected:
  ProcessLimitsTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
  }
  void Write(const std::string& path, const std::string& content) {
    const std::filesystem::path file(root_ + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void MachineHas(uint64_t kibibytes) {
    Write("/proc/meminfo",
          absl::StrCat("MemTotal:    ", kibibytes, " kB\nMemFree:   17 kB\n"));
  }
  void MayRunOn(const std::string& processors) {
    Write("/proc/self/status",
          absl::StrCat("Cpus_allowed_list:\t", processors, "\n"));
  }

  const std::string root_;
};

TEST_F(ProcessLimitsTest, WithoutAGroupTheMachineIsTheLimit) {
  MachineHas(1000);
  EXPECT_EQ(MemoryOfThisProcess(root_), 1024000u);
}

TEST_F(ProcessLimitsTest, TheLeastOfTheGroupsAboveCounts) {
  MachineHas(1000);
  Write("/proc/self/cgroup", "0::/pods/one\n");
  Write("/sys/fs/cgroup/pods/one/memory.max", "max\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 1024000u);
  Write("/sys/fs/cgroup/pods/memory.max", "600000\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 600000u);
  Write("/sys/fs/cgroup/pods/one/memory.max", "500000\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 500000u);
}

TEST_F(ProcessLimitsTest, InAContainerTheGroupIsTheTop) {
  MachineHas(1000);
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "700000\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 700000u);
}

TEST_F(ProcessLimitsTest, GroupsOfVersionOneAreKnown) {
  MachineHas(1000);
  Write("/proc/self/cgroup",
        "12:cpu,cpuacct:/a\n7:memory:/docker/abc\n0::/docker/abc\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "300000\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 300000u);
}

TEST_F(ProcessLimitsTest, WhatIsNotSaidIsNoLimit) {
  EXPECT_EQ(MemoryOfThisProcess(root_), 0u);
  Write("/proc/self/cgroup", "nonsense\n1:memory\n0::\n");
  Write("/proc/meminfo", "MemTotal: many\n");
  EXPECT_EQ(MemoryOfThisProcess(root_), 0u);
}

TEST_F(ProcessLimitsTest, ThisMachineSaysSomething) {
  EXPECT_GT(MemoryOfThisProcess(), uint64_t{1} << 20);
}

TEST_F(ProcessLimitsTest, ProcessorsAreThoseItMayRunOn) {
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 1u);
  Write("/proc/self/status",
        "Name:\tparamd\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,6,8-9\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 7u);
  Write("/proc/self/status", "Cpus_allowed_list:\tall\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 1u);
}

TEST_F(ProcessLimitsTest, AQuotaOfAnyGroupAboveBoundsTheProcessors) {
  MayRunOn("0-7");
  Write("/proc/self/cgroup", "0::/pods/one\n");
  Write("/sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 8u);
  Write("/sys/fs/cgroup/pods/cpu.max", "250000 100000\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 3u);
  Write("/sys/fs/cgroup/pods/one/cpu.max", "10000 100000\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 1u);
  Write("/sys/fs/cgroup/pods/one/cpu.max", "1600000 100000\n");
  Write("/sys/fs/cgroup/pods/cpu.max", "none\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 8u);
}

TEST_F(ProcessLimitsTest, AQuotaOfVersionOneIsKnownByEitherName) {
  MayRunOn("0-63");
  Write("/proc/self/cgroup", "12:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 64u);
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 4u);
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "200000\n");
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 2u);
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "0\n");
  EXPECT_EQ(ProcessorsOfThisProcess(root_), 4u);
}

}  // namespace
}  // namespace paramd
