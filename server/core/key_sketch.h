#ifndef PARAMD_SERVER_CORE_KEY_SKETCH_H_
#define PARAMD_SERVER_CORE_KEY_SKETCH_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace paramd {

// How often keys were named, in counters of 8 bits that belong to the caller: a
// count-min sketch (Cormode and Muthukrishnan, 2005) of two counters a key, of
// which the lower one rises (Estan and Varghese, 2002). When half of the
// counters are in use, each is halved (as in TinyLFU: Einziger et al., 2017),
// so that what was rare long ago does not add up.
//
// Invariant: what it answers and does follows from the counters and the key.
//
// Not thread-safe: lives inside a KeyTable.
class KeySketch {
 public:
  // A key is named once more. How often it was, this time included: at least so
  // often since the counters were last halved, 255 at most. REQUIRES: the same
  // counters at each call, at least one, but for their place in memory.
  uint32_t Add(uint64_t mixed, absl::Span<uint64_t> counters);

 private:
  bool known_ = false;  // Whether in_use_ is.
  size_t in_use_ = 0;   // Counters above 0.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_KEY_SKETCH_H_
