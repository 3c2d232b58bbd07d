#ifndef PARAMD_SERVER_DEVICE_CUDA_LOOPS_H_
#define PARAMD_SERVER_DEVICE_CUDA_LOOPS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "server/core/optimizers/loop_device.h"

namespace paramd {

// What is asked of a device that is to have a server's arrays.
struct LoopMemory {
  uint64_t weight_bytes = 0;
  uint64_t block_bytes = 0;  // With slots.
  // That will be in use all the time.
  uint64_t lasting_bytes = 0;
  // What else takes memory of the device at times: a step, an evaluation, a
  // snapshot.
  uint64_t beside_bytes = 0;
  // Of one piece, out of which all buffers come. What nobody touches takes no
  // memory of the device.
  uint64_t most_bytes = 0;
};

// Makes the LoopDevice of an accelerator, "cuda:0". FAILED_PRECONDITION or
// RESOURCE_EXHAUSTED, a sentence: why arrays had better lie in host memory.
using MakeLoopDevice =
    std::function<absl::StatusOr<std::shared_ptr<LoopDevice>>(
        const std::string& accelerator, const LoopMemory& memory)>;

// Of a GPU: managed memory that stays there, and kernels in a stream of their
// own, which the caller waits for. Refused where the host can't touch such
// memory while the GPU computes; where it would take more than half of what is
// free, or not leave enough for what is beside it, since CUDA would then move
// it to and fro in each step, without a word; and for less than 4 MiB of
// weights: crossing costs less than kernels for so few.
absl::StatusOr<std::shared_ptr<LoopDevice>> MakeCudaLoops(
    const std::string& accelerator, const LoopMemory& memory);

}  // namespace paramd

#endif  // PARAMD_SERVER_DEVICE_CUDA_LOOPS_H_
