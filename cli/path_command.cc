#include "cli/path_command.h"

#include <cstdio>

#include "cli/exit_code.h"
#include "cli/flags.h"

namespace paramd {

int RunPathCommand(const PathCommand& command, const Invocation& invocation) {
  Flags flags(command.name, "PATH", command.sentence);
  flags.AllowArguments(1, 1, "PATH, the directory of a run or a checkpoint");
  const absl::Status parsed = flags.Parse(invocation.arguments);
  if (!parsed.ok()) {
    PrintError(parsed);
    return kExitBadConfiguration;
  }
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return kExitFinished;
  }
  const auto text = command.describe(flags.arguments()[0]);
  PrintError(text.status());
  if (!text.ok()) return ExitCodeAtStart(text.status());
  std::fputs(text->c_str(), stdout);
  return kExitFinished;
}

}  // namespace paramd
