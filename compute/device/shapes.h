#ifndef PARAMD_COMPUTE_DEVICE_SHAPES_H_
#define PARAMD_COMPUTE_DEVICE_SHAPES_H_

#include <cstdint>
#include <limits>

#include "tensor/tensor.h"

namespace paramd {

// c[m, n] = scale * op(a) op(b), where the sum runs over k and op may
// transpose: a is [m, k], or [k, m] if transposed; b is [k, n] or [n, k]. A
// grid of outer x inner such products, each operand at its own distance from
// the last.
struct Product {
  // Where the matrices of an operand lie, in elements. 0 for `row`: without
  // gaps.
  struct Strides {
    uint64_t row = 0;
    uint64_t outer = 0;
    uint64_t inner = 0;
  };

  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  double scale = 1;
  uint64_t outer = 1;
  uint64_t inner = 1;
  Strides a = {};
  Strides b = {};
  Strides c = {};

  uint64_t a_row() const { return a.row != 0 ? a.row : transpose_a ? m : k; }
  uint64_t b_row() const { return b.row != 0 ? b.row : transpose_b ? k : n; }
  uint64_t c_row() const { return c.row != 0 ? c.row : n; }
};

// A window that slides over images [batch, height, width, channels]. Output
// (y, x) sees rows y * stride_height - top to that + kernel_height, where they
// are inside of the image; columns alike.
struct Window {
  uint64_t batch = 0;
  uint64_t height = 0;
  uint64_t width = 0;
  uint64_t channels = 0;
  uint64_t out_height = 0;
  uint64_t out_width = 0;
  uint64_t kernel_height = 1;
  uint64_t kernel_width = 1;
  uint64_t stride_height = 1;
  uint64_t stride_width = 1;
  uint64_t top = 0;
  uint64_t left = 0;
};

struct Convolution {
  Window window;
  uint64_t outputs = 0;  // Channels of the output.
  // Output o sees the channels of its group alone; both are multiples of it.
  uint64_t groups = 1;

  uint64_t group_inputs() const { return window.channels / groups; }
  uint64_t group_outputs() const { return outputs / groups; }
};

struct Pooling {
  enum class Kind : uint8_t { kMax, kAverage };
  // A window has at most so many values: a place is a byte.
  static constexpr uint64_t kMaxWindow = 256;

  Kind kind = Kind::kMax;
  Window window;
};

// What is made of the places whose values are not all zero.
enum class Bag : uint8_t {
  kSum,
  kMean,
  kSqrtN,  // The sum divided by the square root of their number.
  kMax,
};

// What a normalisation multiplies and adds, one value per column.
struct Norm {
  double epsilon = 1e-5;
  ConstTensor scale = {};
  ConstTensor shift = {};
};

// What its backward pass gives. Null data of `input`: nobody wants it.
struct NormGradients {
  Tensor scale;
  Tensor shift;
  Tensor input;
};

// Factors that leave out: element j of example i is 0 by the probability
// `rate`, and else 1 / (1 - rate). Two elements at a time are 64 bits of
// CounterRandom, whose counter is offset(i) * ceil(width / 2) + j / 2.
struct Drops {
  uint64_t key = 0;
  double rate = 0;
  uint64_t width = 0;
  // offset(i) is first + i, or if this is not null offsets[i]: memory of the
  // device.
  uint64_t first = 0;
  const uint64_t* offsets = nullptr;
};

// A loss of a row of outputs z, beside its label l or its numbers y. With n
// columns and p[j] = exp(z[j]) / sum_k exp(z[k]):
//   kSoftmaxCrossEntropy  -sum_j q[j] log p[j], where q is 1 - smoothing at l,
//                         and smoothing / n each
//   kDivergence           sum_j y[j] log(y[j] / p[j]), of outputs z divided by
//                         the temperature
//   kBinaryCrossEntropy   sum_j log(1 + exp(z[j])) - y[j] z[j]
//   kSquaredError         sum_j (z[j] - y[j])^2
//   kInBatchSoftmax       -log p[i] of row i, where there are as many columns
//                         as rows; p leaves out the columns of other rows with
//                         the same item, and of rows whose factor is 0
struct RowLoss {
  enum class Kind : uint8_t {
    kSoftmaxCrossEntropy,
    kDivergence,
    kBinaryCrossEntropy,
    kSquaredError,
    kInBatchSoftmax,
  };
  // What is said of a row, in this order.
  enum Number : uint8_t {
    kLoss,
    kPlainLoss,  // Without smoothing.
    // Of softmax cross entropy, how many outputs are above the label's (of
    // equal ones the first is), in a batch how many columns that are there are
    // above the row's own; of binary cross entropy, how many are on the side of
    // 0 where their y is of 1/2; else 0.
    kCount,
    kNumbers,  // How many there are.
  };

  Kind kind = Kind::kSoftmaxCrossEntropy;
  double smoothing = 0;
  // Rows of this label are left out: their numbers and derivatives are 0. None
  // are, if it is no int32.
  int64_t ignored = std::numeric_limits<int64_t>::min();
  double temperature = 1;  // Above 0.
};

enum class Elementwise : uint8_t {
  kRelu,  // max(x, 0), NaN stays NaN; the derivative at 0 is 0.
  kGelu,  // x (1 + erf(x / sqrt(2))) / 2
  kTanh,
  kSigmoid,
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_SHAPES_H_
