#ifndef PARAMD_COORDINATOR_CORE_JOB_REPORT_H_
#define PARAMD_COORDINATOR_CORE_JOB_REPORT_H_

#include <string>

#include "coordinator/core/coordinator_parts.h"

namespace paramd {

// What people are told of the job: whom it waits for, and its state.
//
// Not thread-safe: lives inside a Dispatcher.
class JobReport {
 public:
  // `parts` outlives it.
  explicit JobReport(const CoordinatorParts* parts) : parts_(*parts) {}

  // Whom everything waits for, and why; empty: nobody. The first that applies:
  // what is after it waits for that too.
  std::string waiting_for() const;
  // The same, but for a step of sync mode that takes its time, and files that
  // are yet to appear.
  std::string overdue(Time now) const;
  // As of this moment.
  void FillStatus(Time now, v1::StatusReply* status) const;

 private:
  // Where neither the log, a server nor a snapshot is waited for.
  std::string BehindTheOthers() const;
  // Where all input that was found is used; else empty.
  std::string FilesAwaited() const;
  v1::JobState State() const;
  void FillEpochs(v1::JobStats* job) const;

  const CoordinatorParts& parts_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_JOB_REPORT_H_
