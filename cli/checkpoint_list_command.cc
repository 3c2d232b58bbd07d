#include "checkpoint/inspect.h"
#include "cli/command.h"
#include "cli/path_command.h"

namespace paramd {

int CheckpointListCommand(const Invocation& invocation) {
  return RunPathCommand(
      {"checkpoint list", "Lists the checkpoints of a run, newest first.",
       ListCheckpoints},
      invocation);
}

}  // namespace paramd
