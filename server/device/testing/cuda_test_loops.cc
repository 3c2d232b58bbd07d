#include "server/device/cuda_loops.h"
#include "server/device/testing/test_loops.h"

namespace paramd {

absl::StatusOr<std::shared_ptr<LoopDevice>> MakeTestLoops(uint64_t bytes) {
  return MakeCudaLoops(
      "cuda:0",
      {.weight_bytes = bytes, .lasting_bytes = bytes, .most_bytes = bytes});
}

}  // namespace paramd
