#ifndef PARAMD_WORKER_COLLECTIVE_COLLECTIVE_H_
#define PARAMD_WORKER_COLLECTIVE_COLLECTIVE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace paramd {

// What a number of members do together: each calls the same functions, in the
// same order, with spans of the same lengths, and returns when all have. A
// collective lasts until the first of them is gone; then whoever is left makes
// another one.
//
// All members get the same bits.
//
// Each function: UNAVAILABLE once a member is gone, which the sentence names if
// that is known, or after Abort; then spans hold anything, and so it stays.
//
// Not thread-safe, but for Abort.
class Collective {
 public:
  virtual ~Collective() = default;

  // From 0.
  virtual size_t rank() const = 0;
  virtual size_t size() const = 0;

  // `values` become the sums over all members. Up to two members add in order;
  // more, in an order that depends on their number and the length alone, or,
  // where devices sum, on these and how they are linked.
  virtual absl::Status Sum(absl::Span<float> values) = 0;
  // `all` becomes each member's `own`, one after the other by rank. REQUIRES:
  // it has size() times as many.
  virtual absl::Status Gather(absl::Span<const double> own,
                              absl::Span<double> all) = 0;

  // Ends it, for the other members too. Any thread, any number of times.
  virtual void Abort() = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_COLLECTIVE_H_
