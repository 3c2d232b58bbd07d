#include "compute/model/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "base/check.h"

namespace paramd {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What is known of some scores: of each pair (a positive, a negative) whether
// the positive scores higher, or half of it.
struct Ranking {
  double pairs = 0;
  double positives = 0;
  double negatives = 0;

  double area() const { return pairs / (positives * negatives); }
};

// Of `count` scores in ascending order: counts, for each positive, the
// negatives that score less, and half of those that score the same; each as
// often as its weight says.
template <typename ScoreAt, typename WeightAt>
Ranking RankingOf(size_t count, ScoreAt at, WeightAt weight_at) {
  Ranking ranking;
  for (size_t i = 0; i < count;) {
    double equal_negatives = 0;
    double equal_positives = 0;
    size_t end = i;
    for (; end < count && at(end).score == at(i).score; ++end) {
      (at(end).positive ? equal_positives : equal_negatives) += weight_at(end);
    }
    ranking.pairs +=
        equal_positives * (ranking.negatives + equal_negatives / 2);
    ranking.negatives += equal_negatives;
    ranking.positives += equal_positives;
    i = end;
  }
  return ranking;
}

// A NaN is in no order: to sort it is undefined.
bool HasNaN(const std::vector<Metrics::Score>& scores) {
  return std::any_of(
      scores.begin(), scores.end(),
      [](const Metrics::Score& score) { return std::isnan(score.score); });
}

double AreaUnderCurve(std::vector<Metrics::Score> scores) {
  if (HasNaN(scores)) return kNaN;
  std::sort(scores.begin(), scores.end(),
            [](const Metrics::Score& a, const Metrics::Score& b) {
              return a.score < b.score;
            });
  return RankingOf(
             scores.size(), [&](size_t i) { return scores[i]; },
             [](size_t) { return 1.0; })
      .area();
}

double WeightedArea(const std::vector<Metrics::Score>& scores,
                    const std::vector<float>& weights) {
  CHECK(scores.size() == weights.size(), "each score has a weight");
  if (HasNaN(scores)) return kNaN;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return scores[a].score < scores[b].score;
  });
  return RankingOf(
             order.size(), [&](size_t i) { return scores[order[i]]; },
             [&](size_t i) { return double{weights[order[i]]}; })
      .area();
}

double NormalisedEntropy(const Metrics::Sum& sum) {
  const double share = sum.positives / sum.count;
  if (!(share > 0 && share < 1)) return kNaN;
  const double known =
      -share * std::log(share) - (1 - share) * std::log(1 - share);
  return sum.sum / sum.count / known;
}

// `weights`: empty, or one for each score.
double AreaOverGroups(const std::vector<Metrics::Score>& scores,
                      const std::vector<int64_t>& groups,
                      const std::vector<float>& weights) {
  CHECK(scores.size() == groups.size(), "each score has a group");
  CHECK(weights.empty() || scores.size() == weights.size(),
        "each score has a weight");
  if (HasNaN(scores)) return kNaN;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(groups[a], scores[a].score) <
           std::tie(groups[b], scores[b].score);
  });
  double sum = 0;
  double counted = 0;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && groups[order[end]] == groups[order[begin]]) {
      ++end;
    }
    const Ranking ranking = RankingOf(
        end - begin, [&](size_t i) { return scores[order[begin + i]]; },
        [&](size_t i) {
          return weights.empty() ? 1.0 : double{weights[order[begin + i]]};
        });
    if (ranking.positives == 0 || ranking.negatives == 0) continue;
    const double size = ranking.positives + ranking.negatives;
    sum += size * ranking.area();
    counted += size;
  }
  return sum / counted;
}

// Of the positives at `order`, scores that fall, the share that is among the
// first k. Of equal scores around the k-th each is there as often as there is
// room for one of them. NaN if there is no positive.
template <typename WeightAt>
double RecallOf(absl::Span<const size_t> order,
                const std::vector<Metrics::Score>& scores, uint32_t k,
                WeightAt weight_at) {
  double positives = 0;
  double found = 0;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double equal = 0;  // Positives.
    for (; end < order.size() &&
           scores[order[end]].score == scores[order[begin]].score;
         ++end) {
      if (scores[order[end]].positive) equal += weight_at(order[end]);
    }
    const size_t room = std::min<size_t>(end, k) - std::min<size_t>(begin, k);
    positives += equal;
    found +=
        equal * static_cast<double>(room) / static_cast<double>(end - begin);
  }
  return positives > 0 ? found / positives : kNaN;
}

// `weights`: empty, or one for each score. A score of weight 0 is not there.
double RecallOverGroups(const std::vector<Metrics::Score>& scores,
                        const std::vector<int64_t>& groups,
                        const std::vector<float>& weights, uint32_t k) {
  CHECK(scores.size() == groups.size(), "each score has a group");
  CHECK(weights.empty() || scores.size() == weights.size(),
        "each score has a weight");
  if (HasNaN(scores)) return kNaN;
  std::vector<size_t> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (weights.empty() || weights[i] > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_tuple(groups[a], -scores[a].score) <
           std::make_tuple(groups[b], -scores[b].score);
  });
  double sum = 0;
  double counted = 0;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && groups[order[end]] == groups[order[begin]]) {
      ++end;
    }
    const double recall = RecallOf(
        absl::MakeConstSpan(order).subspan(begin, end - begin), scores, k,
        [&](size_t i) { return weights.empty() ? 1.0 : double{weights[i]}; });
    if (std::isnan(recall)) continue;
    sum += recall;
    ++counted;
  }
  return sum / counted;
}

