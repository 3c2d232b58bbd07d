#ifndef PARAMD_COMPUTE_DEVICE_KERNELS_H_
#define PARAMD_COMPUTE_DEVICE_KERNELS_H_

// What GPU kernels compute, each as the function of one element or of one row.
// The same text is compiled for the GPU, where a thread has an element and a
// warp a row, and for the host, where a loop has them all and tests compare it
// with ReferenceDevice. No kernel adds in an order that a race decides: the
// same input gives the same bits.
//
// A row's function is called by several lanes at once, each with its own
// `Lanes`: lane k of n does elements k, k + n, ...; Sum, of floats or doubles,
// and Max, of floats, give every lane the result over all of them.
//
// T is what layers hand on: float, or one of half_kernels.h, which is read as a
// float and rounded when it is written. All computing is in float, but for what
// losses add.
#include <math.h>

#include <cstdint>

#include "compute/device/shapes.h"

#ifdef __CUDACC__
#define PARAMD_KERNEL __host__ __device__
#else
#define PARAMD_KERNEL
#endif

namespace paramd {
namespace kernels {

PARAMD_KERNEL inline float LargerOrNan(float a, float b) {
  return a > b || a != a ? a : b;
}

// Functions of one element `i`.

template <class T>
struct Fill {
  float value;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t i) const { out[i] = value; }
};

template <class T>
struct AddRow {
  const T* in;
  const float* row;
  T* out;
  uint64_t columns;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    out[i] = in[i] + row[i % columns];
  }
};

template <class T>
struct ScaleRows {
  const T* in;
  const T* factors;
  T* out;
  uint64_t columns;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    out[i] = factors[i / columns] * in[i];
  }
};

template <class T>
struct Add {
  const T* a;
  float factor;
  const T* b;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    out[i] = a[i] + factor * b[i];
  }
};

template <class T>
struct Gather {
  const float* table;
  const int32_t* indices;
  T* rows;
  uint64_t columns;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const int32_t index = indices[i / columns];
    rows[i] = index < 0
                  ? 0.0f
                  : table[static_cast<uint64_t>(index) * columns + i % columns];
  }
};

template <class T>
struct CopyColumns {
  const T* from;  // At its first column that is copied.
  uint64_t from_columns;
  T* to;  // Likewise.
  uint64_t to_columns;
  uint64_t columns;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    to[i / columns * to_columns + i % columns] =
        from[i / columns * from_columns + i % columns];
  }
};

// Of fields i and j < i.
PARAMD_KERNEL inline uint64_t PairOf(uint64_t i, uint64_t j) {
  return i * (i - 1) / 2 + j;
}

// Element (example, pair).
template <class T>
struct DotPairs {
  const T* in;
  T* out;
  uint64_t fields;
  uint64_t width;
  PARAMD_KERNEL void operator()(uint64_t element) const {
    const uint64_t pairs = PairOf(fields, 0);
    const uint64_t pair = element % pairs;
    uint64_t i = 1;
    while (PairOf(i + 1, 0) <= pair) ++i;
    const T* const x = in + element / pairs * fields * width;
    const T* const a = x + i * width;
    const T* const b = x + (pair - PairOf(i, 0)) * width;
    float sum = 0;
    for (uint64_t w = 0; w < width; ++w) sum += a[w] * b[w];
    out[element] = sum;
  }
};

// Element (example, field, value).
template <class T>
struct DotPairsBackward {
  const T* in;
  const T* out_gradient;
  T* in_gradient;
  uint64_t fields;
  uint64_t width;
  PARAMD_KERNEL void operator()(uint64_t element) const {
    const uint64_t example = element / (fields * width);
    const uint64_t field = element / width % fields;
    const T* const x = in + example * fields * width + element % width;
    const T* const dy = out_gradient + example * PairOf(fields, 0);
    float sum = 0;
    for (uint64_t other = 0; other < fields; ++other) {
      if (other == field) continue;
      const uint64_t pair =
          other < field ? PairOf(field, other) : PairOf(other, field);
      sum += dy[pair] * x[other * width];
    }
    in_gradient[element] = sum;
  }
};

