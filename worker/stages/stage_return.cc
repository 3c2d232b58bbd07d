#include "worker/stages/stage_return.h"

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kAgain = absl::Milliseconds(20);
// Between two questions whether one that is lost has come back.
constexpr absl::Duration kLook = absl::Milliseconds(200);

bool MayComeBack(const absl::Status& why) {
  switch (RefusalOf(why).reason()) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::RETRY:
    case v1::Refusal::WAIT:
    case v1::Refusal::OVER_LIMIT:
    case v1::Refusal::SUPERSEDED:
    case v1::Refusal::JOB_FINISHED:
      return true;
    case v1::Refusal::REASON_UNSPECIFIED:
      return absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why);
    default:
      return false;
  }
}

// How the worker ends for it.
absl::Status EndOf(const absl::Status& why) {
  switch (RefusalOf(why).reason()) {
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
    case v1::Refusal::NOT_ALLOWED:
      return absl::InvalidArgumentError(why.message());
    case v1::Refusal::FENCED:
      return absl::AbortedError(why.message());
    default:
      return why;
  }
}

}  // namespace

absl::Status CheckMayComeBack(const absl::Status& why) {
  return MayComeBack(why) ? absl::OkStatus() : EndOf(why);
}

ReturnVerdict JudgeReturn(const StageLoss& loss, const absl::Status& answers,
                          absl::Duration patience) {
  if (!answers.ok() && !MayComeBack(answers)) return {EndOf(answers)};
  if (!answers.ok() && loss.waited >= patience) {
    return {absl::UnavailableError(
        absl::StrCat("waited ", absl::FormatDuration(patience),
                     " (start_timeout_ms) for a stage: ", answers.message()))};
  }
  if (loss.times > kMostLosses && loss.since_first >= patience) {
    return {absl::UnavailableError(
        absl::StrCat("a batch failed ", loss.times, " times in ",
                     absl::FormatDuration(
                         absl::Trunc(loss.since_first, absl::Milliseconds(1))),
                     ", each time at a stage, whose log may say why: ",
                     loss.why.message()))};
  }
  return {absl::OkStatus(), answers.ok(), answers.ok() ? kAgain : kLook};
}

}  // namespace paramd
