#ifndef PARAMD_CLI_COMMANDS_UNFINISHED_FILE_H_
#define PARAMD_CLI_COMMANDS_UNFINISHED_FILE_H_

#include <array>
#include <cstddef>
#include <string>

namespace paramd {

// While it exists, a signal that ends the process (SIGHUP, SIGINT, SIGTERM)
// deletes the file of this name before. A signal that somebody handles or
// ignores stays theirs. One at a time in a process; not thread-safe.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(std::string path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  static constexpr size_t kSignals = 3;

  const std::string path_;
  std::array<bool, kSignals> is_taken_ = {};
};

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_UNFINISHED_FILE_H_
