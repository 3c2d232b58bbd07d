#ifndef PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_
#define PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Writes a file that `flag`, "--svg", names, in place of what was there: whole,
// or what was there stays and nothing is left beside it, also if the disk is
// full or a signal ends the process. Where a link leads is written; a pipe or a
// device is written as it is. kInvalidArgument, naming flag and file, if that
// can't be done.
absl::Status WriteOutputFile(absl::string_view flag, const std::string& path,
                             absl::string_view text);

// For a file that WriteOutputFile is going to write when that took a while:
// says what is wrong with it now. Changes nothing. Errors: the same.
absl::Status CheckOutputFile(absl::string_view flag, const std::string& path);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_
