#include <cstdio>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/man_page.h"
#include "cli/version.h"

namespace paramd {

int ManCommand(const Invocation& invocation) {
  Flags flags("man", "",
              "Prints the manual page: paramd man | man -l -, or as "
              "/usr/local/share/man/man1/paramd.1");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  std::fputs(ManPage(DescribeCommands(), ParamdVersion()).c_str(), stdout);
  return kExitFinished;
}

}  // namespace paramd
