#ifndef PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_
#define PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Writes a file that `flag`, "--svg", names, in place of what was there.
// kInvalidArgument, naming flag and file, if that can't be done.
absl::Status WriteOutputFile(absl::string_view flag, const std::string& path,
                             absl::string_view text);

// A file that is going to be written by WriteOutputFile when that took a while:
// what is wrong with it is said before.
class OutputPlace {
 public:
  // What is in the file stays; it is made if there is none. As WriteOutputFile.
  static absl::StatusOr<OutputPlace> Claim(absl::string_view flag,
                                           const std::string& path);
  // There is nothing to be written: the file is gone if Claim made it.
  void GiveUp() const;

 private:
  OutputPlace(const std::string& path, bool is_new)
      : path_(path), is_new_(is_new) {}

  std::string path_;
  bool is_new_;
};

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_
