#include <cstdio>

#include "absl/strings/str_cat.h"

#include "base/print.h"
#include "cli/commands/command.h"
#include "cli/commands/completion.h"
#include "process/exit_code.h"

namespace paramd {

int CompletionCommand(const Invocation& invocation) {
  Flags flags("completion", "bash|zsh",
              "Prints what the shell reads to complete commands and flags: "
              "source <(paramd completion bash)");
  flags.AllowArguments(1, 1, "the shell, bash or zsh");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const std::string& shell = flags.arguments()[0];
  if (shell != "bash" && shell != "zsh") {
    Print(absl::StrCat("paramd: the shell is bash or zsh, not '", shell, "'\n"),
          stderr);
    return kExitBadConfiguration;
  }
  const std::vector<CommandHelp> commands = DescribeCommands();
  Print(shell == "bash" ? BashCompletion(commands) : ZshCompletion(commands));
  return kExitFinished;
}

}  // namespace paramd
