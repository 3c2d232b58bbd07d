#ifndef PARAMD_TENSOR_NUMBER_FORMAT_H_
#define PARAMD_TENSOR_NUMBER_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "tensor/buffer.h"

namespace paramd {

// How a float32 is written in fewer bytes, little-endian. Rounded to nearest,
// ties to even, by integer and plain IEEE operations: the same bits on every
// machine. What is too large becomes infinite; NaN stays NaN; what is too small
// for kFp16 becomes one of its subnormal numbers, or zero.
enum class NumberFormat {
  kFp32,
  // The upper half of a float32: 8 bits of exponent, 7 of fraction.
  kBf16,
  // IEEE binary16: 5 bits of exponent, 10 of fraction; at most 65,504.
  kFp16,
};

constexpr size_t BytesOf(NumberFormat format) {
  return format == NumberFormat::kFp32 ? 4 : 2;
}

// Writes `count` numbers as count * BytesOf(format) bytes to any address.
void EncodeNumbers(NumberFormat format, const float* numbers, size_t count,
                   std::byte* out);
// Reads them from any address. Exact: each has a float32 of its own.
void DecodeNumbers(NumberFormat format, const std::byte* bytes, size_t count,
                   float* out);

// Whether none of `count` numbers in a format of two bytes is infinite or NaN.
bool AreFinite(NumberFormat format, const std::byte* bytes, size_t count);

// A buffer of float32 in that format: the same one, or a new one.
Buffer Encoded(Buffer numbers, NumberFormat format);

}  // namespace paramd

#endif  // PARAMD_TENSOR_NUMBER_FORMAT_H_
