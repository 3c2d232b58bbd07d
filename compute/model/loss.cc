#include "compute/model/loss.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "compute/device/float_type.h"
#include "compute/device/reference_device.h"

namespace paramd {

namespace {

uint64_t Largest(const float* row, uint64_t size) {
  return static_cast<uint64_t>(std::max_element(row, row + size) - row);
}

uint64_t Largest(const double* row, uint64_t size) {
  return static_cast<uint64_t>(std::max_element(row, row + size) - row);
}

RowLoss::Kind KindOf(v1::Loss loss) {
  switch (loss) {
    case v1::SOFTMAX_CROSS_ENTROPY:
      return RowLoss::Kind::kSoftmaxCrossEntropy;
    case v1::KL_DIVERGENCE:
      return RowLoss::Kind::kDivergence;
    case v1::BINARY_CROSS_ENTROPY:
      return RowLoss::Kind::kBinaryCrossEntropy;
    case v1::IN_BATCH_SOFTMAX:
      return RowLoss::Kind::kInBatchSoftmax;
    default:
      return RowLoss::Kind::kSquaredError;
  }
}

RowLoss RowLossOf(const Loss::Options& options) {
  RowLoss loss;
  loss.kind = KindOf(options.kind);
  loss.smoothing = options.label_smoothing;
  if (options.ignore_label.has_value()) loss.ignored = *options.ignore_label;
  return loss;
}

// How many terms an example's mean has, where labels are no classes.
uint64_t TermsOf(v1::Loss loss, uint64_t outputs, uint64_t places) {
  switch (loss) {
    case v1::KL_DIVERGENCE:
      return places;
    case v1::IN_BATCH_SOFTMAX:
      return 1;
    default:
      return outputs;
  }
}

// The product of each pair of vectors.
template <class T>
void MultiplyPairs(absl::Span<const T> outputs, uint64_t width,
                   absl::Span<T> products) {
  for (uint64_t i = 0; i < products.size(); ++i) {
    const T* const pair = outputs.data() + i * 2 * width;
    double sum = 0;
    for (uint64_t w = 0; w < width; ++w) {
      sum += double{pair[w]} * double{pair[width + w]};
    }
    products[i] = static_cast<T>(sum);
  }
}

// What is said of a row.
absl::Span<const double> RowAt(absl::Span<const double> numbers, uint64_t row) {
  return numbers.subspan(row * RowLoss::kNumbers, RowLoss::kNumbers);
}

double Probability(double score) { return 1 / (1 + std::exp(-score)); }

void AddToBucket(double score, double label, double weight,
                 std::vector<Metrics::Bucket>* buckets) {
  const double probability = Probability(score);
  if (std::isnan(probability)) return;
  buckets->resize(Metrics::kBuckets);
  const int place = static_cast<int>(probability * Metrics::kBuckets);
  Metrics::Bucket& bucket = (*buckets)[std::min(place, Metrics::kBuckets - 1)];
  bucket.count += weight;
  bucket.predicted += weight * probability;
  bucket.positives += weight * label;
}

// What a metric of outputs, but an area, is made of: `score` is the logarithm
// of the odds that the label is 1.
void AddScore(double score, double label, double weight, Metrics::Sum* sum) {
  if (sum->kind == Metrics::Kind::kCalibration) {
    sum->sum += weight * Probability(score);
    sum->count += weight * label;
  }
  if (sum->kind == Metrics::Kind::kNormalisedEntropy) {
    sum->sum += weight * (std::max(score, 0.0) - score * label +
                          std::log1p(std::exp(-std::abs(score))));
    sum->count += weight;
    sum->positives += weight * label;
  }
}

}  // namespace

Loss::Loss(Options options, Dims outputs)
    : options_(std::move(options)),
      outputs_(SizeOf(outputs)),
      classes_(outputs.empty() ? 1 : outputs.back()),
      row_loss_(RowLossOf(options_)),
      columns_(TargetIsIndex() || options_.kind == v1::KL_DIVERGENCE
                   ? classes_
                   : outputs_),
      terms_(static_cast<double>(
          TermsOf(options_.kind, outputs_, outputs_ / classes_))) {}

absl::Status Loss::Check(const ConstTensor& target, ExampleName name) const {
  if (target.size() == 0 || IsOfBatch()) return absl::OkStatus();
  const uint64_t per_example = target.size() / target.dims[0];
  if (!TargetIsIndex()) {
    const auto values = target.values<float>();
    const bool bounded = options_.kind == v1::BINARY_CROSS_ENTROPY ||
                         options_.kind == v1::KL_DIVERGENCE;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!bounded || (values[i] >= 0 && values[i] <= 1)) continue;
      return absl::DataLossError(
          absl::StrCat(name(i / per_example), ": the label has ", values[i],
                       "; the loss needs numbers from 0 to 1"));
    }
    return absl::OkStatus();
  }
  const auto labels = target.values<int32_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == options_.ignore_label) continue;
    if (labels[i] >= 0 && static_cast<uint64_t>(labels[i]) < classes_) continue;
    return absl::DataLossError(
        absl::StrCat(name(i / per_example), ": the label is ", labels[i],
                     "; it must be from 0 to ", classes_ - 1));
  }
  return absl::OkStatus();
}

