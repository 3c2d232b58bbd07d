#include <cstdio>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/flags.h"
#include "cli/version.h"

namespace paramd {

int VersionCommand(const Invocation& invocation) {
  Flags flags("version", "", "Prints the version and the commit.");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  std::printf("paramd %s (commit %s)\n", ParamdVersion().c_str(),
              ParamdCommit().c_str());
  return kExitFinished;
}

}  // namespace paramd
