#include "worker/gradient_step.h"

#include <algorithm>

#include "base/status_macros.h"
#include "config/batch_rule.h"

namespace paramd {
namespace {

void NoneReady(size_t /*variable*/) {}

// Memory like that of `like`.
std::vector<absl::Span<float>> SpansOf(
    GradientSpans like, std::vector<std::vector<float>>* values) {
  values->resize(like.size());
  std::vector<absl::Span<float>> spans;
  for (size_t v = 0; v < like.size(); ++v) {
    (*values)[v].resize(like[v].size());
    spans.push_back(absl::MakeSpan((*values)[v]));
  }
  return spans;
}

void Add(GradientSpans from, GradientSpans to) {
  for (size_t v = 0; v < to.size(); ++v) {
    for (size_t i = 0; i < to[v].size(); ++i) to[v][i] += from[v][i];
  }
}

void Scale(float factor, GradientSpans gradients) {
  for (const absl::Span<float> variable : gradients) {
    for (float& value : variable) value *= factor;
  }
}

}  // namespace

size_t CountSparse(absl::Span<const v1::Variable> variables) {
  return std::count_if(
      variables.begin(), variables.end(),
      [](const v1::Variable& variable) { return variable.sparse(); });
}

StepWeights ReadWeights(const BufferChain& handed_out,
                        absl::Span<const v1::Variable> variables) {
  StepWeights weights;
  for (size_t i = 0; i < handed_out.size(); ++i) {
    const absl::Span<const std::byte> bytes = handed_out[i].bytes();
    if (i < variables.size()) {
      weights.values.emplace_back(reinterpret_cast<const float*>(bytes.data()),
                                  bytes.size() / sizeof(float));
    } else {
      weights.rows.emplace_back(reinterpret_cast<const uint64_t*>(bytes.data()),
                                bytes.size() / sizeof(uint64_t));
    }
  }
  return weights;
}

BufferChain PackRows(std::vector<std::vector<uint64_t>> rows) {
  BufferChain packed;
  for (std::vector<uint64_t>& some : rows) {
    std::sort(some.begin(), some.end());
    some.erase(std::unique(some.begin(), some.end()), some.end());
    packed.push_back(Buffer::Copy(AsBytes(absl::MakeConstSpan(some))));
  }
  return packed;
}

GradientStep::GradientStep(const v1::JobConfig& job, TrainedModel* model)
    : batch_(job.batch_per_replica()),
      gradient_examples_(ExamplesPerGradient(job)),
      rate_(static_cast<float>(job.optimizer().learning_rate())),
      seed_(job.seed()),
      loss_scale_(job.loss_scale()),
      clip_(job.optimizer(), model->variables()),
      model_(*model) {}

// A gradient, of those that make up a push, is of whole batches but the last.
std::vector<Portion> GradientStep::BatchesOf(
    const v1::ComputeGradient& request) const {
  std::vector<Portion> batches;
  for (uint64_t from = request.begin(); from < request.end(); from += batch_) {
    batches.push_back({.epoch = request.epoch(),
                       .begin = from,
                       .end = std::min(from + batch_, request.end())});
  }
  return batches;
}

absl::StatusOr<Metrics> GradientStep::Compute(
    const v1::ComputeGradient& request, const StepWeights& handed,
    NextBatch next_batch, const std::atomic<bool>* abandoned,
    GradientSpans gradients, TrainedModel::Ready ready) {
  const WeightSpans weights = handed.values;
  rows_ = handed.rows;
  // In sync mode, which says what to divide by, a step is one gradient.
  const uint64_t length =
      request.divide_by() > 0 ? request.end() : gradient_examples_;
  const bool is_one = request.end() - request.begin() <= length;
  left_out_ = 0;
  if (is_one) {
    return ComputeOne(request, request.begin(), request.end(), weights,
                      next_batch, abandoned, gradients, ready, take_);
  }
  Metrics sum;
  has_moved_ = false;
  const std::vector<absl::Span<float>> next = SpansOf(gradients, &gradient_);
  std::vector<absl::Span<const float>> present(weights.begin(), weights.end());
  for (uint64_t begin = request.begin(); begin < request.end();
       begin += length) {
    const bool is_first = begin == request.begin();
    const GradientSpans into = is_first ? gradients : GradientSpans(next);
    const uint64_t end = std::min(begin + length, request.end());
    ASSIGN_OR_RETURN(const Metrics metrics,
                     ComputeOne(request, begin, end, present, next_batch,
                                abandoned, into, NoneReady,
                                /*take=*/nullptr));
    sum += metrics;
    clip_.Apply(into);
    if (!is_first) Add(into, gradients);
    if (end == request.end()) break;
    Move(weights, into);
    present.assign(moved_.begin(), moved_.end());
  }
  return sum;
}

absl::StatusOr<Metrics> GradientStep::ComputeOne(
    const v1::ComputeGradient& request, uint64_t begin, uint64_t end,
    WeightSpans weights, NextBatch next_batch,
    const std::atomic<bool>* abandoned, GradientSpans gradients,
    TrainedModel::Ready ready, const TrainedModel::Take* take) {
  TrainedModel::StepOptions options;
  options.abandoned = abandoned;
  options.seed = seed_;
  options.loss_scale = loss_scale_;
  // A step of sync mode, which is of no portion, is a function of its weights
  // and examples alone.
  options.remembers_loss_scale =
      request.divide_by() == 0 || request.portion() > 0;
  options.rows = rows_;
  options.sharing = sharing_;
  options.next = next_;
  const bool is_whole = end - begin <= batch_;
  if (is_whole) options.take = take;
  Metrics sum;
  for (uint64_t from = begin; from < end; from += batch_) {
    const Portion range = {.epoch = request.epoch(),
                           .begin = from,
                           .end = std::min(from + batch_, end)};
    ASSIGN_OR_RETURN(const Batch* const batch, next_batch(range));
    const uint64_t counted = model_.CountedExamples(*batch);
    const uint64_t own =
        is_whole ? std::max<uint64_t>(counted, 1) : end - begin;
    options.divisor = static_cast<double>(
        request.divide_by() > 0 ? request.divide_by() : own);
    std::vector<absl::Span<float>> next;
    if (from > begin) next = SpansOf(gradients, &batch_gradient_);
    const GradientSpans into = from > begin ? GradientSpans(next) : gradients;
    ASSIGN_OR_RETURN(
        const Metrics metrics,
        model_.Step(weights, *batch, options, into,
                    is_whole ? ready : TrainedModel::Ready(NoneReady)));
    if (abandoned != nullptr && *abandoned) {
      return absl::CancelledError("the gradient was abandoned");
    }
    if (from > begin) Add(into, gradients);
    // A program may leave a batch out, too.
    left_out_ += range.size() - (metrics.examples > 0 ? counted : 0);
    sum += metrics;
  }
  // The input has left some out: their number is known only now.
  if (!is_whole && request.divide_by() == 0 && sum.examples > 0 &&
      sum.examples < end - begin) {
    Scale(static_cast<float>(end - begin) / static_cast<float>(sum.examples),
          gradients);
  }
  return sum;
}

void GradientStep::Move(WeightSpans weights, GradientSpans gradients) {
  if (!has_moved_) {
    moved_.resize(weights.size());
    for (size_t v = 0; v < weights.size(); ++v) {
      moved_[v].assign(weights[v].begin(), weights[v].end());
    }
  }
  has_moved_ = true;
  for (size_t v = 0; v < moved_.size(); ++v) {
    const float rate = model_.variables()[v].untrained() ? 1 : rate_;
    for (size_t i = 0; i < moved_[v].size(); ++i) {
      moved_[v][i] -= rate * gradients[v][i];
    }
  }
}

}  // namespace paramd
