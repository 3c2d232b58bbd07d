#ifndef PARAMD_BASE_CRC32C_H_
#define PARAMD_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace paramd {

// CRC-32C (Castagnoli, RFC 3720) of `bytes`, continuing from `crc`, the value
// of what came before (0 at the start). Uses SSE4.2 where the machine has it.
uint32_t Crc32c(absl::Span<const std::byte> bytes, uint32_t crc = 0);

// Of a run of bytes that begins with bytes of checksum `first` and ends with
// the `second_bytes` of checksum `second`: what Crc32c says of both together.
uint32_t Crc32cOfBoth(uint32_t first, uint32_t second, uint64_t second_bytes);

// The sum as tables and TensorFlow store it: of bytes that contain such sums,
// the sum is no worse than of others.
constexpr uint32_t MaskedCrc32c(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// The portable path, the twin the fast one is tested against.
uint32_t Crc32cPortable(absl::Span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace paramd

#endif  // PARAMD_BASE_CRC32C_H_
