#include "base/random.h"

#include <array>

namespace paramd {
namespace {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace

uint64_t StableHash(absl::string_view text, uint64_t seed) {
  uint64_t hash = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15);
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

uint64_t CounterRandom::Bits(uint64_t counter) const {
  const auto out = Philox4x32(
      {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0,
       0},
      {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  return uint64_t{out[1]} << 32 | out[0];
}

float CounterRandom::Uniform(uint64_t counter) const {
  return static_cast<float>(Bits(counter) >> 40) * 0x1p-24f;
}

uint64_t CounterRandom::Below(uint64_t bound, uint64_t counter) const {
  return static_cast<uint64_t>(
      (static_cast<unsigned __int128>(Bits(counter)) * bound) >> 64);
}

}  // namespace paramd
