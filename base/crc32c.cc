#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace paramd {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Tables for slicing by 8 (Kounavis and Berry, 2005).
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
    }
    tables[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (int t = 1; t < 8; ++t) {
      const uint32_t before = tables[t - 1][i];
      tables[t][i] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cSse42(
    absl::Span<const std::byte> bytes, uint32_t crc) {
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  uint64_t state = ~crc;
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    state = _mm_crc32_u64(state, word);
  }
  uint32_t tail = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++p) {
    tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*p));
  }
  return ~tail;
}
#endif

}  // namespace

uint32_t Crc32cPortable(absl::Span<const std::byte> bytes, uint32_t crc) {
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  crc = ~crc;
  for (; left >= 8; left -= 8, p += 8) {
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + 4, 4);
    low ^= crc;
    crc = kTables[7][low & 0xFF] ^ kTables[6][(low >> 8) & 0xFF] ^
          kTables[5][(low >> 16) & 0xFF] ^ kTables[4][low >> 24] ^
          kTables[3][high & 0xFF] ^ kTables[2][(high >> 8) & 0xFF] ^
          kTables[1][(high >> 16) & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; left > 0; --left, ++p) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint8_t>(*p)) & 0xFF];
  }
  return ~crc;
}

uint32_t Crc32c(absl::Span<const std::byte> bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  if (has_sse42) return Crc32cSse42(bytes, crc);
#endif
  return Crc32cPortable(bytes, crc);
}

}  // namespace paramd
