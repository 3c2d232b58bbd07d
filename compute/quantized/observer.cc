#include "compute/quantized/observer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace paramd {
namespace {

// A bin's lower end.
double BeginOf(const Histogram& histogram, int bin) {
  return (bin - Histogram::kBins) * histogram.width();
}

class MinMax : public Observer {
 public:
  void Add(absl::Span<const float> values) override {
    const FloatRange batch = RangeOf(values);
    if (!range_.has_value()) range_ = batch;
    range_->min = std::min(range_->min, batch.min);
    range_->max = std::max(range_->max, batch.max);
  }
  FloatRange Range() const override { return *range_; }

 private:
  absl::optional<FloatRange> range_;
};

class MovingAverage : public Observer {
 public:
  void Add(absl::Span<const float> values) override {
    constexpr float kStep = 0.01f;
    const FloatRange batch = RangeOf(values);
    if (!range_.has_value()) range_ = batch;
    range_->min += kStep * (batch.min - range_->min);
    range_->max += kStep * (batch.max - range_->max);
  }
  FloatRange Range() const override { return *range_; }

 private:
  absl::optional<FloatRange> range_;
};

// What looks at all of the values again.
class OfHistogram : public Observer {
 public:
  void Add(absl::Span<const float> values) override {
    histogram_.Add(values);
    seen_.Add(values);
  }
  FloatRange Range() const override {
    const FloatRange found = Search();
    const FloatRange seen = seen_.Range();
    return {std::max(found.min, seen.min), std::min(found.max, seen.max)};
  }

 protected:
  // May be wider than what was seen.
  virtual FloatRange Search() const = 0;

  // From the first of these bins to the last one, both included.
  FloatRange RangeOfBins(int first, int last) const {
    return {static_cast<float>(BeginOf(histogram_, first)),
            static_cast<float>(BeginOf(histogram_, last + 1))};
  }

  Histogram histogram_;
  MinMax seen_;
};

class Percentile : public OfHistogram {
  FloatRange Search() const override {
    constexpr double kCut = (1 - 0.99999) / 2;
    const auto& counts = histogram_.counts();
    const double most = kCut * static_cast<double>(histogram_.total());
    // The first bin at whose end more than that is passed.
    uint64_t passed = 0;
    int first = 0;
    while (static_cast<double>(passed += counts[first]) <= most) ++first;
    passed = 0;
    int last = 2 * Histogram::kBins - 1;
    while (static_cast<double>(passed += counts[last]) <= most) --last;
    return RangeOfBins(first, last);
  }
};

class LeastSquares : public OfHistogram {
 public:
  explicit LeastSquares(int bits) : bits_(bits) {}

 private:
  FloatRange Search() const override {
    constexpr double kStep = 1e-5;
    const auto& counts = histogram_.counts();
    const auto total = static_cast<double>(histogram_.total());
    std::vector<double> until(counts.size());  // Up to each bin, included.
    double sum = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      until[i] = sum += static_cast<double>(counts[i]);
    }
    int first = 0;
    int last = static_cast<int>(counts.size()) - 1;
    while (counts[first] == 0) ++first;
    while (counts[last] == 0) --last;
    double low = 0;
    double high = 1;
    double least = SquaredError(histogram_, RangeOfBins(first, last), bits_);
    while (low + kStep < high - kStep) {
      int next_first = first;
      int next_last = last;
      while (next_first < last && until[next_first] < (low + kStep) * total) {
        ++next_first;
      }
      while (next_last > first && until[next_last] > (high - kStep) * total) {
        --next_last;
      }
      if (next_first - first > last - next_last) {
        next_last = last;
        low += kStep;
      } else {
        next_first = first;
        high -= kStep;
      }
      if (next_first == first && next_last == last) continue;
      const double error =
          SquaredError(histogram_, RangeOfBins(next_first, next_last), bits_);
      if (error > least) break;
      least = error;
      first = next_first;
      last = next_last;
    }
    return RangeOfBins(first, last);
  }

  const int bits_;
};

class Entropy : public OfHistogram {
 public:
  explicit Entropy(int bits) : bits_(bits) {}

 private:
  FloatRange Search() const override {
    const int levels = bits_ == 8 ? 128 : Histogram::kBins;
    std::vector<double> sizes(Histogram::kBins);  // Of bins of |x|.
    for (int i = 0; i < Histogram::kBins; ++i) {
      sizes[i] =
          static_cast<double>(histogram_.counts()[Histogram::kBins + i] +
                              histogram_.counts()[Histogram::kBins - 1 - i]);
    }
    // Zeros are exact in any range; all that relu has cut off are among them.
    sizes[0] = sizes[1];
    int all = Histogram::kBins;
    while (all > levels && sizes[all - 1] == 0) --all;
    int best = all;
    double least = std::numeric_limits<double>::infinity();
    for (int kept = levels; kept <= all; ++kept) {
      const double divergence = Divergence(sizes, kept, all, levels);
      if (divergence > least) continue;
      least = divergence;
      best = kept;
    }
    return RangeOfBins(Histogram::kBins - best, Histogram::kBins + best - 1);
  }

