#include <cstdio>

#include "cli/commands/command.h"
#include "cli/process/exit_code.h"
#include "cli/process/flags.h"
#include "cli/process/version.h"
#include "worker/device/cuda_device.h"
#include "worker/device/device_choice.h"

namespace paramd {

int VersionCommand(const Invocation& invocation) {
  Flags flags("version", "",
              "Prints the version and the commit, and which GPUs can be used.");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  std::printf("paramd %s (commit %s)\n", ParamdVersion().c_str(),
              ParamdCommit().c_str());
  std::printf("%s\n", Describe(ProbeCuda()).c_str());
  return kExitFinished;
}

}  // namespace paramd
