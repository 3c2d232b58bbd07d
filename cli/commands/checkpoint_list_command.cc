#include "base/print.h"
#include "checkpoint/inspect.h"
#include "cli/commands/command.h"
#include "process/exit_code.h"
#include "process/flags.h"

namespace paramd {

int CheckpointListCommand(const Invocation& invocation) {
  Flags flags("checkpoint list", "PATH",
              "Lists the checkpoints of a run, newest first. Exits 1 if one is "
              "damaged, as far\nas manifests, sizes and headers tell; the "
              "numbers are not read.");
  flags.AllowArguments(1, 1, "PATH, the directory of a run or a checkpoint");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  size_t damaged = 0;
  const auto text = ListCheckpoints(flags.arguments()[0], &damaged);
  PrintError(text.status());
  if (!text.ok()) return ExitCodeAtStart(text.status());
  Print(*text);
  return damaged == 0 ? kExitFinished : kExitFailed;
}

}  // namespace paramd
