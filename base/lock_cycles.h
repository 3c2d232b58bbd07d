#ifndef PARAMD_BASE_LOCK_CYCLES_H_
#define PARAMD_BASE_LOCK_CYCLES_H_

namespace paramd {

// From now on Abseil's locks, which gRPC takes, look for no cycles among them.
// The distribution's Abseil is a debug build and does so at every lock: 5 % of
// the CPU of a small call. Our own locks are others, see base/mutex.h.
// Thread-safe.
void LookForNoLockCycles();

}  // namespace paramd

#endif  // PARAMD_BASE_LOCK_CYCLES_H_
