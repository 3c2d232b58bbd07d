#ifndef PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_NCCL_H_
#define PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_NCCL_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "compute/device/nccl.h"

namespace paramd {

// A library that does as NCCL does without waiting in a call, for emulated
// accelerators in any threads and processes of this machine, over Unix sockets.
//
// - A call of a sum is done, and the stream has it, only when the state of its
// end
//   was asked for twice.
// - A sum holds up its stream until all have come. One whose other end is gone
//   says so in the state of the end, and holds up the stream until the end is
//   aborted.
// - Aborting frees the end: a call with it then is seen by AddressSanitizer.
//
// The member of rank 0 adds in the order of ranks, so the bits are those of
// host memory.
class EmulatedNccl {
 public:
  // Of this process, for ends that are made from now on.
  struct Faults {
    int version = 22000;
    // Ends of this rank never come together with others; -1: none.
    int absent_rank = -1;
    // Before an end of this process looks for others, and before each sum.
    absl::Duration delay = absl::ZeroDuration();
  };

  static absl::StatusOr<Nccl> Load();
  static void SetFaults(const Faults& faults);
  // Ends of this process that are not aborted.
  static int ends();
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_NCCL_H_
