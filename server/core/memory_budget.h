#ifndef PARAMD_SERVER_CORE_MEMORY_BUDGET_H_
#define PARAMD_SERVER_CORE_MEMORY_BUDGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "tensor/memory_account.h"

namespace paramd {

// How much memory a server holds and may hold: asked before anything is made.
//
// What it counts: the buffers of its account as long as anybody holds them
// (weights, slots, their copies for a snapshot or a slow reader, sums, recycled
// ones), and what others allocated and the server keeps (gradients that wait).
// Not what each slice knows of pushes (applied_pushes.h), 160 bytes for each
// worker: its bound follows from the configuration, so there is nothing to
// refuse for its sake. Of 1,000 workers and 1 GB of weights in slices of 4 MiB
// it is 40 MB.
//
// Invariant, as long as nothing is made that does not fit: used() <= limit().
//
// Not thread-safe, but for the buffers: belongs to a Shard.
class MemoryBudget {
 public:
  // 0: no limit.
  explicit MemoryBudget(uint64_t limit_bytes = 0) : limit_(limit_bytes) {}

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return account_.bytes() + kept_; }
  // Whether `more` bytes may be made now.
  bool Fits(uint64_t more) const {
    return limit_ == 0 || (more <= limit_ && used() <= limit_ - more);
  }

  MemoryAccount& account() { return account_; }
  // What the server keeps of others' memory now.
  void SetKept(uint64_t bytes) { kept_ = bytes; }

  // What something that lasts needs, for people: "weights", and its bytes.
  struct Part {
    absl::string_view what;
    uint64_t bytes = 0;
  };
  // INVALID, with the sum, if all parts together are above the limit.
  absl::Status CheckParts(const std::vector<Part>& parts) const;

  // The refusal of `what`, which needs `more` bytes now: OVER_LIMIT, to be
  // asked again. Counted.
  absl::Status RefuseNow(absl::string_view server, absl::string_view what,
                         uint64_t more, absl::Duration retry_after);
  uint64_t refusals() const { return refusals_; }

 private:
  const uint64_t limit_;
  MemoryAccount account_;
  uint64_t kept_ = 0;
  uint64_t refusals_ = 0;
};

// "1.5 GB", "12.0 MB", "17 B": for people, in powers of 1000.
std::string BytesForPeople(uint64_t bytes);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_MEMORY_BUDGET_H_