template <class T>
PARAMD_KERNEL inline bool HasValue(const T* x, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    if (x[i] != 0) return true;
  }
  return false;
}

// Element (example, value).
template <class T>
struct PoolBag {
  Bag kind;
  uint64_t places;
  uint64_t width;
  const T* in;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t element) const {
    const T* const x = in + element / width * places * width;
    const uint64_t value = element % width;
    float result = 0;
    float count = 0;
    for (uint64_t p = 0; p < places; ++p) {
      if (!HasValue(x + p * width, width)) continue;
      const float next = x[p * width + value];
      if (kind != Bag::kMax) {
        result += next;
      } else if (count == 0 || !(next <= result)) {
        result = next;
      }
      ++count;
    }
    if (kind == Bag::kMean && count > 0) result /= count;
    if (kind == Bag::kSqrtN && count > 0) result /= sqrtf(count);
    out[element] = result;
  }
};

template <class T>
struct PoolBagBackward {
  Bag kind;
  uint64_t places;
  uint64_t width;
  const T* in;
  const T* out;
  const T* out_gradient;
  T* in_gradient;
  PARAMD_KERNEL void operator()(uint64_t element) const {
    const uint64_t first = element / width * places * width;
    const uint64_t value = element % width;
    float count = 0;
    if (kind == Bag::kMean || kind == Bag::kSqrtN) {
      for (uint64_t p = 0; p < places; ++p) {
        if (HasValue(in + first + p * width, width)) ++count;
      }
    }
    const float divisor = kind == Bag::kMean    ? count
                          : kind == Bag::kSqrtN ? sqrtf(count)
                                                : 1.0f;
    bool found = false;  // Of equal maxima, the first.
    for (uint64_t p = 0; p < places; ++p) {
      const uint64_t at = first + p * width + value;
      bool takes = kind == Bag::kSum || HasValue(in + first + p * width, width);
      if (kind == Bag::kMax) {
        takes = takes && !found && in[at] == out[element];
        found = found || takes;
      }
      in_gradient[at] = takes ? out_gradient[element] / divisor : 0.0f;
    }
  }
};

constexpr float kRootOfHalf = 0.70710678118654752f;
constexpr float kOneOverRootOfTwoPi = 0.39894228040143268f;

template <class T>
struct Apply {
  Elementwise function;
  const T* in;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const float x = in[i];
    switch (function) {
      case Elementwise::kRelu:
        out[i] = x < 0 ? 0.0f : x;
        return;
      case Elementwise::kGelu:
        out[i] = x * 0.5f * (1 + erff(x * kRootOfHalf));
        return;
      case Elementwise::kTanh:
        out[i] = tanhf(x);
        return;
      case Elementwise::kSigmoid:
        out[i] = 1 / (1 + expf(-x));
        return;
    }
  }
};

template <class T>
struct ApplyBackward {
  Elementwise function;
  const T* in;
  const T* out;
  const T* out_gradient;
  T* in_gradient;

  PARAMD_KERNEL float Derivative(float x, float y) const {
    switch (function) {
      case Elementwise::kRelu:
        return y == 0 ? 0.0f : 1.0f;
      case Elementwise::kGelu:
        return 0.5f * (1 + erff(x * kRootOfHalf)) +
               x * expf(-x * x / 2) * kOneOverRootOfTwoPi;
      case Elementwise::kTanh:
        return 1 - y * y;
      case Elementwise::kSigmoid:
        return y * (1 - y);
    }
    return 0;
  }
  PARAMD_KERNEL void operator()(uint64_t i) const {
    in_gradient[i] = out_gradient[i] * Derivative(in[i], out[i]);
  }
};

// See Drops. Philox4x32-10, as CounterRandom draws.
template <class T>
struct Draw {
  Drops drops;
  float kept;
  uint64_t limit;  // Of 32 bits that are 0.
  T* factors;