uint64_t Loss::CountedExamples(const ConstTensor& target) const {
  const uint64_t all = target.dims[0];
  if (!TargetIsIndex() || !options_.ignore_label.has_value()) return all;
  uint64_t counted = 0;
  for (uint64_t i = 0; i < all; ++i) counted += Counts(target, i) ? 1 : 0;
  return counted;
}

bool Loss::Counts(const ConstTensor& target, uint64_t example) const {
  if (!TargetIsIndex() || !options_.ignore_label.has_value()) return true;
  const uint64_t places = RowsOf(1);
  const auto labels =
      target.values<int32_t>().subspan(example * places, places);
  return std::any_of(labels.begin(), labels.end(), [this](int32_t label) {
    return label != options_.ignore_label;
  });
}

template <class Function>
void Loss::ForEachLabel(const ConstTensor& target, Function f) const {
  const auto labels = target.values<int32_t>();
  const uint64_t places = RowsOf(1);
  const auto counts = [&](int32_t label) {
    return label != options_.ignore_label;
  };
  for (uint64_t first = 0; first < labels.size(); first += places) {
    const auto of_example = labels.subspan(first, places);
    const auto counted = static_cast<double>(
        std::count_if(of_example.begin(), of_example.end(), counts));
    for (uint64_t p = 0; p < places; ++p) {
      if (!counts(of_example[p])) continue;
      const auto label = static_cast<uint64_t>(of_example[p]);
      f(first + p, label,
        options_.class_weights.empty() ? 1 : options_.class_weights[label],
        counted);
    }
  }
}

// A row of weight 0 gets a factor of 0 even where its loss is not finite, which
// shows in the loss: 0 times it is not finite either.
void Loss::FillFactors(const ConstTensor& target, double scale,
                       std::vector<double>* factors, Weights weights) const {
  if (!TargetIsIndex()) {
    factors->assign(RowsOf(target.dims[0]), scale / terms_);
    for (uint64_t row = 0; !weights.empty() && row < factors->size(); ++row) {
      (*factors)[row] *= WeightOf(row, weights);
    }
    return;
  }
  factors->assign(target.size(), 0);
  ForEachLabel(target, [&](uint64_t row, uint64_t /*label*/, double weight,
                           double counted) {
    (*factors)[row] = scale * weight / counted * WeightOf(row, weights);
  });
}

