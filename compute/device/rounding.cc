#include "compute/device/rounding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "tensor/number_format.h"

namespace paramd {
namespace {

void RoundToTf32(const float* numbers, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(numbers[i]);
    const uint32_t rounded = (bits + 0xfff + ((bits >> 13) & 1)) & ~0x1fffu;
    out[i] =
        numbers[i] != numbers[i] ? numbers[i] : std::bit_cast<float>(rounded);
  }
}

// There and back, in pieces that stay in the processor's nearest cache.
void RoundToHalf(NumberFormat format, const float* numbers, size_t count,
                 float* out) {
  constexpr size_t kPiece = 1024;
  std::array<std::byte, 2 * kPiece> halves;
  for (size_t i = 0; i < count; i += kPiece) {
    const size_t some = std::min(kPiece, count - i);
    EncodeNumbers(format, numbers + i, some, halves.data());
    DecodeNumbers(format, halves.data(), some, out + i);
  }
}

}  // namespace

void Round(ComputeFormat format, const float* numbers, size_t count,
           float* out) {
  switch (format) {
    case ComputeFormat::kFp32:
      if (out != numbers) std::memcpy(out, numbers, count * sizeof(float));
      return;
    case ComputeFormat::kTf32:
      return RoundToTf32(numbers, count, out);
    case ComputeFormat::kBf16:
      return RoundToHalf(NumberFormat::kBf16, numbers, count, out);
    case ComputeFormat::kFp16:
      return RoundToHalf(NumberFormat::kFp16, numbers, count, out);
  }
}

}  // namespace paramd
