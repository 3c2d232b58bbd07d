#include "worker/model/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {
namespace {

// Counts, for each positive, the negatives that score less, and half of those
// that score the same.
double AreaUnderCurve(std::vector<Metrics::Score> scores) {
  // A NaN is in no order: to sort it is undefined.
  for (const Metrics::Score& score : scores) {
    if (std::isnan(score.score)) {
      return std::numeric_limits<double>::quiet_NaN();
    }
  }
  std::sort(scores.begin(), scores.end(),
            [](const Metrics::Score& a, const Metrics::Score& b) {
              return a.score < b.score;
            });
  double below = 0;  // Negatives that score less.
  double positives = 0;
  double pairs = 0;
  for (size_t i = 0; i < scores.size();) {
    double equal_negatives = 0;
    double equal_positives = 0;
    size_t end = i;
    for (; end < scores.size() && scores[end].score == scores[i].score; ++end) {
      ++(scores[end].positive ? equal_positives : equal_negatives);
    }
    pairs += equal_positives * (below + equal_negatives / 2);
    below += equal_negatives;
    positives += equal_positives;
    i = end;
  }
  return pairs / (positives * below);
}

}  // namespace

std::string Metrics::Sum::name() const {
  switch (kind) {
    case Kind::kAccuracy:
      return "accuracy";
    case Kind::kTopK:
      return absl::StrCat("top_", k);
    case Kind::kPerplexity:
      return "perplexity";
    case Kind::kMeanSquaredError:
      return "mse";
    case Kind::kAuc:
      return "auc";
  }
  return "";
}

Metrics& Metrics::operator+=(const Metrics& other) {
  loss_sum += other.loss_sum;
  examples += other.examples;
  correct += other.correct;
  labels += other.labels;
  if (sums.empty()) {
    sums = other.sums;
  } else if (!other.sums.empty()) {
    CHECK(sums.size() == other.sums.size(),
          "metrics that are added are of the same model");
    for (size_t i = 0; i < sums.size(); ++i) {
      CHECK(sums[i].kind == other.sums[i].kind && sums[i].k == other.sums[i].k,
            "metrics that are added are of the same model");
      sums[i].sum += other.sums[i].sum;
      sums[i].count += other.sums[i].count;
    }
  }
  scores.insert(scores.end(), other.scores.begin(), other.scores.end());
  return *this;
}

double Metrics::mean_loss() const {
  return examples == 0 ? 0 : loss_sum / static_cast<double>(examples);
}

double Metrics::accuracy() const {
  return labels == 0
             ? 0
             : static_cast<double>(correct) / static_cast<double>(labels);
}

std::vector<NamedValue> Metrics::Values() const {
  std::vector<NamedValue> values = {{"loss", mean_loss()}};
  for (const Sum& sum : sums) {
    const double mean = sum.count == 0 ? 0 : sum.sum / sum.count;
    double value = mean;
    if (sum.kind == Kind::kAccuracy) value = accuracy();
    if (sum.kind == Kind::kPerplexity) value = std::exp(mean);
    if (sum.kind == Kind::kAuc) value = AreaUnderCurve(scores);
    values.push_back({sum.name(), value});
  }
  return values;
}

}  // namespace paramd
