#include "server/device/testing/test_loops.h"
#include "tests/resident/emulated_loops.h"

namespace paramd {

absl::StatusOr<std::shared_ptr<LoopDevice>> MakeTestLoops(uint64_t bytes) {
  EmulatedLoops::Options options;
  options.bytes = bytes;
  options.accelerator.in_haste = true;
  return std::shared_ptr<LoopDevice>(std::make_shared<EmulatedLoops>(options));
}

}  // namespace paramd
