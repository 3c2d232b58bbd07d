#include "coordinator/restorable.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/read_again.h"
#include "checkpoint/trained_keys.h"
#include "checkpoint/trained_tensors.h"
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

// The variable of the manifest whose rows by key are to be those of `variable`;
// null if there is none.
const v1::Variable* TableIn(const v1::Manifest& manifest,
                            const v1::Variable& variable) {
  const auto found = std::find_if(
      manifest.variables().begin(), manifest.variables().end(),
      [&](const v1::Variable& there) {
        return there.name() == variable.name() && there.keyed() &&
               there.shape_size() == 2 && there.shape(1) == variable.shape(1);
      });
  return found == manifest.variables().end() ? nullptr : &*found;
}

// Whether tables that had other rows have room for those with a key. What
// CheckKeysFit and TrainedTensors::Open fail with.
absl::Status CheckRoom(const v1::FindCheckpointResult& found,
                       absl::Span<const v1::Variable> variables) {
  std::unique_ptr<TrainedTensors> tensors;
  for (const v1::Variable& variable : variables) {
    if (!variable.keyed()) continue;
    const v1::Variable* const there = TableIn(found.manifest(), variable);
    if (there == nullptr || (there->shape(0) == variable.shape(0) &&
                             there->memory_rows() == variable.memory_rows())) {
      continue;
    }
    if (tensors == nullptr) {
      ASSIGN_OR_RETURN(tensors, TrainedTensors::Open(found.path()));
    }
    const TrainedTable table = {there->name(), there->shape(0),
                                there->shape(1)};
    ASSIGN_OR_RETURN(const uint64_t rows,
                     CheckKeysFit(table, variable, tensors.get()));
    if (there->shape(0) == variable.shape(0)) continue;
    Log(LogLevel::kInfo, "a table has another number of rows than before",
        {{"variable", variable.name()},
         {"in_use", rows},
         {"before", there->shape(0)},
         {"now", variable.shape(0)}});
  }
  return absl::OkStatus();
}

// The same, if the checkpoint is whole as far as the answer depends on it.
absl::Status CheckFits(const v1::FindCheckpointResult& found,
                       absl::Span<const v1::Variable> variables) {
  const absl::Status room = CheckRoom(found, variables);
  if (!absl::IsInvalidArgument(room)) return room;
  // A key that was changed on the disk may have no room either.
  RETURN_IF_ERROR(VerifyCheckpoint(found.path()).status());
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint '", found.path(), "': ", room.message()));
}

// Whether all of it is to be read for its values alone: its variables are
// others, as they may. The errors of CheckVariables.
absl::StatusOr<bool> HasOtherVariables(
    const v1::FindCheckpointResult& found,
    const std::vector<v1::Variable>& variables,
    const std::string& allow_missing) {
  // Without leave they are compared when its settings are.
  if (allow_missing.empty()) return false;
  ASSIGN_OR_RETURN(
      const auto differences,
      CheckVariables(found.path(), found.manifest(), variables, allow_missing));
  return !differences.empty();
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
    if (!found.ok() || !found->has_manifest()) return found;
    ASSIGN_OR_RETURN(
        const bool has_others,
        HasOtherVariables(*found, variables, find.allow_missing()));
    const absl::Status whole = has_others
                                   ? VerifyCheckpoint(found->path()).status()
                                   : CheckFits(*found, variables);
    if (!has_others && (whole.ok() || absl::IsInvalidArgument(whole))) {
      if (!whole.ok()) return whole;
      return found;
    }
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
