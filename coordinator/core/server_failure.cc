#include "coordinator/core/server_failure.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using Call = ServerRecord::Call;

bool Restores(Call call) {
  return call == Call::kConfigure || call == Call::kFill;
}

}  // namespace

bool IsOfSnapshot(Call call) {
  return call == Call::kSeal || call == Call::kWritten || call == Call::kFetch;
}

ServerFailure FailureOf(Call call, const absl::Status& status,
                        const v1::Refusal& refusal) {
  switch (refusal.reason()) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::WAIT:
    case v1::Refusal::RETRY:
      return ServerFailure::kNotYet;
    case v1::Refusal::FENCED:
      return ServerFailure::kReplaced;
    case v1::Refusal::OLD_TERM:
      return ServerFailure::kTermLost;
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
      return ServerFailure::kOtherJob;
    case v1::Refusal::JOB_FINISHED:
      return ServerFailure::kJobFinished;
    default:
      break;
  }
  if (call == Call::kFinish) return ServerFailure::kNoEnd;
  // What is too long is so again; what there is no room for says for how long.
  const bool is_too_long = refusal.reason() == v1::Refusal::OVER_LIMIT &&
                           refusal.retry_after_ms() == 0;
  if (is_too_long && IsOfSnapshot(call)) return ServerFailure::kOfSnapshot;
  if (is_too_long && Restores(call)) return ServerFailure::kFatal;
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
      absl::IsResourceExhausted(status)) {
    return ServerFailure::kAway;
  }
  if (IsOfSnapshot(call)) return ServerFailure::kOfSnapshot;
  return Restores(call) && !refusal.entity().empty()
             ? ServerFailure::kOfCheckpoint
             : ServerFailure::kFatal;
}

absl::Status RefusesJob(uint32_t server, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StartsWith(why, absl::StrCat("ps-", server, " at "))
          ? why
          : absl::StrCat("ps-", server, " refuses this job: ", why));
}

absl::Status EndOfJobFor(Call call, const v1::Refusal& refusal,
                         const std::string& why) {
  const bool may_pass = Restores(call) &&
                        refusal.reason() == v1::Refusal::DAMAGED &&
                        refusal.retry_after_ms() > 0;
  if (may_pass) return absl::AbortedError(why);
  // What a setting of its process says that it can't hold.
  const bool is_of_a_setting = refusal.entity() == "memory_limit_bytes" ||
                               refusal.entity() == "disk_directory";
  return Restores(call) && is_of_a_setting ? absl::InvalidArgumentError(why)
                                           : absl::FailedPreconditionError(why);
}

}  // namespace paramd
