#ifndef PARAMD_CLI_STAGES_STAGES_PAGE_H_
#define PARAMD_CLI_STAGES_STAGES_PAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "cli/stages/stage_record.h"

namespace paramd {

// What the stages of a job have come to, side by side.

// A row each, for a terminal: what it is measured by (the accuracy, or else the
// model's first metric, or the loss), bytes, compressed bytes, the share of
// zeros, examples a second.
std::string StagesTable(absl::Span<const StageRecord> stages);

// {"job": …, "stages": […]}, each as its stage.json.
std::string StagesJson(absl::string_view job,
                       absl::Span<const StageRecord> stages);

// The same as a drawing: a row for each stage, with a bar for its metric, one
// for its bytes, in which the compressed ones are darker, and one for its
// speed. Of `job`, the name.
std::string StagesSvg(absl::string_view job,
                      absl::Span<const StageRecord> stages);

// Writes stages.json and stages.svg into the run's directory.
absl::Status WriteStagesPage(const std::string& run_dir, absl::string_view job,
                             absl::Span<const StageRecord> stages);

}  // namespace paramd

#endif  // PARAMD_CLI_STAGES_STAGES_PAGE_H_
