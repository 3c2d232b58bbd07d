#ifndef PARAMD_PROCESS_OBSERVE_STATUS_WATCH_H_
#define PARAMD_PROCESS_OBSERVE_STATUS_WATCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "proto/paramd/v1/report.pb.h"

namespace paramd {

// What `paramd status --watch` shows: the newest report that has a job and,
// where the newest question got none, why and how old the report is.
//
// Not thread-safe.
class StatusWatch {
 public:
  // `patience`: for how long nobody may tell how the job is; of a job that was
  // about to end, ten seconds at most.
  explicit StatusWatch(absl::Duration patience) : patience_(patience) {}

  // What was found out at `now`.
  void Take(const absl::StatusOr<v1::ClusterReport>& found, Time now);

  // REQUIRES: a report was taken.
  std::string TextAt(Time now) const;

  // Nullopt: it goes on. Else there is nothing more to be seen, and this is
  // what the newest question came to: OK if it was answered, if only by a
  // process that does not reach the coordinator.
  const absl::optional<absl::Status>& end() const { return end_; }

 private:
  const absl::Duration patience_;
  v1::ClusterReport report_;
  Time taken_;
  bool is_newest_ = false;  // Of the newest question.
  // Why that told nothing of the job.
  std::string away_;
  // When somebody did, or the first question.
  absl::optional<Time> heard_;
  absl::optional<absl::Status> end_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_STATUS_WATCH_H_
