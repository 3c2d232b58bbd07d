#ifndef PARAMD_COMPUTE_DEVICE_LOSS_KERNELS_H_
#define PARAMD_COMPUTE_DEVICE_LOSS_KERNELS_H_

// Losses of rows, and their derivatives, as functions of one row by lanes: see
// kernels.h and RowLoss. Sums of losses are doubles, of which one more counts
// for nothing beside an exponential.
#include <math.h>

#include <cstdint>

#include "compute/device/kernels.h"
#include "compute/device/shapes.h"

namespace paramd {
namespace kernels {

// What all of them have. Null `gradient`: nobody wants it.
template <class T>
struct LossRows {
  RowLoss loss;
  uint64_t columns;
  const T* outputs;
  const double* factors;
  T* gradient;
  double* numbers;

  PARAMD_KERNEL void Say(uint64_t row, double loss_of_row, double plain,
                         double count) const {
    double* const to = numbers + row * RowLoss::kNumbers;
    to[RowLoss::kLoss] = loss_of_row;
    to[RowLoss::kPlainLoss] = plain;
    to[RowLoss::kCount] = count;
  }
};

// The sum of exp(z - largest) over a row, in one pass: what was added is
// multiplied where a larger one comes.
class SumOfExponentials {
 public:
  PARAMD_KERNEL void Add(float z) {
    if (z > largest_) {
      sum_ = sum_ * expf(largest_ - z) + 1;
      largest_ = z;
    } else {
      sum_ += expf(z - largest_) + (z - z);  // NaN of minus infinity, too.
    }
  }
  // Those of all lanes.
  template <class Lanes>
  PARAMD_KERNEL void Join(const Lanes& lanes) {
    const float own = largest_;
    largest_ = lanes.Max(own);
    sum_ = lanes.Sum(sum_ * expf(own - largest_));
  }
  PARAMD_KERNEL float largest() const { return largest_; }
  PARAMD_KERNEL double log_sum() const { return log(double{sum_}); }
  // The softmax at z.
  PARAMD_KERNEL float ShareOf(float z) const {
    return expf(z - largest_) / sum_;
  }

 private:
  float largest_ = -INFINITY;
  float sum_ = 0;
};

// Calls `use` with each place of a lane and its value, in order. Some are read
// before the first is used: else each would wait for memory alone.
template <class T, class Lanes, class Use>
PARAMD_KERNEL void ForEachPlace(const T* values, uint64_t count,
                                const Lanes& lanes, const Use& use) {
  constexpr uint64_t kAhead = 8;
  const uint64_t stride = lanes.count();
  uint64_t c = lanes.lane();
  for (; c + (kAhead - 1) * stride < count; c += kAhead * stride) {
    float ahead[kAhead];
    for (uint64_t i = 0; i < kAhead; ++i) ahead[i] = values[c + i * stride];
    for (uint64_t i = 0; i < kAhead; ++i) use(c + i * stride, ahead[i]);
  }
  for (; c < count; c += stride) use(c, static_cast<float>(values[c]));
}

template <class T>
struct SoftmaxCrossEntropy {
  LossRows<T> rows;
  const int32_t* labels;

  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const uint64_t columns = rows.columns;
    T* const out =
        rows.gradient == nullptr ? nullptr : rows.gradient + row * columns;
    if (labels[row] == rows.loss.ignored) return LeaveOut(row, out, lanes);
    const T* const z = rows.outputs + row * columns;
    const uint64_t label = static_cast<uint64_t>(labels[row]);
    const float of_label = z[label];
    const double share = rows.loss.smoothing / static_cast<double>(columns);
    SumOfExponentials exponentials;
    double above_label = 0;
    uint64_t count = 0;
    ForEachPlace(z, columns, lanes, [&](uint64_t c, float x) {
      exponentials.Add(x);
      if (share > 0) above_label += double{x} - double{of_label};
      count += x > of_label || (c < label && x == of_label) ? 1 : 0;
    });
    exponentials.Join(lanes);
    above_label = lanes.Sum(above_label);
    const double above = lanes.Sum(static_cast<double>(count));
    if (lanes.lane() == 0) {
      const double plain = exponentials.log_sum() +
                           (double{exponentials.largest()} - double{of_label});
      rows.Say(row, plain - share * above_label, plain, above);
    }
    if (out == nullptr) return;
    const float factor = static_cast<float>(rows.factors[row]);
    const float others = static_cast<float>(share);
    const float hit = static_cast<float>(1 - rows.loss.smoothing);
    ForEachPlace(z, columns, lanes, [&](uint64_t c, float x) {
      const float difference = exponentials.ShareOf(x) - others;
      out[c] = (c == label ? difference - hit : difference) * factor;
    });
  }

