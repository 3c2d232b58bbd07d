#ifndef PARAMD_SERVER_DEVICE_TESTING_TEST_LOOPS_H_
#define PARAMD_SERVER_DEVICE_TESTING_TEST_LOOPS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "server/core/optimizers/loop_device.h"

namespace paramd {

// Of the kind that this program tests, with so much memory; an error says why
// there is none here.
absl::StatusOr<std::shared_ptr<LoopDevice>> MakeTestLoops(uint64_t bytes);

}  // namespace paramd

#endif  // PARAMD_SERVER_DEVICE_TESTING_TEST_LOOPS_H_
