#include "cli/path_command.h"

#include <cstdio>

#include "cli/exit_code.h"
#include "cli/flags.h"

namespace paramd {

int RunPathCommand(const PathCommand& command, const Invocation& invocation) {
  Flags flags(command.name, "PATH", command.sentence);
  flags.AllowArguments(1, 1, "PATH, the directory of a run or a checkpoint");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const auto text = command.describe(flags.arguments()[0]);
  PrintError(text.status());
  if (!text.ok()) return ExitCodeAtStart(text.status());
  std::fputs(text->c_str(), stdout);
  return kExitFinished;
}

}  // namespace paramd
