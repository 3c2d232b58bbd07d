#include "worker/step_figures.h"

#include <algorithm>

#include "absl/strings/strip.h"

namespace paramd {
namespace {

constexpr size_t kFixed = 6;
constexpr size_t kOfSum = 4;

// The outputs of a model that counts `counted`, in their order: each has a
// loss. Of a model with one, none.
std::vector<std::string> OutputsIn(absl::Span<const std::string> counted) {
  std::vector<std::string> outputs;
  for (absl::string_view name : counted) {
    if (absl::ConsumeSuffix(&name, "/loss")) outputs.emplace_back(name);
  }
  return outputs;
}

// Without outputs; of up to `sums` metrics.
void Append(const Metrics& metrics, size_t sums, std::vector<double>* numbers) {
  const size_t count = std::min(sums, metrics.sums.size());
  numbers->insert(numbers->end(),
                  {metrics.loss_sum, static_cast<double>(metrics.examples),
                   static_cast<double>(metrics.correct),
                   static_cast<double>(metrics.labels),
                   metrics.weighted ? 1.0 : 0.0, static_cast<double>(count)});
  const size_t begin = numbers->size();
  numbers->resize(begin + kOfSum * sums);
  for (size_t i = 0; i < count; ++i) {
    double* const sum = &(*numbers)[begin + kOfSum * i];
    sum[0] = static_cast<double>(metrics.sums[i].kind);
    sum[1] = metrics.sums[i].k;
    sum[2] = metrics.sums[i].sum;
    sum[3] = metrics.sums[i].count;
  }
}

// What Append wrote; `numbers` goes on behind it.
Metrics Take(size_t sums, absl::Span<const double>* numbers) {
  const absl::Span<const double> own = *numbers;
  Metrics metrics;
  metrics.loss_sum = own[0];
  metrics.examples = static_cast<uint64_t>(own[1]);
  metrics.correct = static_cast<uint64_t>(own[2]);
  metrics.labels = static_cast<uint64_t>(own[3]);
  metrics.weighted = own[4] != 0;
  for (size_t i = 0; i < static_cast<size_t>(own[5]); ++i) {
    const double* const sum = &own[kFixed + kOfSum * i];
    metrics.sums.push_back({.kind = static_cast<Metrics::Kind>(sum[0]),
                            .k = static_cast<uint32_t>(sum[1]),
                            .sum = sum[2],
                            .count = sum[3]});
  }
  numbers->remove_prefix(kFixed + kOfSum * sums);
  return metrics;
}

}  // namespace

std::vector<double> ToNumbers(const StepFigures& figures,
                              absl::Span<const std::string> counted) {
  const Metrics& metrics = figures.metrics;
  std::vector<double> numbers = {static_cast<double>(figures.left_out)};
  Append(metrics, counted.size(), &numbers);
  const size_t outputs = OutputsIn(counted).size();
  for (size_t i = 0; i < outputs; ++i) {
    const bool is_known = i < metrics.outputs.size();
    Append(is_known ? metrics.outputs[i] : Metrics(), counted.size(), &numbers);
  }
  return numbers;
}

StepFigures FromNumbers(absl::Span<const double> numbers,
                        absl::Span<const std::string> counted) {
  const std::vector<std::string> outputs = OutputsIn(counted);
  StepFigures all;
  while (!numbers.empty()) {
    all.left_out += static_cast<uint64_t>(numbers[0]);
    numbers.remove_prefix(1);
    Metrics one = Take(counted.size(), &numbers);
    for (const std::string& output : outputs) {
      one.outputs.push_back(Take(counted.size(), &numbers));
      one.outputs.back().output = output;
    }
    all.metrics += one;
  }
  return all;
}

}  // namespace paramd
