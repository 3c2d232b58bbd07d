#include "process/observe/process_usage.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <map>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace paramd {
namespace {

TEST(ProcessUsageTest, WhatTheKernelSaysAboutThisProcess) {
  std::map<std::string, double> values;
  for (const auto& family : ProcessUsage()) {
    EXPECT_FALSE(family.help.empty()) << family.name;
    values[family.name] = family.metric[0].gauge.value;
  }
  EXPECT_EQ(values.size(), 7u);
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  EXPECT_EQ(values.at("process_max_fds"), static_cast<double>(files.rlim_cur));
  EXPECT_GE(values.at("process_open_fds"), 3);
  EXPECT_GE(values.at("process_threads"), 1);
  EXPECT_GE(values.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(values.at("process_resident_memory_bytes"), 100e3);
  EXPECT_GT(values.at("process_virtual_memory_bytes"),
            values.at("process_resident_memory_bytes"));
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(values.at("process_start_time_seconds"), now + 1);
  EXPECT_GT(values.at("process_start_time_seconds"), now - 3600);
}

}  // namespace
}  // namespace paramd
