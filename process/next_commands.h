#ifndef PARAMD_PROCESS_NEXT_COMMANDS_H_
#define PARAMD_PROCESS_NEXT_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "process/job_flags.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// What to try after a finished run of the job that `flags` chose: a look at
// what it left in `run_dir`, more processes or replicas, another setting. Each
// runs with the strategy that the job has. Without the program's name; a shell
// reads them as they are.
std::vector<std::string> NextCommands(const JobFlags& flags,
                                      const v1::JobConfig& job,
                                      absl::string_view run_dir);

}  // namespace paramd

#endif  // PARAMD_PROCESS_NEXT_COMMANDS_H_
