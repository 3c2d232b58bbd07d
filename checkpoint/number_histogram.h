#ifndef PARAMD_CHECKPOINT_NUMBER_HISTOGRAM_H_
#define PARAMD_CHECKPOINT_NUMBER_HISTOGRAM_H_

#include <cstdint>
#include <vector>

namespace paramd {

// Any number of numbers from 0 up, in 512 KiB: each is counted with those that
// have the same first eight bits, so that a quantile is off by less than 0.8 %.
//
// Not thread-safe.
class NumberHistogram {
 public:
  NumberHistogram();

  // REQUIRES: value >= 0.
  void Add(double value);

  uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  // The smallest number that the share `share` of all does not exceed; the
  // least one for 0, the largest for 1, both exact. 0 if there is none.
  double Quantile(double share) const;
  // The sum of the `most` largest, of all if there are fewer; within 0.8 %.
  double SumOfLargest(uint64_t most) const;

 private:
  struct Bin {
    uint64_t count = 0;
    double sum = 0;
  };

  std::vector<Bin> bins_;  // In the order of their numbers.
  uint64_t count_ = 0;
  double sum_ = 0;
  double least_ = 0;
  double largest_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_NUMBER_HISTOGRAM_H_
