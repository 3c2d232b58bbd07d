#ifndef PARAMD_BASE_RESOURCE_LIMITS_H_
#define PARAMD_BASE_RESOURCE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace paramd {

// What the system lets this process take (ulimit, and the like of a control
// group), asked before it is needed: libraries end the process, or try for
// ever, where they don't get it.

// Opens those of the descriptors 0 to 2 that are closed on /dev/null, so that
// no file of the process gets one of these numbers and is written to as if it
// were stderr. Reading 0 and writing 1 and 2 fails, as before. Called first of
// all.
void OpenStandardDescriptors();

// kInvalidArgument with both numbers if this process can't start `needed` more
// threads. It starts them, and they end: what they are limited by stands in
// several places.
absl::Status CheckThreads(size_t needed);

// Whether the address space is limited (ulimit -v, a grid engine's h_vmem).
bool IsAddressSpaceLimited();

// kInvalidArgument with both numbers if this process can't have `bytes` more of
// address space.
absl::Status CheckAddressSpace(uint64_t bytes);

// Of a thread that is started without being told.
uint64_t StackBytes();

// From now on a process that can't start a thread, or gets no memory, in spite
// of all checks, says so in one sentence and ends with `limited`, or where
// nobody has limited its memory with `exhausted`; before, std::terminate.
void EndWithASentence(int limited, int exhausted);

}  // namespace paramd

#endif  // PARAMD_BASE_RESOURCE_LIMITS_H_
