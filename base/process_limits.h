#ifndef PARAMD_BASE_PROCESS_LIMITS_H_
#define PARAMD_BASE_PROCESS_LIMITS_H_

#include <cstdint>
#include <string>

namespace paramd {

// What this process may use of the machine: the least that a control group of
// it (version 2 or 1) and those above it allow, or that the machine has. `root`
// stands for "/", for tests.

// Bytes of memory. 0 if nothing says so.
uint64_t MemoryOfThisProcess(const std::string& root = "");

// Processors: as many as its threads may run on at once, and no more than the
// time that its groups are given in each period lasts for, rounded up. At least
// 1, also if nothing says so, at most 65536.
uint32_t ProcessorsOfThisProcess(const std::string& root = "");

}  // namespace paramd

#endif  // PARAMD_BASE_PROCESS_LIMITS_H_
