#ifndef PARAMD_CLI_COMMANDS_COMPLETION_H_
#define PARAMD_CLI_COMMANDS_COMPLETION_H_

#include <string>
#include <vector>

#include "cli/commands/command_help.h"

namespace paramd {

// Scripts that a shell reads once and then completes by: the words of commands,
// the flags of each, the values of those that take one of a few, the paths of
// settings after --set, and files everywhere else.
std::string BashCompletion(const std::vector<CommandHelp>& commands);
std::string ZshCompletion(const std::vector<CommandHelp>& commands);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_COMPLETION_H_
