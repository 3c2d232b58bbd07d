#ifndef PARAMD_CLI_MEMORY_LIMIT_H_
#define PARAMD_CLI_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace paramd {

// How many bytes of memory this process may use: the least that a control group
// of it allows (version 2 or 1), or that the machine has. 0 if nothing says so.
// `root` stands for "/", for tests.
uint64_t MemoryOfThisProcess(const std::string& root = "");

// What a server may hold: `configured`, or where that is 0, nine tenths of
// `found`.
inline uint64_t MemoryLimitOf(uint64_t configured, uint64_t found) {
  return configured != 0 ? configured : found / 10 * 9;
}

}  // namespace paramd

#endif  // PARAMD_CLI_MEMORY_LIMIT_H_
