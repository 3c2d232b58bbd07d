#ifndef PARAMD_WORKER_CORE_QUARANTINE_WATCH_H_
#define PARAMD_WORKER_CORE_QUARANTINE_WATCH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Counts the pushes of a worker that servers refused for their numbers. A few
// among good ones do no harm; many in a row mean that training has gone wrong.
//
// Not thread-safe: lives inside a worker's core.
class QuarantineWatch {
 public:
  QuarantineWatch(uint32_t worker, uint32_t limit)
      : worker_(worker), limit_(limit) {}

  // A push was refused with this sentence. kFailedPrecondition that says what
  // to do if it is the `limit`-th in a row.
  absl::Status Refused(absl::string_view sentence);
  // A push was applied.
  void Applied() { in_a_row_ = 0; }

  uint64_t total() const { return total_; }
  // Whether the newest refusal is the 1st, 2nd, 4th, 8th … one: to be logged.
  bool is_worth_a_note() const { return (total_ & (total_ - 1)) == 0; }

 private:
  const uint32_t worker_;
  const uint32_t limit_;
  uint32_t in_a_row_ = 0;
  uint64_t total_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_QUARANTINE_WATCH_H_
