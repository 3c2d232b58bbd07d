#include "worker/model/loss.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "worker/device/float_type.h"

namespace paramd {

// One batch. Null `gradient`: nobody wants it.
template <class T>
struct Loss::Work {
  uint64_t examples;
  const T* outputs;
  ConstTensor target;
  T* gradient;
  double scale;
  bool scored;
  absl::Span<const int64_t> groups;

  void Keep(uint64_t example, T score, bool positive, Metrics* metrics) const {
    if (!scored) return;
    metrics->scores.push_back({static_cast<float>(score), positive});
    if (!groups.empty()) metrics->groups.push_back(groups[example]);
  }
};

namespace {

uint64_t Largest(const float* row, uint64_t size) {
  return static_cast<uint64_t>(std::max_element(row, row + size) - row);
}

uint64_t Largest(const double* row, uint64_t size) {
  return static_cast<uint64_t>(std::max_element(row, row + size) - row);
}

// log(1 + exp(z)) - y z, which overflows for no finite z.
template <class T>
T BinaryCrossEntropy(T z, T y) {
  return std::max(z, T(0)) - z * y + std::log1p(std::exp(-std::abs(z)));
}

}  // namespace

Loss::Loss(Options options, Dims outputs)
    : options_(std::move(options)),
      outputs_(SizeOf(outputs)),
      classes_(outputs.empty() ? 1 : outputs.back()) {}

absl::Status Loss::Check(const ConstTensor& target, ExampleName name) const {
  if (target.size() == 0) return absl::OkStatus();
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
    return absl::DataLossError(absl::StrCat(
        name(i / per_example), ": the label is ", labels[i],
        "; it must be from 0 to ", classes_ - 1));
  }
  return absl::OkStatus();
}

Metrics Loss::Compute(const ConstTensor& outputs, const ConstTensor& target,
                      double scale, const Tensor& gradient, bool scored,
                      absl::Span<const int64_t> groups) const {
  Metrics metrics;
  metrics.examples = outputs.size() / outputs_;
  metrics.sums.assign(options_.metrics.begin(), options_.metrics.end());
  bool by_groups = false;
  bool areas = false;
  for (const Metrics::Sum& sum : metrics.sums) {
    by_groups = by_groups || sum.kind == Metrics::Kind::kGroupAuc;
    areas = areas || by_groups || sum.kind == Metrics::Kind::kAuc;
  }
  WithFloatType(outputs.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Work<T> work{metrics.examples,
                       outputs.values<T>().data(),
                       target,
                       static_cast<T*>(gradient.data),
                       scale,
                       scored && areas,
                       by_groups ? groups : absl::Span<const int64_t>()};
    switch (options_.kind) {
      case v1::SOFTMAX_CROSS_ENTROPY:
        return Classes<T>(work, &metrics);
      case v1::KL_DIVERGENCE:
        return Divergence<T>(work, &metrics);
      default:
        return Numbers<T>(work, &metrics);
    }
  });
  return metrics;
}

template <class T>
void Loss::CountClass(const T* row, uint64_t label, uint64_t largest,
                      double loss, Metrics* metrics) const {
  ++metrics->labels;
  if (largest == label) ++metrics->correct;
  for (Metrics::Sum& sum : metrics->sums) {
    ++sum.count;
    if (sum.kind == Metrics::Kind::kPerplexity) sum.sum += loss;
    if (sum.kind == Metrics::Kind::kTopK) {
      // Of equal outputs the first counts.
      uint64_t above = 0;
      for (uint64_t j = 0; j < classes_; ++j) {
        above += row[j] > row[label] || (j < label && row[j] == row[label]);
      }
      if (above < sum.k) ++sum.sum;
    }
  }
}

template <class T>
void Loss::Classes(const Work<T>& work, Metrics* metrics) const {
  const uint64_t places = outputs_ / classes_;
  const int32_t* labels = work.target.template values<int32_t>().data();
  const double smoothing = options_.label_smoothing;
  const double share = smoothing / static_cast<double>(classes_);
  for (uint64_t i = 0; i < work.examples; ++i, labels += places) {
    const auto counted = static_cast<double>(
        std::count_if(labels, labels + places, [&](int32_t label) {
          return label != options_.ignore_label;
        }));
    for (uint64_t p = 0; p < places; ++p) {
      const uint64_t at = (i * places + p) * classes_;
      const T* row = work.outputs + at;
      T* out = work.gradient == nullptr ? nullptr : work.gradient + at;
      if (labels[p] == options_.ignore_label) {
        if (out != nullptr) std::fill_n(out, classes_, T(0));
        continue;
      }
      const auto label = static_cast<uint64_t>(labels[p]);
      const uint64_t largest = Largest(row, classes_);
      T sum = 0;
      double shifted = 0;  // The sum of what the outputs are below the largest.
      for (uint64_t j = 0; j < classes_; ++j) {
        const T exponential = std::exp(row[j] - row[largest]);
        sum += exponential;
        if (out != nullptr) out[j] = exponential;
        if (smoothing > 0) shifted += double{row[j]} - double{row[largest]};
      }
      const double log_sum = std::log(double{sum});
      const double loss =
          log_sum + double{row[largest]} - double{row[label]};
      const double weight = options_.class_weights.empty()
                                ? 1
                                : options_.class_weights[label];
      double smoothed = loss;
      if (smoothing > 0) {
        smoothed = (1 - smoothing) * loss + smoothing * log_sum -
                   share * shifted;
      }
      metrics->loss_sum += weight * smoothed / counted;
      CountClass(row, label, largest, loss, metrics);
      if (work.scored) work.Keep(i, row[1] - row[0], label == 1, metrics);
      if (out == nullptr) continue;
      const T scale = static_cast<T>(work.scale * weight / counted);
      for (uint64_t j = 0; j < classes_; ++j) {
        out[j] = (out[j] / sum - static_cast<T>(share)) * scale;
      }
      out[label] -= static_cast<T>(1 - smoothing) * scale;
    }
  }
}

