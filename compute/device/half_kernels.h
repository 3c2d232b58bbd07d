#ifndef PARAMD_COMPUTE_DEVICE_HALF_KERNELS_H_
#define PARAMD_COMPUTE_DEVICE_HALF_KERNELS_H_

// Numbers of two bytes, as kernels read and write them, and kernels about them:
// see kernels.h.
#include <string.h>

#include <cstdint>

#include "compute/device/kernels.h"
#include "compute/device/shapes.h"
#include "tensor/tensor.h"

namespace paramd {
namespace kernels {

// The same bits as tensor/number_format.h gives.

PARAMD_KERNEL inline uint32_t BitsOf(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof(bits));
  return bits;
}

PARAMD_KERNEL inline float FloatOf(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

PARAMD_KERNEL inline uint16_t ToBf16(float number) {
  const uint32_t bits = BitsOf(number);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>(number != number ? bits >> 16 | 0x40
                                                : rounded >> 16);
}

PARAMD_KERNEL inline uint16_t ToFp16(float number) {
  const uint32_t bits = BitsOf(number);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7e00;  // NaN.
  } else if (magnitude >= 0x477ff000) {
    half = 0x7c00;  // From 65,520 on, which rounds to 2^16.
  } else if (magnitude >= uint32_t{113} << 23) {
    // The exponent is another by 112; rounding may carry into it.
    half =
        (magnitude - (uint32_t{112} << 23) + 0xfff + (magnitude >> 13 & 1)) >>
        13;
  } else {
    // Below 2^-14: the sum's low bits count 2^-24, rounded by the addition.
    half = BitsOf(fabsf(number) + 0.5f) - BitsOf(0.5f);
  }
  return static_cast<uint16_t>(sign | half);
}

PARAMD_KERNEL inline float FromFp16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7fffu;
  // The exponent is another by 112: exact, of the smallest numbers too. Without
  // a branch, which would wait for memory.
  const uint32_t finite = BitsOf(FloatOf(magnitude << 13) * 0x1p112f);
  return FloatOf(sign |
                 (magnitude < 0x7c00 ? finite : magnitude << 13 | 0x7f800000));
}

// Kernels compute with them as with floats.
struct Bf16 {
  uint16_t bits;
  PARAMD_KERNEL operator float() const {  // NOLINT: exact.
    return FloatOf(uint32_t{bits} << 16);
  }
  PARAMD_KERNEL Bf16& operator=(float number) {
    bits = ToBf16(number);
    return *this;
  }
};
struct Fp16 {
  uint16_t bits;
  PARAMD_KERNEL operator float() const {  // NOLINT: exact.
    return FromFp16(bits);
  }
  PARAMD_KERNEL Fp16& operator=(float number) {
    bits = ToFp16(number);
    return *this;
  }
};

// Element i of one in another format.
template <class From, class To>
struct Convert {
  const From* from;
  To* to;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    to[i] = static_cast<float>(from[i]);
  }
};

// The rows of one operand of a grid of products, where they lie, counted over
// all matrices in order.
struct OperandRows {
  uint64_t inner;
  uint64_t rows;  // Of a matrix.
  uint64_t columns;
  Product::Strides strides;
  uint64_t count;  // Of all matrices.

  static OperandRows Left(const Product& p) {
    const uint64_t rows = p.transpose_a ? p.k : p.m;
    return {p.inner,
            rows,
            p.transpose_a ? p.m : p.k,
            {p.a_row(), p.a.outer, p.a.inner},
            p.outer * p.inner * rows};
  }
  static OperandRows Right(const Product& p) {
    const uint64_t rows = p.transpose_b ? p.n : p.k;
    return {p.inner,
            rows,
            p.transpose_b ? p.k : p.n,
            {p.b_row(), p.b.outer, p.b.inner},
            p.outer * p.inner * rows};
  }

  uint64_t size() const { return count * columns; }
  // One row after the other.
  Product::Strides packed() const {
    return {columns, inner * rows * columns, rows * columns};
  }
  PARAMD_KERNEL uint64_t begin(uint64_t row) const {
    const uint64_t matrix = row / rows;
    return matrix / inner * strides.outer + matrix % inner * strides.inner +
           row % rows * strides.row;
  }
};

// One row, by lanes: packed, in two bytes.
template <class T>
struct HalveRows {
  OperandRows rows;
  const float* in;
  T* out;
  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const float* const from = in + rows.begin(row);
    T* const to = out + row * rows.columns;
    for (uint64_t c = lanes.lane(); c < rows.columns; c += lanes.count()) {
      to[c] = from[c];
    }
  }
};

// Element i. Whoever writes the flag writes the same.
struct Unscale {
  float factor;
  float* values;
  float* overflow;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    values[i] *= factor;
    if (values[i] - values[i] != 0) *overflow = 1;  // Infinite, or NaN.
  }
};

}  // namespace kernels

template <>
struct DTypeOf<kernels::Bf16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<kernels::Fp16> {
  static constexpr DType value = DType::kFloat16;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_HALF_KERNELS_H_
