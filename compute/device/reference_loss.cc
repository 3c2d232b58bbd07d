// Losses of rows, and their derivatives.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/types/span.h"

#include "compute/device/float_type.h"
#include "compute/device/reference_device.h"

namespace paramd {
namespace {

// Null `gradient`: nobody wants it.
template <class T>
struct Row {
  uint64_t columns;
  const T* z;
  double factor;
  T* gradient;
  double* numbers;
};

// Four at a time, for each waits for the one before it. A NaN may be left out:
// the sum of exponentials has it.
template <class T>
T Largest(const T* z, uint64_t size) {
  T largest[4] = {z[0], z[0], z[0], z[0]};
  uint64_t j = 0;
  for (; j + 4 <= size; j += 4) {
    for (int k = 0; k < 4; ++k) {
      largest[k] = z[j + k] > largest[k] ? z[j + k] : largest[k];
    }
  }
  for (; j < size; ++j) largest[0] = z[j] > largest[0] ? z[j] : largest[0];
  return std::max(std::max(largest[0], largest[1]),
                  std::max(largest[2], largest[3]));
}

// exp(z - largest), as a part of a sum: minus infinity would be 0 in it.
template <class T>
T OrNaN(T exponential, T z) {
  return exponential + (z - z);
}

template <class T>
void SoftmaxCrossEntropy(const RowLoss& loss, int32_t label_or_none,
                         Row<T> row) {
  if (label_or_none == loss.ignored) {
    if (row.gradient != nullptr) std::fill_n(row.gradient, row.columns, T(0));
    std::fill_n(row.numbers, RowLoss::kNumbers, 0.0);
    return;
  }
  const auto label = static_cast<uint64_t>(label_or_none);
  const T largest = Largest(row.z, row.columns);
  const T of_label = row.z[label];
  T sum = 0;
  int64_t above = 0;
  int64_t not_below = 0;
  for (uint64_t j = 0; j < row.columns; ++j) {
    const T z = row.z[j];
    const T exponential = std::exp(z - largest);
    sum += OrNaN(exponential, z);
    above += z > of_label ? 1 : 0;
    not_below += z >= of_label ? 1 : 0;
    if (row.gradient != nullptr) row.gradient[j] = exponential;
  }
  // Of equal outputs the first is above the others; they are rare.
  if (not_below > above + 1) {
    above += std::count(row.z, row.z + label, of_label);
  }
  const double plain =
      std::log(double{sum}) + (double{largest} - double{of_label});
  const double share = loss.smoothing / static_cast<double>(row.columns);
  double differences = 0;
  for (uint64_t j = 0; share > 0 && j < row.columns; ++j) {
    differences += double{row.z[j]} - double{of_label};
  }
  row.numbers[RowLoss::kLoss] = plain - share * differences;
  row.numbers[RowLoss::kPlainLoss] = plain;
  row.numbers[RowLoss::kCount] = static_cast<double>(above);
  if (row.gradient == nullptr) return;
  const T factor = static_cast<T>(row.factor);
  for (uint64_t j = 0; j < row.columns; ++j) {
    row.gradient[j] = (row.gradient[j] / sum - static_cast<T>(share)) * factor;
  }
  row.gradient[label] -= static_cast<T>(1 - loss.smoothing) * factor;
}

template <class T>
void Divergence(const RowLoss& loss, const float* y, Row<T> row) {
  const auto temperature = static_cast<T>(loss.temperature);
  const T largest = Largest(row.z, row.columns) / temperature;
  T sum = 0;
  for (uint64_t j = 0; j < row.columns; ++j) {
    const T z = row.z[j] / temperature;
    sum += OrNaN(std::exp(z - largest), z);
  }
  const double log_sum = std::log(double{sum});
  double total = 0;
  double mass = 0;
  for (uint64_t j = 0; j < row.columns; ++j) {
    mass += double{y[j]};
    // 0 log 0 is 0, but a broken output shows all the same.
    const double log_y = y[j] > 0 ? std::log(double{y[j]}) : 0;
    const T z = row.z[j] / temperature;
    total += double{y[j]} * (log_y - (double{z} - double{largest} - log_sum));
  }
  row.numbers[RowLoss::kLoss] = total;
  row.numbers[RowLoss::kPlainLoss] = total;
  row.numbers[RowLoss::kCount] = 0;
  if (row.gradient == nullptr) return;
  const T shift = std::log(sum) + largest;
  const double factor = row.factor / loss.temperature;
  for (uint64_t j = 0; j < row.columns; ++j) {
    const T share = std::exp(row.z[j] / temperature - shift);
    row.gradient[j] =
        static_cast<T>(factor * (mass * double{share} - double{y[j]}));
  }
}

// Whether column j is there in row i.
bool IsThere(absl::Span<const int64_t> items, absl::Span<const double> factors,
             uint64_t i, uint64_t j) {
  return j == i || (items[j] != items[i] && factors[j] != 0);
}

template <class T>
void InBatchSoftmax(absl::Span<const int64_t> items,
                    absl::Span<const double> factors, uint64_t i, Row<T> row) {
  const T own = row.z[i];
  T largest = own;
  for (uint64_t j = 0; j < row.columns; ++j) {
    if (IsThere(items, factors, i, j)) largest = std::max(largest, row.z[j]);
  }
  T sum = 0;
  uint64_t above = 0;
  for (uint64_t j = 0; j < row.columns; ++j) {
    T exponential = 0;
    if (IsThere(items, factors, i, j)) {
      const T z = row.z[j];
      exponential = std::exp(z - largest);
      sum += OrNaN(exponential, z);
      above += z > own || (j < i && z == own) ? 1 : 0;
    }
    if (row.gradient != nullptr) row.gradient[j] = exponential;
  }
  const double loss = std::log(double{sum}) + (double{largest} - double{own});
  row.numbers[RowLoss::kLoss] = loss;
  row.numbers[RowLoss::kPlainLoss] = loss;
  row.numbers[RowLoss::kCount] = static_cast<double>(above);
  if (row.gradient == nullptr) return;
  const T factor = static_cast<T>(row.factor);
  for (uint64_t j = 0; j < row.columns; ++j) {
    const T hit = j == i ? T(1) : T(0);
    row.gradient[j] = (row.gradient[j] / sum - hit) * factor;
  }
}

// log(1 + exp(z)) - y z.
template <class T>
T BinaryCrossEntropy(T z, T y) {
  return std::max(z, T(0)) - z * y + std::log1p(std::exp(-std::abs(z)));
}

template <class T>
void BinaryCrossEntropies(const float* target, Row<T> row) {
  const T factor = static_cast<T>(row.factor);
  double total = 0;
  int64_t right = 0;
  for (uint64_t j = 0; j < row.columns; ++j) {
    const T z = row.z[j];
    const T y = static_cast<T>(target[j]);
    total += double{BinaryCrossEntropy(z, y)};
    right += (z > 0) == (y > T(0.5)) ? 1 : 0;
    if (row.gradient == nullptr) continue;
    row.gradient[j] = factor * (1 / (1 + std::exp(-z)) - y);
  }
  row.numbers[RowLoss::kLoss] = total;
  row.numbers[RowLoss::kPlainLoss] = total;
  row.numbers[RowLoss::kCount] = static_cast<double>(right);
}

template <class T>
void SquaredErrors(const float* target, Row<T> row) {
  const T factor = static_cast<T>(row.factor);
  double total = 0;
  for (uint64_t j = 0; j < row.columns; ++j) {
    const T difference = row.z[j] - static_cast<T>(target[j]);
    total += double{difference} * double{difference};
    if (row.gradient != nullptr) row.gradient[j] = factor * (2 * difference);
  }
  row.numbers[RowLoss::kLoss] = total;
  row.numbers[RowLoss::kPlainLoss] = total;
  row.numbers[RowLoss::kCount] = 0;
}

}  // namespace

void ReferenceDevice::Losses(const RowLoss& loss, const ConstTensor& outputs,
                             const ConstTensor& target,
                             const ConstTensor& factors, const Tensor& gradient,
                             const Tensor& numbers) {
  const auto factor = factors.values<double>();
  const uint64_t columns = factor.empty() ? 0 : outputs.size() / factor.size();
  const auto numbers_at = [&](uint64_t i) {
    return target.values<float>().data() + i * columns;
  };
  WithFloatType(outputs.dtype, [&](auto zero) {
    using T = decltype(zero);
    Row<T> row = {columns, outputs.values<T>().data(), 0,
                  static_cast<T*>(gradient.data),
                  numbers.values<double>().data()};
    for (uint64_t i = 0; i < factor.size(); ++i) {
      row.factor = factor[i];
      switch (loss.kind) {
        case RowLoss::Kind::kSoftmaxCrossEntropy:
          SoftmaxCrossEntropy(loss, target.values<int32_t>()[i], row);
          break;
        case RowLoss::Kind::kDivergence:
          Divergence(loss, numbers_at(i), row);
          break;
        case RowLoss::Kind::kBinaryCrossEntropy:
          BinaryCrossEntropies(numbers_at(i), row);
          break;
        case RowLoss::Kind::kSquaredError:
          SquaredErrors(numbers_at(i), row);
          break;
        case RowLoss::Kind::kInBatchSoftmax:
          InBatchSoftmax(target.values<int64_t>(), factor, i, row);
          break;
      }
      row.z += columns;
      if (row.gradient != nullptr) row.gradient += columns;
      row.numbers += RowLoss::kNumbers;
    }
  });
}

}  // namespace paramd
