#include "coordinator/core/mode_setting.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "config/consistency.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

absl::Status Invalid(const v1::SetRequest& request,
                     absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, request.key(), sentence);
}

}  // namespace

absl::StatusOr<v1::Consistency> ModeToSet(const v1::SetRequest& request,
                                          const v1::Consistency& present) {
  if (request.key() != "staleness") {
    return Invalid(
        request, absl::StrCat("'", request.key(),
                              "' can't be changed while the job runs; "
                              "'staleness' can"));
  }
  auto mode = ParseStaleness(request.value());
  if (!mode.ok()) {
    return Invalid(request, absl::StrCat("staleness ", mode.status().message(),
                                         "; found \"", request.value(), "\""));
  }
  const bool was_sync = present.mode() == v1::Consistency::SYNC;
  const bool is_sync = mode->mode() == v1::Consistency::SYNC;
  if (was_sync != is_sync) {
    return Invalid(
        request,
        absl::StrCat("staleness is ", StalenessText(present),
                     " and can't be changed to ", StalenessText(*mode),
                     " while the job runs; start a new run with it"));
  }
  return mode;
}

}  // namespace paramd
