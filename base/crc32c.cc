#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace paramd {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Tables for slicing by 8 (Kounavis and Berry, 2005).
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
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

// The instruction takes a word each cycle, but one that needs its result waits
// for three: so three parts of a long run at once. Each sum is a variable of
// its own: an array of three is kept in memory, and that is no faster than one
// part (6 GB/s; these 15 to 27).
constexpr size_t kLong = size_t{256} << 10;

__attribute__((target("sse4.2"))) uint32_t Crc32cOfThirds(
    absl::Span<const std::byte> bytes, uint32_t crc) {
  const size_t part = bytes.size() / 3 / 8 * 8;
  uint64_t first = ~crc;
  uint64_t second = 0xFFFFFFFF;
  uint64_t third = 0xFFFFFFFF;
  const std::byte* p = bytes.data();
  for (const std::byte* const end = p + part; p < end; p += 8) {
    uint64_t word, word_of_second, word_of_third;
    std::memcpy(&word, p, 8);
    std::memcpy(&word_of_second, p + part, 8);
    std::memcpy(&word_of_third, p + 2 * part, 8);
    first = _mm_crc32_u64(first, word);
    second = _mm_crc32_u64(second, word_of_second);
    third = _mm_crc32_u64(third, word_of_third);
  }
  uint32_t sum = ~static_cast<uint32_t>(first);
  for (const uint64_t next : {second, third}) {
    sum = Crc32cOfBoth(sum, ~static_cast<uint32_t>(next), part);
  }
  return Crc32cSse42(bytes.subspan(3 * part), sum);
}
#endif

// Product of two polynomials modulo that of the checksum; the highest bit is
// the coefficient of x^0.
uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; a != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    a &= ~bit;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

}  // namespace

// After each byte the first checksum is multiplied by x^8.
uint32_t Crc32cOfBoth(uint32_t first, uint32_t second, uint64_t second_bytes) {
  uint32_t factor = uint32_t{1} << 31;
  uint32_t power = uint32_t{1} << 23;
  for (uint64_t left = second_bytes; left > 0; left >>= 1) {
    if ((left & 1) != 0) factor = Multiply(power, factor);
    power = Multiply(power, power);
  }
  return Multiply(factor, first) ^ second;
}

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
  if (has_sse42) {
    return bytes.size() < kLong ? Crc32cSse42(bytes, crc)
                                : Crc32cOfThirds(bytes, crc);
  }
#endif
  return Crc32cPortable(bytes, crc);
}

}  // namespace paramd
