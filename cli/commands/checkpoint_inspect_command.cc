#include "base/print.h"
#include "checkpoint/inspect.h"
#include "cli/commands/command.h"
#include "process/exit_code.h"
#include "process/flags.h"

namespace paramd {

int CheckpointInspectCommand(const Invocation& invocation) {
  bool values = false;
  Flags flags("checkpoint inspect", "PATH [--values]",
              "Shows what a checkpoint contains: the newest of a run's, or "
              "one.");
  flags.AddSwitch("values",
                  "the range and mean of each variable's values too; reads "
                  "them all",
                  &values);
  flags.AllowArguments(1, 1, "PATH, the directory of a run or a checkpoint");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const auto text = InspectCheckpoint(flags.arguments()[0], values);
  PrintError(text.status());
  if (!text.ok()) return ExitCodeAtStart(text.status());
  Print(*text);
  return kExitFinished;
}

}  // namespace paramd
