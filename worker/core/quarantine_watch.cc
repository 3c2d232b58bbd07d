#include "worker/core/quarantine_watch.h"

#include "absl/strings/str_cat.h"

namespace paramd {

absl::Status QuarantineWatch::Refused(absl::string_view sentence) {
  ++total_;
  if (++in_a_row_ < limit_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      in_a_row_, " of worker-", worker_,
      "'s pushes in a row were refused for their numbers; the last: ", sentence,
      "; lower optimizer.learning_rate or look at the input"));
}

}  // namespace paramd
