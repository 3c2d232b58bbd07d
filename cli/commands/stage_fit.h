#ifndef PARAMD_CLI_COMMANDS_STAGE_FIT_H_
#define PARAMD_CLI_COMMANDS_STAGE_FIT_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "config/job_config.h"

namespace paramd {

// Whether the models of stages fit those that they take something from, so that
// nothing is trained for a stage that could not begin: variables by name and
// shape where one begins with another's weights, and the number of classes
// where one learns from another or from its labels; that labels, where they are
// a teacher, will say something of each example; that one that labels has
// classes to give and examples to give them to. Looks at the data of each
// for its shape. INVALID_ARGUMENT, a sentence that names the stage and what
// differs; the errors of the data and of the models.
absl::Status CheckStagesFit(absl::Span<const LoadedJob> stages);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_STAGE_FIT_H_
