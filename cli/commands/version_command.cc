#include "absl/strings/str_cat.h"

#include "base/print.h"
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
  Print(absl::StrCat("paramd ", ParamdVersion(), " (commit ", ParamdCommit(),
                     ")\n", Describe(ProbeCuda()), "\n"));
  return kExitFinished;
}

}  // namespace paramd
