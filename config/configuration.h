#ifndef PARAMD_CONFIG_CONFIGURATION_H_
#define PARAMD_CONFIG_CONFIGURATION_H_

#include "absl/status/statusor.h"

#include "config/cluster_spec.h"
#include "config/job_config.h"

namespace paramd {

// All that a process is told: what is trained, and who takes part.
struct Configuration {
  LoadedJob job;
  ClusterSpec cluster;
};

// LoadJob and ReadCluster. InvalidArgument with the mistakes of both, one per
// line, those of the job first. If the cluster makes this process one that
// trains, the input must be there. Of one that joins a global batch is not
// divided yet: DeriveBatch, once the chief has told it the workers.
// `job.check_input_files` and `cluster.strategy` are set here, whatever they
// hold.
//
//   JobSources job;
//   job.file = path;
//   job.settings = flags;
//   job.environment = ReadEnvironment();
//   ClusterSources cluster;
//   cluster.task_type = task_type_flag;
//   cluster.environment = job.environment;
//   cluster.host_name = ReadHostName();
//   ASSIGN_OR_RETURN(Configuration all, LoadConfiguration(job, cluster));
absl::StatusOr<Configuration> LoadConfiguration(JobSources job,
                                                ClusterSources cluster);

}  // namespace paramd

#endif  // PARAMD_CONFIG_CONFIGURATION_H_