  // Between the first `kept` bins, with what lies beyond in the last of them,
  // and the same bins without that as so many levels.
  static double Divergence(const std::vector<double>& sizes, int kept, int all,
                           int levels) {
    double beyond = 0;
    for (int i = kept; i < all; ++i) beyond += sizes[i];
    double within = 0;
    for (int i = 0; i < kept; ++i) within += sizes[i];
    if (within == 0) return std::numeric_limits<double>::infinity();
    double divergence = 0;
    for (int level = 0; level < levels; ++level) {
      const int begin = level * kept / levels;
      const int end = (level + 1) * kept / levels;
      double sum = 0;
      int filled = 0;
      for (int i = begin; i < end; ++i) {
        sum += sizes[i];
        filled += sizes[i] > 0;
      }
      for (int i = begin; i < end; ++i) {
        const bool is_last = i + 1 == kept;
        const double p =
            (sizes[i] + (is_last ? beyond : 0)) / (within + beyond);
        if (p == 0) continue;
        // Of a bin that only has what lies beyond: as good as nothing.
        const double q = sizes[i] > 0 ? sum / filled / within : 1e-12;
        divergence += p * std::log(p / q);
      }
    }
    return divergence;
  }

  const int bits_;
};

}  // namespace

double Histogram::width() const { return std::ldexp(1.0, exponent_); }

void Histogram::Widen() {
  std::vector<uint64_t> counts(2 * kBins);
  for (int i = 0; i < 2 * kBins; ++i) counts[kBins / 2 + i / 2] += counts_[i];
  counts_ = std::move(counts);
  ++exponent_;
}

void Histogram::Add(absl::Span<const float> values) {
  if (values.empty()) return;
  const FloatRange range = RangeOf(values);
  // The lowest bin's end is within, the highest one's is not.
  const auto fits = [&] {
    return range.min >= -kBins * width() && range.max < kBins * width();
  };
  // Widening nothing takes no counting.
  if (total_ == 0) {
    while (!fits()) ++exponent_;
  }
  while (!fits()) Widen();
  const double factor = 1 / width();
  for (const float value : values) {
    ++counts_[kBins + static_cast<int>(std::floor(value * factor))];
  }
  total_ += values.size();
}

void Histogram::Add(const Histogram& other) {
  Histogram copy = other;
  if (total_ == 0) exponent_ = std::max(exponent_, copy.exponent_);
  while (exponent_ < copy.exponent_) Widen();
  while (copy.exponent_ < exponent_) copy.Widen();
  for (int i = 0; i < 2 * kBins; ++i) counts_[i] += copy.counts_[i];
  total_ += copy.total_;
}

double SquaredError(const Histogram& histogram, FloatRange range, int bits) {
  const Affine affine = AffineOf(range);
  const double scale = bits == 8 ? affine.scale : Int16ScaleOf(range);
  const double lowest = bits == 8 ? -affine.zero_point : -kMostInt16;
  const double highest = bits == 8 ? 255 - affine.zero_point : kMostInt16;
  const auto& counts = histogram.counts();
  double error = 0;
  for (int bin = 0; bin < 2 * Histogram::kBins; ++bin) {
    if (counts[bin] == 0) continue;
    const double begin = BeginOf(histogram, bin);
    const double end = begin + histogram.width();
    const double density = static_cast<double>(counts[bin]) / histogram.width();
    // From level to level; the numbers of one lie half a scale around it.
    for (double at = begin; at < end;) {
      double level = std::clamp(std::floor(at / scale + 0.5), lowest, highest);
      // Where a level's numbers end, rounding may give that one again.
      if ((level + 0.5) * scale <= at && level < highest) ++level;
      // Below the lowest level up to where its own numbers end.
      const double until =
          level == highest ? end : std::min((level + 0.5) * scale, end);
      const double from = at - level * scale;
      const double to = until - level * scale;
      error += density * (to * to * to - from * from * from) / 3;
      at = until;
    }
  }
  return error;
}

absl::StatusOr<std::unique_ptr<Observer>> MakeObserver(absl::string_view name,
                                                       int bits) {
  std::unique_ptr<Observer> observer;
  if (name == "min_max") observer = std::make_unique<MinMax>();
  if (name == "moving_average") observer = std::make_unique<MovingAverage>();
  if (name == "percentile") observer = std::make_unique<Percentile>();
  if (name == "histogram") observer = std::make_unique<LeastSquares>(bits);
  if (name == "entropy") observer = std::make_unique<Entropy>(bits);
  if (observer != nullptr) return observer;
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no observer '", name,
      "'; there are min_max, moving_average, percentile, histogram, entropy"));
}

}  // namespace paramd
