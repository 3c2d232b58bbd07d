#ifndef PARAMD_PROCESS_CHIEF_CANDIDATE_H_
#define PARAMD_PROCESS_CHIEF_CANDIDATE_H_

#include "absl/status/status.h"

#include "process/prepared_process.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// With chief_election. Of the chief's task: waits until this process is
// elected, and makes it the chief. Of the others: follows who that is. The
// errors of OpenChiefRecord, ChiefElection and Process::LeadBy, and of a job
// that has failed, or was stopped, under the chief before this one: how that
// ended. REQUIRES: `prepared` has its process; nothing is done without an
// election.
absl::Status TakePartInElection(PreparedProcess* prepared);

// Adds to `status` what `prepared` knows of the election: where the chief is,
// and that who elects it is away.
void FillElection(const PreparedProcess& prepared, v1::StatusReply* status);

}  // namespace paramd

#endif  // PARAMD_PROCESS_CHIEF_CANDIDATE_H_
