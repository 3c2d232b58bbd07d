#ifndef PARAMD_PROCESS_AUDIT_LOG_H_
#define PARAMD_PROCESS_AUDIT_LOG_H_

#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/worker_thread.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What operators asked of the processes of a run, and what others tried, for
// good:
//
//   <run_dir>/audit.jsonl   one object a line; only ever appended to, by every
//                           process that has the run's directory
//
// Thread-safe. The destructor waits until all of it is written.
class AuditLog {
 public:
  // `run_directory` may be empty: then nothing is kept. `process`: "ps-0".
  AuditLog(std::string run_directory, std::string process);
  ~AuditLog();

  // Does not block. What can't be written is said in the log, once.
  void Append(const v1::OperatorCall& call) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Write(const v1::OperatorCall& call);

  const std::string directory_;
  const std::string process_;
  bool has_warned_ = false;  // Of the thread.
  Mutex mutex_;
  // Null until there is something to write.
  std::unique_ptr<WorkerThread> thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_AUDIT_LOG_H_
