#include <cstdio>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/flags.h"
#include "cli/version.h"

namespace paramd {

int VersionCommand(const Invocation& invocation) {
  Flags flags("version", "", "Prints the version and the commit.");
  if (const absl::Status status = flags.Parse(invocation.arguments);
      !status.ok()) {
    PrintError(status);
    return kExitBadConfiguration;
  }
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return kExitFinished;
  }
  std::printf("paramd %s (commit %s)\n", ParamdVersion().c_str(),
              ParamdCommit().c_str());
  return kExitFinished;
}

}  // namespace paramd
