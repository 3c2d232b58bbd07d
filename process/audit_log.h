#ifndef PARAMD_PROCESS_AUDIT_LOG_H_
#define PARAMD_PROCESS_AUDIT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What operators asked of the processes of a run, and what others tried, for
// good:
//
//   <run_dir>/audit.jsonl   one object a line; only ever appended to, by every
//                           process that has the run's directory
//
// Nobody who calls waits for the disk: a thread of its own writes, and what
// comes while `most_waiting` entries wait for it is dropped. So is what can't
// be written. What is dropped is counted, said in the process's log the 1st,
// 2nd, 4th, 8th … time, and, as soon as something can be written again, in a
// line of audit.jsonl itself:
//
//   {"time":"…","process":"ps-0","dropped":3}
//
// Thread-safe. The destructor waits until all of it is written, `patience` at
// most: then it says how many entries are not, and leaves the thread to the
// disk that it waits for.
class AuditLog {
 public:
  // Appends a whole line, or several. On an error what is there of them is not
  // a line of anybody's.
  using Write =
      std::function<absl::Status(const std::string& path, const std::string&)>;
  struct Options {
    Write write = AppendLines;
    size_t most_waiting = 256;
    absl::Duration patience = absl::Seconds(5);
  };

  // `run_directory` may be empty: then nothing is kept. `process`: "ps-0".
  AuditLog(const std::string& run_directory, const std::string& process);
  AuditLog(const std::string& run_directory, const std::string& process,
           Options options);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Does not block.
  void Append(const v1::OperatorCall& call);

  // Entries that are not in the file and won't be.
  uint64_t dropped() const;

  // To the end of the file, which is made if it is not there, in lines of their
  // own even if another write was cut short. kUnavailable with the system's
  // words.
  static absl::Status AppendLines(const std::string& path,
                                  const std::string& lines);

 private:
  class Queue;

  // Shared with the thread, which may have to be left behind.
  const std::shared_ptr<Queue> queue_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_AUDIT_LOG_H_
