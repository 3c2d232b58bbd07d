#ifndef PARAMD_CLI_PATH_COMMAND_H_
#define PARAMD_CLI_PATH_COMMAND_H_

#include <string>

#include "absl/status/statusor.h"

#include "cli/command.h"

namespace paramd {

// A subcommand that says something about one path.
struct PathCommand {
  std::string name;
  std::string sentence;
  absl::StatusOr<std::string> (*describe)(const std::string& path);
};

// Prints what `describe` says about the argument. Exit 0; 2 if the argument is
// missing or names nothing that there is, 1 if it is damaged.
int RunPathCommand(const PathCommand& command, const Invocation& invocation);

}  // namespace paramd

#endif  // PARAMD_CLI_PATH_COMMAND_H_
