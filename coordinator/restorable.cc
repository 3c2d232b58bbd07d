#include "coordinator/restorable.h"

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/read_again.h"
#include "checkpoint/verify.h"
#include "checkpoint/warm_start.h"
#include "coordinator/core/variable_match.h"

namespace paramd {
namespace {

// The values of a whole checkpoint, of the variables that it has.
v1::WarmStartConfig ValuesOf(const std::string& path,
                             const std::string& allow_missing) {
  v1::WarmStartConfig warm_start;
  warm_start.set_path(path);
  warm_start.set_variables("*");
  warm_start.set_allow_missing(allow_missing);
  return warm_start;
}

}  // namespace

// Each turn passes one more over: as many as there are checkpoints.
absl::StatusOr<v1::FindCheckpointResult> FindRestorable(
    v1::FindCheckpoint find, CheckpointDirectory* checkpoints) {
  const std::vector<v1::Variable> variables(find.variables().begin(),
                                            find.variables().end());
  bool may_pass = false;
  for (;;) {
    auto found = checkpoints->Find(find);
    if (!found.ok() && may_pass && absl::IsDataLoss(found.status())) {
      return absl::UnavailableError(found.status().message());
    }
    if (!found.ok() || !found->has_manifest() || find.allow_missing().empty()) {
      return found;
    }
    ASSIGN_OR_RETURN(const auto differences,
                     CheckVariables(found->path(), found->manifest(), variables,
                                    find.allow_missing()));
    if (differences.empty()) return found;
    const absl::Status whole = VerifyCheckpoint(found->path()).status();
    if (whole.ok()) {
      *found->mutable_warm_start() =
          ValuesOf(found->path(), find.allow_missing());
      RETURN_IF_ERROR(CheckWarmStart(found->warm_start(), variables));
      return found;
    }
    Log(LogLevel::kWarning, "checkpoint passed over",
        {{"path", found->path()}, {"reason", whole.message()}});
    may_pass |= MayPass(whole);
    v1::FindCheckpoint::Damaged* const damaged = find.add_damaged();
    *damaged->mutable_snapshot() = found->manifest().snapshot();
    damaged->set_why(std::string(whole.message()));
  }
}

}  // namespace paramd
