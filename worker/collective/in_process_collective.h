#ifndef PARAMD_WORKER_COLLECTIVE_IN_PROCESS_COLLECTIVE_H_
#define PARAMD_WORKER_COLLECTIVE_IN_PROCESS_COLLECTIVE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "worker/collective/collective.h"

namespace paramd {

// Members that are threads of one process: each adds its part of the values, in
// the order of ranks, straight from where the others have them. Any number of
// members adds in order. Wait for each other on one lock.
std::vector<std::unique_ptr<Collective>> MakeInProcessCollective(size_t size);

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_IN_PROCESS_COLLECTIVE_H_
