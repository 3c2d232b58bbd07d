#ifndef PARAMD_CLI_LOCAL_CHILD_PROCESS_H_
#define PARAMD_CLI_LOCAL_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace paramd {

// A program started by this process: in a process group of its own (so Ctrl-C
// reaches the parent alone), with stdin from /dev/null and stdout and stderr
// joined in one pipe. It is killed when the thread that started it ends, by
// whatever death: start children from the main thread.
//
// Not thread-safe. Owns the process and the pipe: the destructor kills what
// still runs and waits for it.
class ChildProcess {
 public:
  struct Options {
    std::string executable;                // A path; PATH is not searched.
    std::vector<std::string> arguments;    // With the program's name, argv[0].
    std::vector<std::string> environment;  // "NAME=value", all of it.
  };

  // Internal if there is no pipe or no process to be had. A program that
  // cannot be executed exits 127 with a sentence on its stderr.
  static absl::StatusOr<ChildProcess> Start(const Options& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }

  // Readable, non-blocking; closed by the destructor.
  int output() const { return output_; }

  // Once it has ended: its exit code, or 128 + the number of the signal that
  // killed it. Nullopt while it runs. Does not block.
  absl::optional<int> Poll();

  // To its process group. No effect once Poll has said that it ended.
  void Signal(int signal) const;

 private:
  ChildProcess(pid_t pid, int output) : pid_(pid), output_(output) {}
  void Swap(ChildProcess* other);

  pid_t pid_ = -1;  // -1: moved from.
  int output_ = -1;
  absl::optional<int> exit_code_;
};

// This process's environment without `name`, and with `name`=`value` if a
// value is given.
std::vector<std::string> EnvironmentWith(absl::string_view name,
                                         absl::optional<std::string> value);

}  // namespace paramd

#endif  // PARAMD_CLI_LOCAL_CHILD_PROCESS_H_
