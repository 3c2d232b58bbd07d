#ifndef PARAMD_TENSOR_NUMBER_FORMAT_H_
#define PARAMD_TENSOR_NUMBER_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "base/random.h"
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

// Writes `count` numbers as bf16, each rounded up with the probability that its
// distance from the lower neighbour is of the distance between both, so that
// the mean of many is right ("stochastic rounding"; Gupta et al., "Deep
// learning with limited numerical precision", ICML 2015). What bf16 has is
// written as it is; what is finite stays so. Number i takes its chance from 16
// bits of `random` that belong to first + i.
void EncodeBf16ByChance(const float* numbers, size_t count,
                        const CounterRandom& random, uint64_t first,
                        std::byte* out);

// Whether none of `count` numbers in a format of two bytes is infinite or NaN.
bool AreFinite(NumberFormat format, const std::byte* bytes, size_t count);

// A buffer of float32 in that format: the same one, or a new one.
Buffer Encoded(Buffer numbers, NumberFormat format);
// The other way round.
Buffer Decoded(Buffer encoded, NumberFormat format);

}  // namespace paramd

#endif  // PARAMD_TENSOR_NUMBER_FORMAT_H_
