#include "proto/metric_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

constexpr absl::string_view kAccuracy = "accuracy";

using NamedValues = std::vector<std::pair<std::string, double>>;

// The accuracy first, the others by name.
NamedValues Sorted(const google::protobuf::Map<std::string, double>& metrics) {
  NamedValues values(metrics.begin(), metrics.end());
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.first != kAccuracy, a.first) <
           std::make_pair(b.first != kAccuracy, b.first);
  });
  return values;
}

void AddTimes(double factor, const MetricSums& more, MetricSums* sums) {
  for (const v1::MetricSum& one : more) {
    auto known = std::find_if(
        sums->begin(), sums->end(),
        [&](const v1::MetricSum& sum) { return sum.name() == one.name(); });
    v1::MetricSum* sum = known == sums->end() ? sums->Add() : &*known;
    sum->set_name(one.name());
    sum->set_exp(one.exp());
    sum->set_sum(sum->sum() + factor * one.sum());
    sum->set_count(sum->count() + factor * one.count());
  }
}

}  // namespace

NamedValues MetricValues(const v1::Evaluation& evaluation) {
  NamedValues values = Sorted(evaluation.metrics());
  if (values.empty() && evaluation.labels() == 0 && evaluation.correct() > 0 &&
      evaluation.examples() > 0) {
    values.emplace_back(kAccuracy,
                        static_cast<double>(evaluation.correct()) /
                            static_cast<double>(evaluation.examples()));
  }
  return values;
}

NamedValues MetricValues(const v1::EvaluatedSlice& slice) {
  return Sorted(slice.metrics());
}

std::string SliceName(const v1::EvaluatedSlice& slice) {
  return absl::StrCat(slice.feature(), "=", slice.value());
}

NamedValues SliceValues(const v1::Evaluation& evaluation) {
  NamedValues values;
  for (const v1::EvaluatedSlice& slice : evaluation.slices()) {
    const std::string name = SliceName(slice);
    values.emplace_back(absl::StrCat("loss/", name), slice.loss());
    for (const auto& [metric, value] : MetricValues(slice)) {
      values.emplace_back(absl::StrCat(metric, "/", name), value);
    }
  }
  return values;
}

std::string EvaluationText(const v1::Evaluation& evaluation) {
  std::string text;
  for (const auto& [name, value] : MetricValues(evaluation)) {
    absl::StrAppend(&text, name, " ", value, ", ");
  }
  return absl::StrCat(text, "loss ", evaluation.loss());
}

double MetricValue(const v1::MetricSum& sum) {
  if (sum.count() == 0) return std::numeric_limits<double>::quiet_NaN();
  const double mean = sum.sum() / sum.count();
  return sum.exp() ? std::exp(mean) : mean;
}

void AddMetrics(const MetricSums& more, MetricSums* sums) {
  AddTimes(1, more, sums);
}

void SubtractMetrics(const MetricSums& less, MetricSums* sums) {
  AddTimes(-1, less, sums);
}

bool LowerIsBetter(absl::string_view metric) {
  // Of an output of several: "click/loss".
  metric.remove_prefix(
      metric.rfind('/') == metric.npos ? 0 : metric.rfind('/') + 1);
  return metric == "loss" || metric == "perplexity" || metric == "mse" ||
         metric == "normalised_entropy";
}

}  // namespace paramd
