#include "coordinator/coordinator_process.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

// In a container each process has the same number.
TEST(CoordinatorProcessTest, WhatAKilledChiefOfTheSameNumberHasLeftGoes) {
  const std::string run = ::testing::TempDir() + "/killed_chief";
  std::filesystem::create_directories(run + "/checkpoints");
  for (const char* const directory : {"", "/checkpoints"}) {
    std::ofstream(absl::StrCat(run, directory, "/.probe-", getpid())) << "";
  }
  CoordinatorProcess::Paths paths;
  paths.run_directory = run;
  ChiefLease::Options chief;
  chief.host = "host";
  chief.pid = static_cast<uint32_t>(getpid());
  chief.incarnation = 1;
  const auto made =
      CoordinatorProcess::Create(testing::JobOptions(), paths, chief);
  EXPECT_TRUE(made.ok()) << made.status();
}

}  // namespace
}  // namespace paramd
