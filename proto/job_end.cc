#include "proto/job_end.h"

#include <cstdint>
#include <string>

#include "absl/strings/cord.h"

#include "proto/refusal.h"
#include "proto/stopped_job.h"

namespace paramd {
namespace {

// The two of the exit codes that a start again does not change.
constexpr int32_t kFailed = 1;
constexpr int32_t kBadConfiguration = 2;
// Of a status, by which StoppedJob is known.
constexpr char kStoppedMark[] = "paramd/stopped-job";

// For people.
std::string ReasonOf(const v1::Finished& finished) {
  return finished.reason().empty() ? "the job has ended; nobody said why"
                                   : finished.reason();
}

}  // namespace

absl::Status StoppedJob(absl::string_view sentence) {
  absl::Status status = absl::CancelledError(sentence);
  status.SetPayload(kStoppedMark, absl::Cord());
  return status;
}

bool IsStoppedJob(const absl::Status& status) {
  return status.GetPayload(kStoppedMark).has_value();
}

bool EndsTheJob(const absl::Status& status) {
  if (IsStoppedJob(status)) return true;
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAlreadyExists:
      return false;
    default:
      return true;
  }
}

v1::Finished ToFinished(const absl::Status& status) {
  v1::Finished finished;
  if (status.ok()) return finished;
  finished.set_reason(std::string(status.message()));
  finished.set_stopped(IsStoppedJob(status));
  if (finished.stopped()) return finished;
  finished.set_exit_code(absl::IsInvalidArgument(status) ? kBadConfiguration
                                                         : kFailed);
  return finished;
}

absl::Status EndFor(const v1::Finished& finished) {
  if (finished.stopped()) return StoppedJob(ReasonOf(finished));
  switch (finished.exit_code()) {
    case 0:
      return absl::OkStatus();
    case kBadConfiguration:
      return absl::InvalidArgumentError(ReasonOf(finished));
    default:
      return absl::FailedPreconditionError(ReasonOf(finished));
  }
}

absl::Status RefuseFinished(absl::string_view entity,
                            const v1::Finished& finished) {
  v1::Refusal refusal;
  refusal.set_reason(v1::Refusal::JOB_FINISHED);
  refusal.set_entity(std::string(entity));
  refusal.set_exit_code(finished.exit_code());
  refusal.set_stopped(finished.stopped());
  const bool is_good = finished.exit_code() == 0 && !finished.stopped();
  return Refuse(refusal, is_good ? "the job is finished" : ReasonOf(finished));
}

absl::Status EndFor(const absl::Status& refusal) {
  v1::Finished finished;
  finished.set_exit_code(RefusalOf(refusal).exit_code());
  finished.set_stopped(RefusalOf(refusal).stopped());
  finished.set_reason(std::string(refusal.message()));
  return EndFor(finished);
}

}  // namespace paramd
