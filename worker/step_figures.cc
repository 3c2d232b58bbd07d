#include "worker/step_figures.h"

#include <algorithm>

namespace paramd {
namespace {

constexpr size_t kFixed = 6;
constexpr size_t kOfSum = 4;

}  // namespace

std::vector<double> ToNumbers(const StepFigures& figures, size_t sums) {
  const Metrics& metrics = figures.metrics;
  const size_t count = std::min(sums, metrics.sums.size());
  std::vector<double> numbers = {metrics.loss_sum,
                                 static_cast<double>(metrics.examples),
                                 static_cast<double>(metrics.correct),
                                 static_cast<double>(metrics.labels),
                                 static_cast<double>(figures.left_out),
                                 static_cast<double>(count)};
  numbers.resize(kFixed + kOfSum * sums);
  for (size_t i = 0; i < count; ++i) {
    double* const sum = &numbers[kFixed + kOfSum * i];
    sum[0] = static_cast<double>(metrics.sums[i].kind);
    sum[1] = metrics.sums[i].k;
    sum[2] = metrics.sums[i].sum;
    sum[3] = metrics.sums[i].count;
  }
  return numbers;
}

StepFigures FromNumbers(absl::Span<const double> numbers, size_t sums) {
  StepFigures all;
  const size_t length = kFixed + kOfSum * sums;
  for (; numbers.size() >= length; numbers.remove_prefix(length)) {
    Metrics one;
    one.loss_sum = numbers[0];
    one.examples = static_cast<uint64_t>(numbers[1]);
    one.correct = static_cast<uint64_t>(numbers[2]);
    one.labels = static_cast<uint64_t>(numbers[3]);
    all.left_out += static_cast<uint64_t>(numbers[4]);
    for (size_t i = 0; i < static_cast<size_t>(numbers[5]); ++i) {
      const double* const sum = &numbers[kFixed + kOfSum * i];
      one.sums.push_back({.kind = static_cast<Metrics::Kind>(sum[0]),
                          .k = static_cast<uint32_t>(sum[1]),
                          .sum = sum[2],
                          .count = sum[3]});
    }
    all.metrics += one;
  }
  return all;
}

}  // namespace paramd
