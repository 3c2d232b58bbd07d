#ifndef PARAMD_BASE_CLOCK_H_
#define PARAMD_BASE_CLOCK_H_

#include "base/time.h"

namespace paramd {

// The machine's monotonic clock. For shells; a core is told the time instead.
// Thread-safe.
Time MonotonicNow();

}  // namespace paramd

#endif  // PARAMD_BASE_CLOCK_H_
