#include "tensor/number_format.h"

#include <bit>
#include <cstring>

namespace paramd {
namespace {

constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7f800000;

// The loops below have no branch in them, so that compilers make them wide.

uint16_t ToBf16(float number) {
  const uint32_t bits = std::bit_cast<uint32_t>(number);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & ~kSign) > kInfinity ? quiet : rounded);
}

float FromBf16(uint16_t half) {
  return std::bit_cast<float>(uint32_t{half} << 16);
}

uint16_t ToFp16(float number) {
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

float FromFp16(uint16_t half) {
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

}  // namespace

void EncodeNumbers(NumberFormat format, const float* numbers, size_t count,
                   std::byte* out) {
  switch (format) {
    case NumberFormat::kFp32:
      std::memcpy(out, numbers, count * sizeof(float));
      return;
    case NumberFormat::kBf16:
      for (size_t i = 0; i < count; ++i) {
        const uint16_t half = ToBf16(numbers[i]);
        std::memcpy(out + 2 * i, &half, 2);
      }
      return;
    case NumberFormat::kFp16:
      for (size_t i = 0; i < count; ++i) {
        const uint16_t half = ToFp16(numbers[i]);
        std::memcpy(out + 2 * i, &half, 2);
      }
      return;
  }
}

void DecodeNumbers(NumberFormat format, const std::byte* bytes, size_t count,
                   float* out) {
  switch (format) {
    case NumberFormat::kFp32:
      std::memcpy(out, bytes, count * sizeof(float));
      return;
    case NumberFormat::kBf16:
      for (size_t i = 0; i < count; ++i) {
        uint16_t half;
        std::memcpy(&half, bytes + 2 * i, 2);
        out[i] = FromBf16(half);
      }
      return;
    case NumberFormat::kFp16:
      for (size_t i = 0; i < count; ++i) {
        uint16_t half;
        std::memcpy(&half, bytes + 2 * i, 2);
        out[i] = FromFp16(half);
      }
      return;
  }
}

Buffer Encoded(Buffer numbers, NumberFormat format) {
  if (format == NumberFormat::kFp32) return numbers;
  const size_t count = numbers.size() / sizeof(float);
  Buffer encoded = Buffer::Allocate(count * BytesOf(format));
  EncodeNumbers(format, reinterpret_cast<const float*>(numbers.bytes().data()),
                count, encoded.mutable_bytes().data());
  return encoded;
}

}  // namespace paramd