Metrics Loss::Count(const ConstTensor& target, absl::Span<const double> numbers,
                    Weights weights) const {
  Metrics metrics;
  const uint64_t rows = numbers.size() / RowLoss::kNumbers;
  metrics.examples = CountedExamples(target);
  metrics.sums.assign(options_.metrics.begin(), options_.metrics.end());
  metrics.weighted = !weights.empty();
  if (TargetIsIndex()) {
    ForEachLabel(target, [&](uint64_t row, uint64_t /*label*/, double weight,
                             double counted) {
      const auto said = RowAt(numbers, row);
      const double of_example = WeightOf(row, weights);
      metrics.loss_sum += weight * said[RowLoss::kLoss] / counted * of_example;
      CountLabel(said, of_example, &metrics);
    });
    return metrics;
  }
  if (IsOfBatch()) {
    for (uint64_t row = 0; row < rows; ++row) {
      const double weight = WeightOf(row, weights);
      metrics.loss_sum += RowAt(numbers, row)[RowLoss::kLoss] * weight;
      CountLabel(RowAt(numbers, row), weight, &metrics);
    }
    return metrics;
  }
  double sum = 0;
  double correct = 0;
  double weighted_correct = 0;
  double weighted_rows = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    const auto said = RowAt(numbers, row);
    const double weight = WeightOf(row, weights);
    sum += weight * said[RowLoss::kLoss];
    correct += said[RowLoss::kCount];
    weighted_correct += weight * said[RowLoss::kCount];
    weighted_rows += weight;
  }
  metrics.correct = static_cast<uint64_t>(correct);
  const uint64_t values = rows * columns_;
  if (options_.kind == v1::BINARY_CROSS_ENTROPY) metrics.labels = values;
  metrics.loss_sum = sum / terms_;
  const double counted = weighted_rows * static_cast<double>(columns_);
  for (Metrics::Sum& metric : metrics.sums) {
    if (metric.kind == Metrics::Kind::kAccuracy) {
      metric.sum = weighted_correct;
      metric.count = counted;
    }
    if (metric.kind != Metrics::Kind::kMeanSquaredError) continue;
    metric.sum = sum;
    metric.count = counted;
  }
  return metrics;
}

void Loss::CountLabel(absl::Span<const double> row, double weight,
                      Metrics* metrics) const {
  // Nothing is above a NaN, or below it.
  const bool is_known = std::isfinite(row[RowLoss::kPlainLoss]);
  const double above = row[RowLoss::kCount];
  const bool is_correct = is_known && above == 0;
  ++metrics->labels;
  if (is_correct) ++metrics->correct;
  for (Metrics::Sum& sum : metrics->sums) {
    if (sum.is_of_outputs()) continue;
    sum.count += weight;
    if (sum.kind == Metrics::Kind::kPerplexity) {
      sum.sum += weight * row[RowLoss::kPlainLoss];
    }
    const bool counts =
        sum.kind == Metrics::Kind::kTopK
            ? is_known && above < sum.k
            : sum.kind == Metrics::Kind::kAccuracy && is_correct;
    if (counts) sum.sum += weight;
  }
}

RowLoss Loss::SoftRowLoss(const Target& target) const {
  RowLoss loss;
  loss.kind = RowLoss::Kind::kDivergence;
  loss.temperature = target.temperature;
  return loss;
}

void Loss::FillSoftFactors(const Target& target, double scale,
                           std::vector<double>* factors) const {
  // Squared, so that another temperature is not another weight.
  const double part = target.alpha * target.temperature * target.temperature;
  factors->assign(target.labels.size(), 0);
  ForEachLabel(target.labels, [&](uint64_t row, uint64_t /*label*/,
                                  double /*weight*/, double counted) {
    (*factors)[row] = scale * part / counted * WeightOf(row, target.weights);
  });
}

void Loss::AddSoft(const Target& target, absl::Span<const double> numbers,
                   Metrics* metrics) const {
  double sum = 0;
  ForEachLabel(target.labels, [&](uint64_t row, uint64_t /*label*/,
                                  double /*weight*/, double counted) {
    sum += RowAt(numbers, row)[RowLoss::kLoss] / counted *
           WeightOf(row, target.weights);
  });
  metrics->loss_sum =
      (1 - target.alpha) * metrics->loss_sum +
      target.alpha * target.temperature * target.temperature * sum;
}

bool Loss::NeedsScores() const {
  return std::any_of(
      options_.metrics.begin(), options_.metrics.end(),
      [](const Metrics::Sum& sum) { return sum.is_of_outputs(); });
}

