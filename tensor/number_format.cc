#include "tensor/number_format.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace paramd {
namespace {

constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7f800000;

#define PARAMD_INLINE inline __attribute__((always_inline))

// Without a branch, so that compilers make the loops below wide.

PARAMD_INLINE uint16_t ToBf16(float number) {
  const uint32_t bits = std::bit_cast<uint32_t>(number);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & ~kSign) > kInfinity ? quiet : rounded);
}

PARAMD_INLINE float FromBf16(uint16_t half) {
  return std::bit_cast<float>(uint32_t{half} << 16);
}

PARAMD_INLINE uint16_t ToFp16(float number) {
  const uint32_t bits = std::bit_cast<uint32_t>(number);
  const uint32_t sign = (bits & kSign) >> 16;
  const uint32_t magnitude = bits & ~kSign;
  // Normal halves: the exponent is another by 112, the fraction loses 13 bits.
  // Rounding may carry into the exponent, up to infinity.
  const uint32_t normal =
      (magnitude - (uint32_t{112} << 23) + 0xfff + ((magnitude >> 13) & 1)) >>
      13;
  // Below 2^-14: adding 0.5 leaves multiples of 2^-24, a subnormal's unit, in
  // the low bits, rounded by the addition itself.
  const float unit = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(unit) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t finite =
      magnitude < (uint32_t{113} << 23) ? subnormal : normal;
  // From 65,520 on, which rounds to 2^16.
  const uint32_t bounded = magnitude >= 0x477ff000 ? 0x7c00 : finite;
  const uint32_t half = magnitude > kInfinity ? 0x7e00 : bounded;
  return static_cast<uint16_t>(sign | half);
}

PARAMD_INLINE float FromFp16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + (uint32_t{112} << 23);
  // In units of 2^-24: exact.
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) *
                          std::bit_cast<float>(uint32_t{103} << 23);
  const uint32_t special = (magnitude << 13) | kInfinity;
  const uint32_t finite =
      magnitude < 0x400 ? std::bit_cast<uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00 ? special : finite));
}

template <uint16_t (*kTo)(float)>
PARAMD_INLINE void Encode(const float* numbers, size_t count, std::byte* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t half = kTo(numbers[i]);
    std::memcpy(out + 2 * i, &half, 2);
  }
}

template <float (*kFrom)(uint16_t)>
PARAMD_INLINE void Decode(const std::byte* bytes, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, bytes + 2 * i, 2);
    out[i] = kFrom(half);
  }
}

// Those with all bits of the exponent are not.
PARAMD_INLINE bool Finite(const std::byte* bytes, size_t count,
                          uint16_t exponent) {
  uint16_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, bytes + 2 * i, 2);
    found |= (half & exponent) == exponent ? 1 : 0;
  }
  return found == 0;
}

struct Codecs {
  void (*to_bf16)(const float* numbers, size_t count, std::byte* out);
  void (*from_bf16)(const std::byte* bytes, size_t count, float* out);
  void (*to_fp16)(const float* numbers, size_t count, std::byte* out);
  void (*from_fp16)(const std::byte* bytes, size_t count, float* out);
  bool (*finite)(const std::byte* bytes, size_t count, uint16_t exponent);
};

// The same loops for other instructions, so the same bits.
#define PARAMD_CODECS(NAME, ATTRIBUTES)                                        \
  struct NAME {                                                                \
    ATTRIBUTES static void ToBf(const float* __restrict numbers, size_t count, \
                                std::byte* __restrict out) {                   \
      Encode<&ToBf16>(numbers, count, out);                                    \
    }                                                                          \
    ATTRIBUTES static void FromBf(const std::byte* __restrict bytes,           \
                                  size_t count, float* __restrict out) {       \
      Decode<&FromBf16>(bytes, count, out);                                    \
    }                                                                          \
    ATTRIBUTES static void ToFp(const float* __restrict numbers, size_t count, \
                                std::byte* __restrict out) {                   \
      Encode<&ToFp16>(numbers, count, out);                                    \
    }                                                                          \
    ATTRIBUTES static void FromFp(const std::byte* __restrict bytes,           \
                                  size_t count, float* __restrict out) {       \
      Decode<&FromFp16>(bytes, count, out);                                    \
    }                                                                          \
    ATTRIBUTES static bool AllFinite(const std::byte* bytes, size_t count,     \
                                     uint16_t exponent) {                      \
      return Finite(bytes, count, exponent);                                   \
    }                                                                          \
    static constexpr Codecs kCodecs = {&ToBf, &FromBf, &ToFp, &FromFp,         \
                                       &AllFinite};                            \
  }

