#include "server/device/cuda_loops.h"

namespace paramd {

absl::StatusOr<std::shared_ptr<LoopDevice>> MakeCudaLoops(
    const std::string& /*accelerator*/, const LoopMemory& /*memory*/) {
  return absl::FailedPreconditionError("this program was built without CUDA");
}

}  // namespace paramd
