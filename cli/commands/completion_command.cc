#include <cstdio>

#include "cli/commands/command.h"
#include "cli/commands/completion.h"
#include "cli/process/exit_code.h"

namespace paramd {

int CompletionCommand(const Invocation& invocation) {
  Flags flags("completion", "bash|zsh",
              "Prints what the shell reads to complete commands and flags: "
              "source <(paramd completion bash)");
  flags.AllowArguments(1, 1, "the shell, bash or zsh");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const std::string& shell = flags.arguments()[0];
  if (shell != "bash" && shell != "zsh") {
    std::fprintf(stderr, "paramd: the shell is bash or zsh, not '%s'\n",
                 shell.c_str());
    return kExitBadConfiguration;
  }
  const std::vector<CommandHelp> commands = DescribeCommands();
  std::fputs(
      (shell == "bash" ? BashCompletion(commands) : ZshCompletion(commands))
          .c_str(),
      stdout);
  return kExitFinished;
}

}  // namespace paramd