// Whose values a slice has, in the order of slices.
std::tuple<absl::string_view, uint32_t> KeyOf(const Metrics& slice) {
  return {slice.feature, slice.value};
}

void AddSlices(const std::vector<Metrics>& more, std::vector<Metrics>* slices) {
  for (const Metrics& one : more) {
    const auto place = std::lower_bound(
        slices->begin(), slices->end(), one,
        [](const Metrics& a, const Metrics& b) { return KeyOf(a) < KeyOf(b); });
    if (place != slices->end() && KeyOf(*place) == KeyOf(one)) {
      *place += one;
    } else {
      slices->insert(place, one);
    }
  }
}

// Whether a calibration was counted without its buckets, as of a slice, or by
// a version that has none.
bool LacksBuckets(const Metrics& metrics) {
  return metrics.buckets.empty() &&
         std::any_of(metrics.sums.begin(), metrics.sums.end(),
                     [](const Metrics::Sum& sum) {
                       return sum.kind == Metrics::Kind::kCalibration &&
                              sum.sum > 0;
                     });
}

void AddBuckets(const std::vector<Metrics::Bucket>& more,
                std::vector<Metrics::Bucket>* buckets) {
  if (more.empty()) return;
  buckets->resize(Metrics::kBuckets);
  for (size_t i = 0; i < more.size(); ++i) {
    (*buckets)[i].count += more[i].count;
    (*buckets)[i].predicted += more[i].predicted;
    (*buckets)[i].positives += more[i].positives;
  }
}

double ValueOf(const Metrics& metrics, const Metrics::Sum& sum,
               double of_nothing) {
  using Kind = Metrics::Kind;
  if (sum.kind == Kind::kAuc) {
    return metrics.weighted
               ? WeightedArea(metrics.scores, metrics.score_weights)
               : AreaUnderCurve(metrics.scores);
  }
  if (sum.kind == Kind::kGroupAuc) {
    return AreaOverGroups(metrics.scores, metrics.groups,
                          metrics.score_weights);
  }
  if (sum.kind == Kind::kGroupRecall) {
    return RecallOverGroups(metrics.scores, metrics.groups,
                            metrics.score_weights, sum.k);
  }
  if (sum.kind == Kind::kNormalisedEntropy) return NormalisedEntropy(sum);
  if (sum.kind == Kind::kCalibration && sum.count == 0) return kNaN;
  if (metrics.weighted && sum.count == 0) return kNaN;
  if (sum.kind == Kind::kAccuracy && !metrics.weighted) {
    return metrics.labels == 0 ? of_nothing : metrics.accuracy();
  }
  const double mean = sum.count == 0 ? of_nothing : sum.sum / sum.count;
  return sum.kind == Kind::kPerplexity ? std::exp(mean) : mean;
}

// As Values gives them; a mean of nothing is `of_nothing`.
std::vector<NamedValue> ValuesOf(const Metrics& metrics, double of_nothing) {
  std::vector<NamedValue> values = {
      {"loss", metrics.examples == 0 ? of_nothing : metrics.mean_loss()}};
  for (const Metrics::Sum& sum : metrics.sums) {
    values.push_back({sum.name(), ValueOf(metrics, sum, of_nothing)});
  }
  for (const Metrics& one : metrics.outputs) {
    for (const NamedValue& value : ValuesOf(one, of_nothing)) {
      values.push_back(
          {absl::StrCat(one.output, "/", value.name), value.value});
    }
  }
  return values;
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
    case Kind::kGroupAuc:
      return "group_auc";
    case Kind::kGroupRecall:
      return absl::StrCat("recall_at_", k);
    case Kind::kNormalisedEntropy:
      return "normalised_entropy";
    case Kind::kCalibration:
      return "calibration";
  }
  return "";
}

void Metrics::DropBuckets() {
  buckets.clear();
  for (Metrics& one : outputs) one.DropBuckets();
}

Metrics& Metrics::operator+=(const Metrics& other) {
  const bool by_bucket = !LacksBuckets(*this) && !LacksBuckets(other);
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
      sums[i].positives += other.sums[i].positives;
    }
  }
  scores.insert(scores.end(), other.scores.begin(), other.scores.end());
  groups.insert(groups.end(), other.groups.begin(), other.groups.end());
  score_weights.insert(score_weights.end(), other.score_weights.begin(),
                       other.score_weights.end());
  if (by_bucket) {
    AddBuckets(other.buckets, &buckets);
  } else {
    buckets.clear();
  }
  weighted |= other.weighted;
  AddSlices(other.slices, &slices);
  if (outputs.empty()) {
    outputs = other.outputs;
    return *this;
  }
  CHECK(other.outputs.empty() || outputs.size() == other.outputs.size(),
        "metrics that are added are of the same model");
  for (size_t i = 0; i < other.outputs.size(); ++i) {
    outputs[i] += other.outputs[i];
  }
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
  return ValuesOf(*this, feature.empty() ? 0 : kNaN);
}

}  // namespace paramd
