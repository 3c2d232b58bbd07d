#ifndef PARAMD_PROCESS_ENLIST_H_
#define PARAMD_PROCESS_ENLIST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "net/certified_name.h"
#include "process/prepared_process.h"
#include "process/run_options.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// Whom the certificate in `tls_dir` names: a worker that joins has the index
// that stands there, and no other. INVALID_ARGUMENT if it can't be used, or is
// not that of a worker of this job.
absl::StatusOr<CertifiedName> NameToJoinWith(const std::string& tls_dir,
                                             const v1::JobConfig& job);

// Asks the chief for what a worker needs that the cluster does not name, and
// sets it in `prepared`: the cluster, the role and the batch. Waits for the
// chief as long as a start may take. Where the job has finished, nothing_to_do
// says so. UNAVAILABLE, naming what it waited for; INVALID_ARGUMENT with the
// chief's sentence if it may not join; as the job has ended, if it has.
// REQUIRES: prepared->cluster.joins(), and the role is RoleIn's.
absl::Status Enlist(const RunOptions& run, PreparedProcess* prepared);

// This process does not join after all: tells the chief, which keeps an index
// for it. Waits for some seconds at most.
void GiveUpIndex(const RunOptions& run, const PreparedProcess& prepared);

}  // namespace paramd

#endif  // PARAMD_PROCESS_ENLIST_H_
