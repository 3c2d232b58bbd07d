#include "bench/harness/samples.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace paramd {

double Samples::Quantile(double q) const {
  CHECK(!values_.empty(), "something was measured");
  std::vector<double> sorted = values_;
  const double place = std::ceil(q * static_cast<double>(sorted.size())) - 1;
  const auto at = sorted.begin() + static_cast<ptrdiff_t>(std::max(0.0, place));
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

double Samples::Median() const {
  CHECK(!values_.empty(), "something was measured");
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  const size_t size = sorted.size();
  return (sorted[(size - 1) / 2] + sorted[size / 2]) / 2;
}

}  // namespace paramd
