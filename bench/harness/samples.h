#ifndef PARAMD_BENCH_HARNESS_SAMPLES_H_
#define PARAMD_BENCH_HARNESS_SAMPLES_H_

#include <vector>

namespace paramd {

// What was measured of one thing, once a round. Not thread-safe.
class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  bool empty() const { return values_.empty(); }
  // The share `q` of all samples is not above this. REQUIRES: !empty().
  double Quantile(double q) const;
  // Of an even number: between the two in the middle. REQUIRES: !empty().
  double Median() const;
  double Low() const { return Quantile(0); }
  double High() const { return Quantile(1); }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

}  // namespace paramd

#endif  // PARAMD_BENCH_HARNESS_SAMPLES_H_
