#ifndef PARAMD_CLI_COMMANDS_COMMAND_HELP_H_
#define PARAMD_CLI_COMMANDS_COMMAND_HELP_H_

#include <string>
#include <vector>

#include "process/flags.h"

namespace paramd {

// What people and shells are told about one subcommand; --help is made from the
// same.
struct CommandHelp {
  std::string name;         // "local", "checkpoint inspect"
  std::string sentence;     // "what a checkpoint contains"
  std::string usage;        // "--job FILE [flags]"; follows the name.
  std::string description;  // One sentence or more.
  std::vector<Flags::Info> flags;
};

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_COMMAND_HELP_H_
