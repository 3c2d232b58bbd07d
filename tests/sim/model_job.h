#ifndef PARAMD_TESTS_SIM_MODEL_JOB_H_
#define PARAMD_TESTS_SIM_MODEL_JOB_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "input/pipeline.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// What the model workload trains, and on how many servers.
struct ModelJob {
  std::string flags;     // With which the simulator takes this job.
  v1::JobConfig config;  // Checked, with every default filled in.
  std::string digest;
  uint32_t servers = 2;
  uint32_t workers = 1;
  std::unique_ptr<const Pipeline> training;
  std::unique_ptr<const Pipeline> test;
};

// A small network with Adam, on examples of 36 numbers drawn from a generator,
// of which only the first `lit` are ever other than 0: nothing changes what the
// first layer does with the others.
ModelJob DrawnModelJob(uint64_t lit = 36);

// The job of a job file, of which environment and flags change nothing, on the
// files that it names. The errors of LoadJob, of the data and of the model.
absl::StatusOr<ModelJob> LoadModelJob(const std::string& path,
                                      uint32_t servers);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_MODEL_JOB_H_
