#ifndef PARAMD_SERVER_CORE_ROW_QUEUE_H_
#define PARAMD_SERVER_CORE_ROW_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace paramd {

// Which row is given away next when one is needed: first those that were never
// used, then those that were unused for longest; among equals the one with the
// lower number.
//
// What it remembers is derived, for a part of the rows at a time, from when
// they were last used. These numbers only ever rise, except for rows that are
// offered.
//
// Not thread-safe.
class RowQueue {
 public:
  // The next of the rows whose uses these are, of those used from `least` on
  // and before `now`; kNoRow if there is none. It is no longer thereafter.
  // `least` is the same at each call.
  uint32_t Take(uint64_t least, uint64_t now, absl::Span<const uint64_t> used);
  // A row has an earlier use than it had.
  void Offer(uint64_t used, uint32_t row, size_t rows);

  static uint64_t MostBytes(size_t rows);

 private:
  // A row that may come next, and its use when it was found.
  struct Candidate {
    uint64_t used;
    uint32_t row;
  };

  void Find(uint64_t least, uint64_t now, absl::Span<const uint64_t> used);
  static bool IsEarlier(const Candidate& a, const Candidate& b);

  std::vector<Candidate> candidates_;  // In order; from next_ on.
  size_t next_ = 0;
  // No other row is before it, unless it was offered.
  Candidate bound_ = {0, 0};
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_ROW_QUEUE_H_
