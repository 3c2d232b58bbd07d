#ifndef PARAMD_PROTO_JOB_END_H_
#define PARAMD_PROTO_JOB_END_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

// How a job ends, for all its processes alike: `Finished` on the wire, a status
// in a process. OK, and an empty `Finished`, is the good end.

// Whether a process that ends with this ends the job: a start would end the
// same way, so nobody need wait for it. Not so of OK, of what may pass
// (UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED), of a process that was told to stop
// (CANCELLED), and of one whose place another has taken (ALREADY_EXISTS).
bool EndsTheJob(const absl::Status& status);

// What all are told where one of them ends with `status`. REQUIRES: OK, or
// EndsTheJob.
v1::Finished ToFinished(const absl::Status& status);

// How a process ends that is told so: with the same sentence, and a status that
// has the same exit code.
absl::Status EndFor(const v1::Finished& finished);

// JOB_FINISHED, with all that `finished` says.
absl::Status RefuseFinished(absl::string_view entity,
                            const v1::Finished& finished);

// How a process ends whose call was refused with JOB_FINISHED: see EndFor.
absl::Status EndFor(const absl::Status& refusal);

}  // namespace paramd

#endif  // PARAMD_PROTO_JOB_END_H_
