#ifndef PARAMD_COMPUTE_DEVICE_COMPUTE_FORMAT_H_
#define PARAMD_COMPUTE_DEVICE_COMPUTE_FORMAT_H_

#include <cstdint>

namespace paramd {

// What the operands of matrix products and convolutions are rounded to, to
// nearest, ties to even; they are added in float32.
enum class ComputeFormat : uint8_t {
  kFp32,  // As they are.
  kTf32,  // 8 bits of exponent, 10 of fraction.
  kBf16,  // 8 and 7.
  kFp16,  // 5 and 10: from 2^-24 to 65,504, then infinite.
};

constexpr const char* NameOf(ComputeFormat format) {
  switch (format) {
    case ComputeFormat::kFp32:
      return "fp32";
    case ComputeFormat::kTf32:
      return "tf32";
    case ComputeFormat::kBf16:
      return "bf16";
    case ComputeFormat::kFp16:
      return "fp16";
  }
  return "?";
}

// Whether a value of it is kept in two bytes.
constexpr bool IsHalf(ComputeFormat format) {
  return format == ComputeFormat::kBf16 || format == ComputeFormat::kFp16;
}

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_COMPUTE_FORMAT_H_