template <class T>
void Loss::Numbers(const Work<T>& work, Metrics* metrics) const {
  const auto target = work.target.template values<float>();
  const bool binary = options_.kind == v1::BINARY_CROSS_ENTROPY;
  const T scale = static_cast<T>(work.scale / static_cast<double>(outputs_));
  double sum = 0;
  for (uint64_t i = 0; i < work.examples * outputs_; ++i) {
    const T z = work.outputs[i];
    const T y = static_cast<T>(target[i]);
    sum += binary ? BinaryCrossEntropy(z, y) : (z - y) * (z - y);
    if (work.gradient != nullptr) {
      work.gradient[i] =
          scale * (binary ? 1 / (1 + std::exp(-z)) - y : 2 * (z - y));
    }
    if (!binary) continue;
    ++metrics->labels;
    if ((z > 0) == (y > T(0.5))) ++metrics->correct;
    work.Keep(i / outputs_, z, y > T(0.5), metrics);
  }
  metrics->loss_sum = sum / static_cast<double>(outputs_);
  for (Metrics::Sum& metric : metrics->sums) {
    if (metric.kind != Metrics::Kind::kMeanSquaredError) continue;
    metric.sum = sum;
    metric.count = static_cast<double>(work.examples * outputs_);
  }
}

template <class T>
void Loss::Divergence(const Work<T>& work, Metrics* metrics) const {
  const auto target = work.target.template values<float>();
  const uint64_t places = outputs_ / classes_;
  const double part = 1 / static_cast<double>(places);
  for (uint64_t at = 0; at < work.examples * outputs_; at += classes_) {
    const T* row = work.outputs + at;
    const T largest = row[Largest(row, classes_)];
    T sum = 0;
    for (uint64_t j = 0; j < classes_; ++j) sum += std::exp(row[j] - largest);
    const T log_sum = std::log(sum) + largest;
    double mass = 0;
    for (uint64_t j = 0; j < classes_; ++j) {
      const double y = double{target[at + j]};
      mass += y;
      // 0 log 0 is 0, but a broken output shows all the same.
      const double log_y = y > 0 ? std::log(y) : 0;
      metrics->loss_sum += part * y * (log_y - double{row[j] - log_sum});
    }
    if (!std::isfinite(sum)) metrics->loss_sum = NAN;
    if (work.gradient == nullptr) continue;
    for (uint64_t j = 0; j < classes_; ++j) {
      work.gradient[at + j] = static_cast<T>(
          work.scale * part *
          (mass * double{std::exp(row[j] - log_sum)} -
           double{target[at + j]}));
    }
  }
}

std::vector<std::string> Loss::metrics() const {
  std::vector<std::string> names;
  for (const Metrics::Sum& sum : options_.metrics) names.push_back(sum.name());
  return names;
}

void Loss::Predict(const ConstTensor& outputs, const Tensor& prediction) const {
  WithFloatType(outputs.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = outputs.values<T>();
    const auto to = prediction.values<T>();
    const bool classes = options_.kind == v1::SOFTMAX_CROSS_ENTROPY ||
                         options_.kind == v1::KL_DIVERGENCE;
    for (uint64_t at = 0; at < from.size(); at += classes_) {
      const T* row = from.data() + at;
      const T largest = row[Largest(row, classes_)];
      T sum = 0;
      for (uint64_t j = 0; j < classes_; ++j) {
        if (classes) {
          sum += to[at + j] = std::exp(row[j] - largest);
        } else if (options_.kind == v1::BINARY_CROSS_ENTROPY) {
          to[at + j] = 1 / (1 + std::exp(-row[j]));
        } else {
          to[at + j] = row[j];
        }
      }
      for (uint64_t j = 0; classes && j < classes_; ++j) to[at + j] /= sum;
    }
  });
}

}  // namespace paramd
