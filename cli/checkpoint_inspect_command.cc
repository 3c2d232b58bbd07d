#include "checkpoint/inspect.h"
#include "cli/command.h"
#include "cli/path_command.h"

namespace paramd {

int CheckpointInspectCommand(const Invocation& invocation) {
  return RunPathCommand(
      {"checkpoint inspect",
       "Shows what a checkpoint contains: the newest of a run's, or one.",
       InspectCheckpoint},
      invocation);
}

}  // namespace paramd
