#ifndef PARAMD_CLI_MAN_PAGE_H_
#define PARAMD_CLI_MAN_PAGE_H_

#include <string>
#include <vector>

#include "cli/command_help.h"

namespace paramd {

// The manual page of section 1 in the macros of man(7): every command, flag,
// setting and exit code.
std::string ManPage(const std::vector<CommandHelp>& commands,
                    const std::string& version);

}  // namespace paramd

#endif  // PARAMD_CLI_MAN_PAGE_H_
