#ifndef PARAMD_CLI_STAGES_STAGE_PLAN_H_
#define PARAMD_CLI_STAGES_STAGE_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "cli/stages/stage_record.h"
#include "config/job_config.h"

namespace paramd {

// What is next in a run of stages, as a function of what lies in its directory:
// that is all that is kept, so whoever looks knows how far the run is.

// What is found of a stage.
struct FoundStage {
  bool trained = false;  // Its training has ended, if it trains.
  absl::optional<StageRecord> record;
};

struct NextStage {
  enum class What {
    kTrain,
    kFinish,   // Make what it makes, measure it, and record that.
    kNothing,  // All are finished.
  };
  int number = 0;
  What what = What::kNothing;
};

// `found` is of the stages, in order. INVALID_ARGUMENT, a sentence that names
// the stage and what differs, if one is finished that was told something else
// than now: what comes after it would be of another job; or if one that was
// made of another is there, and that one is to be trained: what is there would
// be of another model.
absl::StatusOr<NextStage> FindNext(absl::Span<const LoadedJob> stages,
                                   absl::Span<const FoundStage> found);

// What lies in the directories of the stages, which name them. The errors of
// ReadStageRecord but NOT_FOUND.
absl::StatusOr<std::vector<FoundStage>> FindStages(
    absl::Span<const LoadedJob> stages);

}  // namespace paramd

#endif  // PARAMD_CLI_STAGES_STAGE_PLAN_H_
