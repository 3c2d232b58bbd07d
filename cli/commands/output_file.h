#ifndef PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_
#define PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "cli/commands/unfinished_file.h"

namespace paramd {

// A file that `flag`, "--svg", names, written in place of what was there: whole
// once Finish has succeeded; otherwise what was there stays and nothing is left
// beside it, also if the disk is full or a signal ends the process. Where a
// link leads is written; a pipe or a device is written as it is. Its errors are
// kInvalidArgument, naming flag and file.
//
// One at a time in a process; not thread-safe.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(
      absl::string_view flag, const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Until Finish is called.
  std::FILE* stream() const { return stream_; }
  // Durable on OK. An error if something could not be written, then or before.
  absl::Status Finish();

 private:
  OutputFile(absl::string_view flag, const std::string& path)
      : flag_(flag), path_(path) {}

  const std::string flag_;
  const std::string path_;
  std::string target_;  // From the root, where a link leads.
  // Where it lies until it is whole; empty: it is written as it is.
  std::string hidden_;
  absl::optional<UnfinishedFile> unfinished_;
  std::FILE* stream_ = nullptr;
};

// Writes such a file at once.
absl::Status WriteOutputFile(absl::string_view flag, const std::string& path,
                             absl::string_view text);

// For such a file that is going to be written when that took a while: says what
// is wrong with it now. Changes nothing. Errors: the same.
absl::Status CheckOutputFile(absl::string_view flag, const std::string& path);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_OUTPUT_FILE_H_
