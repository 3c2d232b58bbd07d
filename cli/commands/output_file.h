#ifndef PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_
#define PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Writes a file that `flag`, "--svg", names, in place of what was there.
// kInvalidArgument, naming flag and file, if that can't be done.
absl::Status WriteOutputFile(absl::string_view flag, const std::string& path,
                             absl::string_view text);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_