  PARAMD_KERNEL static uint64_t Bits(uint64_t key, uint64_t counter) {
    uint32_t c0 = static_cast<uint32_t>(counter);
    uint32_t c1 = static_cast<uint32_t>(counter >> 32);
    uint32_t c2 = 0;
    uint32_t c3 = 0;
    uint32_t k0 = static_cast<uint32_t>(key);
    uint32_t k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53} * c0;
      const uint64_t b = uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(b);
      c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(a);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return uint64_t{c1} << 32 | c0;
  }
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const uint64_t example = i / drops.width;
    const uint64_t j = i % drops.width;
    const uint64_t offset = drops.offsets == nullptr ? drops.first + example
                                                     : drops.offsets[example];
    const uint64_t bits =
        Bits(drops.key, offset * ((drops.width + 1) / 2) + j / 2);
    const uint64_t half = j % 2 == 0 ? bits & 0xffffffff : bits >> 32;
    factors[i] = half < limit ? 0.0f : kept;
  }
};

// Sums over rows, column by column, in two steps: element (part, column) sums
// `length` rows, and Parts those sums. What is summed is a function of (element
// of the matrix, column).

template <class Value>
struct ColumnParts {
  Value value;
  uint64_t rows;
  uint64_t columns;
  uint64_t length;
  float* parts;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const uint64_t column = i % columns;
    const uint64_t begin = i / columns * length;
    const uint64_t end = begin + length < rows ? begin + length : rows;
    float sum = 0;
    for (uint64_t row = begin; row < end; ++row) {
      sum += value(row * columns + column, column);
    }
    parts[i] = sum;
  }
};

template <class T>
struct SumOfParts {
  const float* parts;
  uint64_t count;
  uint64_t columns;
  float divisor;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t column) const {
    float sum = 0;
    for (uint64_t part = 0; part < count; ++part) {
      sum += parts[part * columns + column];
    }
    out[column] = sum / divisor;
  }
};

template <class T>
struct ValueItself {
  const T* in;
  PARAMD_KERNEL float operator()(uint64_t i, uint64_t) const { return in[i]; }
};

template <class T>
struct SquaredDeviation {
  const T* in;
  const float* mean;
  PARAMD_KERNEL float operator()(uint64_t i, uint64_t column) const {
    const float deviation = in[i] - mean[column];
    return deviation * deviation;
  }
};

// Of a normalisation whose statistics are of columns, or of rows.
template <class T>
struct Normalised {
  const T* in;
  const float* mean;
  const float* variance;
  float epsilon;
  bool by_rows;
  uint64_t columns;
  PARAMD_KERNEL float operator()(uint64_t i) const {
    const uint64_t line = by_rows ? i / columns : i % columns;
    return (in[i] - mean[line]) / sqrtf(variance[line] + epsilon);
  }
};

template <class T>
struct TimesNormalised {
  const T* gradient;
  Normalised<T> normalised;
  PARAMD_KERNEL float operator()(uint64_t i, uint64_t) const {
    return gradient[i] * normalised(i);
  }
};

template <class T>
struct NormaliseColumns {
  Normalised<T> normalised;
  const float* scale;
  const float* shift;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const uint64_t column = i % normalised.columns;
    out[i] = normalised(i) * scale[column] + shift[column];
  }
};

// The gradient by the input, where those by scale and shift, its sums over the
// column, are there: (dy - shift / rows - n * scale / rows) * gamma /
// deviation.
template <class T>
struct NormaliseColumnsBackward {
  Normalised<T> normalised;
  const float* gamma;
  const T* out_gradient;
  const float* scale_gradient;
  const float* shift_gradient;
  float rows;
  T* in_gradient;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const uint64_t column = i % normalised.columns;
    const float deviation =
        sqrtf(normalised.variance[column] + normalised.epsilon);
    in_gradient[i] = (out_gradient[i] - shift_gradient[column] / rows -
                      normalised(i) * scale_gradient[column] / rows) *
                     gamma[column] / deviation;
  }
};

// Functions of one row, by lanes.

