#ifndef PARAMD_CONFIG_TESTING_JOB_TEXT_H_
#define PARAMD_CONFIG_TESTING_JOB_TEXT_H_

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "config/job_config.h"

namespace paramd {

inline constexpr char kJob[] = R"({
  "name": "fashion-mnist", "epochs": 5,
  "input": {"format": "idx", "directory": "/data"},
  "model": {"layers": ["flatten", {"dense": 10}], "loss": "softmax_cross_entropy"},
  "optimizer": {"adam": {}, "learning_rate": 0.001, "schedule": "cosine"}
})";

// A job file of this text, called after the test.
inline JobSources From(absl::string_view text) {
  const ::testing::TestInfo& test =
      *::testing::UnitTest::GetInstance()->current_test_info();
  JobSources sources;
  sources.file = absl::StrCat(::testing::TempDir(), "/", test.name(), ".json");
  std::ofstream(*sources.file, std::ios::binary) << text;
  return sources;
}

// What is wrong with it; empty: nothing.
inline std::string MessageOf(const JobSources& sources) {
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  if (job.ok()) return "";
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(job.status().message());
}

}  // namespace paramd

#endif  // PARAMD_CONFIG_TESTING_JOB_TEXT_H_
