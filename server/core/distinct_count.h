#ifndef PARAMD_SERVER_CORE_DISTINCT_COUNT_H_
#define PARAMD_SERVER_CORE_DISTINCT_COUNT_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace paramd {

// How many different keys were added, in 1 KiB, with a standard error of 3 %:
// HyperLogLog (Flajolet et al., AofA 2007), which counts empty registers while
// keys are few.
class DistinctCount {
 public:
  void Add(uint64_t key);
  uint64_t Estimate() const;

 private:
  static constexpr int kBits = 10;
  static constexpr size_t kRegisters = size_t{1} << kBits;

  // Of the keys of a register: the most zeros before the first one in what is
  // left of their hash, and one more.
  std::array<uint8_t, kRegisters> ranks_{};
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_DISTINCT_COUNT_H_