PARAMD_CODECS(Portable, );
#if defined(__x86_64__)
PARAMD_CODECS(Avx2, __attribute__((target("avx2"))));
PARAMD_CODECS(Avx512,
              __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))));
#endif

Codecs MachineCodecs() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    return Avx512::kCodecs;
  }
  if (__builtin_cpu_supports("avx2")) return Avx2::kCodecs;
#endif
  return Portable::kCodecs;
}

const Codecs& TheCodecs() {
  static const Codecs codecs = MachineCodecs();
  return codecs;
}

}  // namespace

void EncodeNumbers(NumberFormat format, const float* numbers, size_t count,
                   std::byte* out) {
  if (count == 0) return;  // What is empty may be nowhere.
  switch (format) {
    case NumberFormat::kFp32:
      std::memcpy(out, numbers, count * sizeof(float));
      return;
    case NumberFormat::kBf16:
      return TheCodecs().to_bf16(numbers, count, out);
    case NumberFormat::kFp16:
      return TheCodecs().to_fp16(numbers, count, out);
  }
}

void DecodeNumbers(NumberFormat format, const std::byte* bytes, size_t count,
                   float* out) {
  if (count == 0) return;  // What is empty may be nowhere.
  switch (format) {
    case NumberFormat::kFp32:
      std::memcpy(out, bytes, count * sizeof(float));
      return;
    case NumberFormat::kBf16:
      return TheCodecs().from_bf16(bytes, count, out);
    case NumberFormat::kFp16:
      return TheCodecs().from_fp16(bytes, count, out);
  }
}

void EncodeBf16ByChance(const float* numbers, size_t count,
                        const CounterRandom& random, uint64_t first,
                        std::byte* out) {
  constexpr uint64_t kInDraw = 4;  // Of 16 bits each.
  uint64_t drawn = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t place = first + i;
    if (i == 0 || place % kInDraw == 0) drawn = random.Bits(place / kInDraw);
    const auto chance =
        static_cast<uint16_t>(drawn >> (16 * (place % kInDraw)));
    const uint32_t bits = std::bit_cast<uint32_t>(numbers[i]);
    uint16_t half = static_cast<uint16_t>((bits + chance) >> 16);
    const bool is_finite = (bits & ~kSign) < kInfinity;
    if (!is_finite || (half & 0x7f80) == 0x7f80) {
      half = is_finite ? static_cast<uint16_t>(bits >> 16) : ToBf16(numbers[i]);
    }
    std::memcpy(out + 2 * i, &half, 2);
  }
}

bool AreFinite(NumberFormat format, const std::byte* bytes, size_t count) {
  const bool is_bf16 = format == NumberFormat::kBf16;
  CHECK(is_bf16 || format == NumberFormat::kFp16, "a format of two bytes");
  return TheCodecs().finite(bytes, count, is_bf16 ? 0x7f80 : 0x7c00);
}

Buffer Encoded(Buffer numbers, NumberFormat format) {
  if (format == NumberFormat::kFp32) return numbers;
  const size_t count = numbers.size() / sizeof(float);
  Buffer encoded = Buffer::Allocate(count * BytesOf(format));
  EncodeNumbers(format, reinterpret_cast<const float*>(numbers.bytes().data()),
                count, encoded.mutable_bytes().data());
  return encoded;
}

Buffer Decoded(Buffer encoded, NumberFormat format) {
  if (format == NumberFormat::kFp32) return encoded;
  const size_t count = encoded.size() / BytesOf(format);
  Buffer numbers = Buffer::Allocate(count * sizeof(float));
  DecodeNumbers(format, encoded.bytes().data(), count,
                reinterpret_cast<float*>(numbers.mutable_bytes().data()));
  return numbers;
}

}  // namespace paramd
