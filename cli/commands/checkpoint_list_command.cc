#include <cstdio>

#include "checkpoint/inspect.h"
#include "cli/commands/command.h"
#include "cli/process/exit_code.h"
#include "cli/process/flags.h"

namespace paramd {

int CheckpointListCommand(const Invocation& invocation) {
  Flags flags("checkpoint list", "PATH",
              "Lists the checkpoints of a run, newest first.");
  flags.AllowArguments(1, 1, "PATH, the directory of a run or a checkpoint");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const auto text = ListCheckpoints(flags.arguments()[0]);
  PrintError(text.status());
  if (!text.ok()) return ExitCodeAtStart(text.status());
  std::fputs(text->c_str(), stdout);
  return kExitFinished;
}

}  // namespace paramd
