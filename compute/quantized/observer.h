#ifndef PARAMD_COMPUTE_QUANTIZED_OBSERVER_H_
#define PARAMD_COMPUTE_QUANTIZED_OBSERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "compute/quantized/affine.h"

namespace paramd {

// How often values lie where: bins of one width, a power of two, either side of
// 0. The width doubles by adding neighbours where a value lies beyond, which is
// exact: so it depends on the values alone, not on their order or batches, and
// the sum of two is the histogram of both.
class Histogram {
 public:
  static constexpr int kBins = 2048;  // On each side of 0.

  // REQUIRES: finite.
  void Add(absl::Span<const float> values);
  void Add(const Histogram& other);

  // Of bins from -kBins to kBins - 1; bin i has [i, i + 1) * width().
  const std::vector<uint64_t>& counts() const { return counts_; }
  double width() const;
  uint64_t total() const { return total_; }

 private:
  void Widen();

  // Of the largest size that is below kBins * 2^exponent_: at least half of it,
  // but for zeros alone.
  int exponent_ = kLeast;
  static constexpr int kLeast = -160;  // 0 in the smallest float.
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(2 * kBins);
  uint64_t total_ = 0;
};

// Finds the range that integers shall stand for out of values that were seen.
// Not thread-safe.
class Observer {
 public:
  virtual ~Observer() = default;

  // A batch of values. REQUIRES: finite, and some.
  virtual void Add(absl::Span<const float> values) = 0;
  // REQUIRES: values were added.
  virtual FloatRange Range() const = 0;
};

// By its name:
//   min_max         from the least to the greatest value
//   moving_average  of the least and the greatest of each batch: a hundredth of
//                   the way to each next one (PyTorch's
//                   MovingAverageMinMaxObserver)
//   percentile      all but 0.001 % of the values, half of that on either side
//                   (ONNX Runtime's default)
//   histogram       the range whose integers have the least squared error, as
//                   PyTorch's HistogramObserver searches it: each time the end
//                   is cut off whose next hundred-thousandth of the values has
//                   more bins
//   entropy         the range, symmetric around 0, whose distribution in 128
//                   levels is nearest to that of the values, by the
//                   Kullback-Leibler divergence (TensorRT; ONNX Runtime's
//                   _compute_entropy), but for the bin that has 0
// `bits` is 8 or 16. Of 16 bits the error is that of their levels, and there
// are more of them than the histogram has bins, so entropy cuts nothing off.
// INVALID_ARGUMENT listing the observers if there is none of that name.
absl::StatusOr<std::unique_ptr<Observer>> MakeObserver(absl::string_view name,
                                                       int bits = 8);

// Squared error of the histogram's values as integers of this range.
double SquaredError(const Histogram& histogram, FloatRange range, int bits = 8);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_OBSERVER_H_
