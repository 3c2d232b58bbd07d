#ifndef PARAMD_WORKER_PINNED_MEMORY_H_
#define PARAMD_WORKER_PINNED_MEMORY_H_

#include <cstdint>
#include <vector>

#include "compute/device/device_link.h"

namespace paramd {

// Has the link make pinned memory for both copies of a worker's weights and for
// two sets of their gradients: pulls land there, and pushes leave from there.
// `bytes`: of each variable. Nothing without a link, where weights stay on the
// device, and where it would be more than a quarter of the machine's memory.
void PinMemory(const std::vector<uint64_t>& bytes, DeviceLink* link);

}  // namespace paramd

#endif  // PARAMD_WORKER_PINNED_MEMORY_H_