template <class T>
struct LayerNorm {
  const T* in;
  const float* scale;
  const float* shift;
  float epsilon;
  uint64_t columns;
  float* mean;
  float* variance;
  T* out;
  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const T* x = in + row * columns;
    float sum = 0;
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      sum += x[c];
    }
    const float m = lanes.Sum(sum) / static_cast<float>(columns);
    float squares = 0;
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      squares += (x[c] - m) * (x[c] - m);
    }
    const float v = lanes.Sum(squares) / static_cast<float>(columns);
    const float deviation = sqrtf(v + epsilon);
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      out[row * columns + c] = (x[c] - m) / deviation * scale[c] + shift[c];
    }
    if (lanes.lane() != 0) return;
    mean[row] = m;
    variance[row] = v;
  }
};

template <class T>
struct LayerNormBackward {
  Normalised<T> normalised;
  const float* scale;
  const T* out_gradient;
  T* in_gradient;
  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const uint64_t columns = normalised.columns;
    const uint64_t first = row * columns;
    float sum = 0;
    float product = 0;
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      const float g = out_gradient[first + c] * scale[c];
      sum += g;
      product += g * normalised(first + c);
    }
    const float count = static_cast<float>(columns);
    sum = lanes.Sum(sum) / count;
    product = lanes.Sum(product) / count;
    const float deviation =
        sqrtf(normalised.variance[row] + normalised.epsilon);
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      const float g = out_gradient[first + c] * scale[c];
      in_gradient[first + c] =
          (g - sum - normalised(first + c) * product) / deviation;
    }
  }
};

template <class T>
struct Softmax {
  bool causal;
  const T* in;
  T* out;
  uint64_t columns;
  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const T* x = in + row * columns;
    T* y = out + row * columns;
    const uint64_t kept = causal ? row % columns + 1 : columns;
    float largest = -INFINITY;
    for (uint64_t c = lanes.lane(); c < kept; c += lanes.count()) {
      largest = LargerOrNan(x[c], largest);
    }
    largest = lanes.Max(largest);
    float sum = 0;
    for (uint64_t c = lanes.lane(); c < kept; c += lanes.count()) {
      sum += expf(x[c] - largest);
    }
    sum = lanes.Sum(sum);
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      y[c] = c < kept ? expf(x[c] - largest) / sum : 0.0f;
    }
  }
};

template <class T>
struct SoftmaxBackward {
  const T* out;
  const T* out_gradient;
  T* in_gradient;
  uint64_t columns;
  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const T* y = out + row * columns;
    const T* dy = out_gradient + row * columns;
    float sum = 0;
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      sum += y[c] * dy[c];
    }
    sum = lanes.Sum(sum);
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      in_gradient[row * columns + c] = y[c] * (dy[c] - sum);
    }
  }
};

struct Count {
  int32_t* numbers;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    numbers[i] = static_cast<int32_t>(i);
  }
};

// Of indices that are sorted, with the place in `rows` of each beside it: the
// first of equal ones sums them all, in order, to the table. So each row of the
// table has one writer.
template <class T>
struct SumSortedRows {
  const int32_t* sorted;
  const int32_t* places;
  const T* rows;
  float* table;
  uint64_t count;
  uint64_t columns;
  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t i, const Lanes& lanes) const {
    const int32_t index = sorted[i];
    if (index < 0 || (i > 0 && sorted[i - 1] == index)) return;
    uint64_t end = i + 1;
    while (end < count && sorted[end] == index) ++end;
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      const auto value = [&](uint64_t k) -> float {
        return rows[static_cast<uint64_t>(places[k]) * columns + c];
      };
      float sum = 0;
      uint64_t k = i;
      // Some are read before the first is added: else each would wait for
      // memory alone.
      constexpr uint64_t kAhead = 8;
      for (; k + kAhead <= end; k += kAhead) {
        float ahead[kAhead];
        for (uint64_t a = 0; a < kAhead; ++a) ahead[a] = value(k + a);
        for (uint64_t a = 0; a < kAhead; ++a) sum += ahead[a];
      }
      for (; k < end; ++k) sum += value(k);
      table[static_cast<uint64_t>(index) * columns + c] = sum;
    }
  }
};

}  // namespace kernels
}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_KERNELS_H_
