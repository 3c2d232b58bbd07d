#ifndef PARAMD_PROCESS_PROCESS_FLAGS_H_
#define PARAMD_PROCESS_PROCESS_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"

#include "config/configuration.h"
#include "process/flags.h"
#include "process/job_flags.h"

namespace paramd {

// How a command line says what one process of a cluster is: the job, and who
// takes part. What it leaves out comes from the environment.
struct ProcessFlags {
  JobFlags job;
  std::string cluster;
  std::string task_type;
  std::string task_index;
  bool task_from_hostname = false;
  // Of a worker that the cluster does not name: the chief, and where it listens
  // itself; empty: not given.
  std::string join;
  std::string listen;

  // Declares the flags. `flags` must not outlive this. Called after the
  // subcommand has declared its own.
  void AddTo(Flags* flags);

  // Everything, checked. InvalidArgument naming all mistakes, one per line;
  // also without --job, but for a server: it takes what is trained from the
  // chief, its digest is empty, and a setting of the job is a mistake.
  absl::StatusOr<Configuration> Load() const;

 private:
  absl::StatusOr<Configuration> LoadServer() const;
  ClusterSources FromCluster() const;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_PROCESS_FLAGS_H_