Metrics Loss::Compute(const ConstTensor& outputs, const ConstTensor& target,
                      double scale, const Tensor& gradient, bool scored,
                      absl::Span<const int64_t> groups, Weights weights) const {
  CHECK(!IsOfBatch(), "rows of outputs are compared, and not a batch");
  std::vector<double> factors;
  FillFactors(target, scale, &factors, weights);
  std::vector<double> numbers(factors.size() * RowLoss::kNumbers);
  ReferenceDevice().Losses(
      row_loss_, outputs, target,
      ConstTensor(factors.data(), DType::kFloat64, {factors.size()}), gradient,
      {numbers.data(), DType::kFloat64, {numbers.size()}});
  Metrics metrics = Count(target, numbers, weights);
  if (!scored || !NeedsScores()) return metrics;
  WithFloatType(outputs.dtype, [&](auto zero) {
    KeepScores(outputs.values<decltype(zero)>().data(), target, groups, weights,
               &metrics);
  });
  return metrics;
}

template <class T>
void Loss::KeepScores(const T* outputs, const ConstTensor& target,
                      absl::Span<const int64_t> groups, Weights weights,
                      Metrics* metrics) const {
  const auto has = [&](auto is_wanted) {
    return std::any_of(metrics->sums.begin(), metrics->sums.end(), is_wanted);
  };
  const bool by_scores =
      has([](const Metrics::Sum& sum) { return sum.is_of_scores(); });
  const bool by_groups =
      has([](const Metrics::Sum& sum) { return sum.is_of_groups(); });
  const bool by_buckets = has([](const Metrics::Sum& sum) {
    return sum.kind == Metrics::Kind::kCalibration;
  });
  const auto keep = [&](uint64_t example, T score, double label) {
    const double weight = weights.empty() ? 1 : double{weights[example]};
    for (Metrics::Sum& sum : metrics->sums) {
      AddScore(score, label, weight, &sum);
    }
    if (by_buckets) AddToBucket(score, label, weight, &metrics->buckets);
    if (!by_scores) return;
    metrics->scores.push_back({static_cast<float>(score), label > 0.5});
    if (by_groups) metrics->groups.push_back(groups[example]);
    if (metrics->weighted) metrics->score_weights.push_back(weights[example]);
  };
  if (TargetIsIndex()) {
    ForEachLabel(target, [&](uint64_t row, uint64_t label, double /*weight*/,
                             double /*counted*/) {
      const T* const two = outputs + row * classes_;
      keep(row / RowsOf(1), two[1] - two[0], label == 1 ? 1 : 0);
    });
    return;
  }
  const auto y = target.values<float>();
  for (uint64_t i = 0; i < y.size(); ++i) {
    keep(i / outputs_, outputs[i], double{y[i]});
  }
}

std::vector<std::string> Loss::metrics() const {
  std::vector<std::string> names;
  for (const Metrics::Sum& sum : options_.metrics) names.push_back(sum.name());
  return names;
}

void Loss::Predict(const ConstTensor& outputs, const Tensor& prediction,
                   double temperature) const {
  WithFloatType(outputs.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = outputs.values<T>();
    const auto to = prediction.values<T>();
    if (IsOfBatch()) return MultiplyPairs<T>(from, classes_, to);
    const auto divisor = static_cast<T>(temperature);
    const bool classes = options_.kind == v1::SOFTMAX_CROSS_ENTROPY ||
                         options_.kind == v1::KL_DIVERGENCE;
    for (uint64_t at = 0; at < from.size(); at += classes_) {
      const T* row = from.data() + at;
      const T largest = row[Largest(row, classes_)];
      T sum = 0;
      for (uint64_t j = 0; j < classes_; ++j) {
        if (classes) {
          sum += to[at + j] = std::exp((row[j] - largest) / divisor);
        } else if (options_.kind == v1::BINARY_CROSS_ENTROPY) {
          to[at + j] = 1 / (1 + std::exp(-row[j] / divisor));
        } else {
          to[at + j] = row[j] / divisor;
        }
      }
      for (uint64_t j = 0; classes && j < classes_; ++j) to[at + j] /= sum;
    }
  });
}

}  // namespace paramd
