#include "absl/strings/str_cat.h"

#include "base/print.h"
#include "cli/commands/command.h"
#include "compute/device/cuda_device.h"
#include "compute/device/device_choice.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/version.h"

namespace paramd {

int VersionCommand(const Invocation& invocation) {
  Flags flags("version", "",
              "Prints the version and the commit, and which GPUs can be used.");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  Print(absl::StrCat("paramd ", ParamdVersion(), " (commit ", ParamdCommit(),
                     ")\n", Describe(ProbeCuda()), "\n"));
  return kExitFinished;
}

}  // namespace paramd