  template <class Lanes>
  PARAMD_KERNEL void LeaveOut(uint64_t row, T* out, const Lanes& lanes) const {
    if (lanes.lane() == 0) rows.Say(row, 0, 0, 0);
    if (out == nullptr) return;
    for (uint64_t c = lanes.lane(); c < rows.columns; c += lanes.count()) {
      out[c] = 0.0f;
    }
  }
};

template <class T>
struct Divergence {
  LossRows<T> rows;
  const float* target;

  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const uint64_t columns = rows.columns;
    const T* const z = rows.outputs + row * columns;
    const float* const y = target + row * columns;
    const float temperature = static_cast<float>(rows.loss.temperature);
    SumOfExponentials exponentials;
    double mass = 0;
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      exponentials.Add(z[c] / temperature);
      mass += double{y[c]};
    }
    exponentials.Join(lanes);
    mass = lanes.Sum(mass);
    const double log_sum = exponentials.log_sum();
    const double largest = double{exponentials.largest()};
    double total = 0;
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      const float x = z[c] / temperature;
      // 0 log 0 is 0, but a broken output shows all the same.
      const float log_y = y[c] > 0 ? logf(y[c]) : 0.0f;
      total += double{y[c]} * (double{log_y} - (double{x} - largest - log_sum));
    }
    total = lanes.Sum(total);
    if (lanes.lane() == 0) rows.Say(row, total, total, 0);
    if (rows.gradient == nullptr) return;
    T* const out = rows.gradient + row * columns;
    const float factor =
        static_cast<float>(rows.factors[row] / rows.loss.temperature);
    const float all = static_cast<float>(mass);
    for (uint64_t c = lanes.lane(); c < columns; c += lanes.count()) {
      out[c] = factor * (all * exponentials.ShareOf(z[c] / temperature) - y[c]);
    }
  }
};

// A row of scores, of one example with the item of each example in the batch.
// The right column is that of the example itself: row i's is i.
template <class T>
struct InBatchSoftmax {
  LossRows<T> rows;
  const int64_t* items;

  PARAMD_KERNEL bool IsThere(uint64_t row, uint64_t c) const {
    return c == row || (items[c] != items[row] && rows.factors[c] != 0);
  }

  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const uint64_t columns = rows.columns;
    const T* const z = rows.outputs + row * columns;
    const float own = z[row];
    SumOfExponentials exponentials;
    uint64_t count = 0;
    ForEachPlace(z, columns, lanes, [&](uint64_t c, float x) {
      if (!IsThere(row, c)) return;
      exponentials.Add(x);
      count += x > own || (c < row && x == own) ? 1 : 0;
    });
    exponentials.Join(lanes);
    const double above = lanes.Sum(static_cast<double>(count));
    if (lanes.lane() == 0) {
      const double loss = exponentials.log_sum() +
                          (double{exponentials.largest()} - double{own});
      rows.Say(row, loss, loss, above);
    }
    if (rows.gradient == nullptr) return;
    T* const out = rows.gradient + row * columns;
    const float factor = static_cast<float>(rows.factors[row]);
    ForEachPlace(z, columns, lanes, [&](uint64_t c, float x) {
      const float share = IsThere(row, c) ? exponentials.ShareOf(x) : 0.0f;
      out[c] = (c == row ? share - 1 : share) * factor;
    });
  }
};

// Binary cross entropy and squared errors.
template <class T>
struct NumberLoss {
  LossRows<T> rows;
  const float* target;

  template <class Lanes>
  PARAMD_KERNEL void operator()(uint64_t row, const Lanes& lanes) const {
    const bool binary = rows.loss.kind == RowLoss::Kind::kBinaryCrossEntropy;
    const uint64_t first = row * rows.columns;
    const float factor = static_cast<float>(rows.factors[row]);
    double total = 0;
    uint64_t right = 0;
    for (uint64_t c = lanes.lane(); c < rows.columns; c += lanes.count()) {
      const float z = rows.outputs[first + c];
      const float y = target[first + c];
      if (binary) {
        const float above = z < 0 ? 0.0f : z;
        total += double{above - z * y + log1pf(expf(-fabsf(z)))};
        right += (z > 0) == (y > 0.5f) ? 1 : 0;
      } else {
        total += double{z - y} * double{z - y};
      }
      if (rows.gradient == nullptr) continue;
      rows.gradient[first + c] =
          factor * (binary ? 1 / (1 + expf(-z)) - y : 2 * (z - y));
    }
    total = lanes.Sum(total);
    const double count = lanes.Sum(static_cast<double>(right));
    if (lanes.lane() == 0) rows.Say(row, total, total, count);
  }
};

}  // namespace kernels
}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_LOSS_KERNELS_H_
