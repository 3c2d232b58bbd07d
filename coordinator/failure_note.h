#ifndef PARAMD_COORDINATOR_FAILURE_NOTE_H_
#define PARAMD_COORDINATOR_FAILURE_NOTE_H_

#include <string>

#include "absl/status/status.h"

namespace paramd {

// Says in a run's own directory that the chief's process has ended the job, and
// why, for those whom nobody calls (evaluators) and for people.
//
//   <run_dir>/failure.json   v1::Finished, until the chief is started again
//   <run_dir>/stopped.json   the same, where an operator has stopped it
//
// Not thread-safe.
class FailureNote {
 public:
  explicit FailureNote(const std::string& run_directory);

  // The sentence in a run's stopped.json; empty: there is none.
  static std::string WhyStopped(const std::string& run_directory);

  // OK once it is written. REQUIRES: EndsTheJob(why).
  absl::Status Write(const absl::Status& why) const;
  // The chief begins anew.
  void Remove() const;

  // How the job has ended, if it was noted since this object was made or asked
  // last: a process that ends so (see EndFor); else OK. What can't be read is
  // none.
  absl::Status Read();

 private:
  // The content, and when it was written; empty if there is none.
  std::string Present(std::string* content) const;

  const std::string failed_;  // Paths.
  const std::string stopped_;
  std::string known_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_FAILURE_NOTE_H_
