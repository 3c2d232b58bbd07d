#include "worker/replica_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/mutex.h"
#include "base/status_macros.h"
#include "config/batch_rule.h"
#include "config/strategy.h"

namespace paramd {
namespace {

void Add(absl::Span<const float> from, absl::Span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

// Waits until all of a number of things have happened.
class Countdown {
 public:
  explicit Countdown(size_t count) : left_(count) {}

  void Done() {
    const MutexLock lock(&mutex_);
    if (--left_ == 0) changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(&mutex_);
    while (left_ > 0) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
};

// Adds each variable's gradients up as soon as all shares have it, on the
// thread of the last one.
class OrderedSum {
 public:
  using Gradients = std::vector<absl::Span<float>>;

  // Of [0], to which the others are added in order. Both outlive it.
  OrderedSum(const std::vector<Gradients>* shares, TrainedModel::Ready ready)
      : shares_(*shares), ready_(ready), missing_(shares->front().size()) {
    for (auto& missing : missing_) missing = static_cast<int>(shares_.size());
  }

  void Ready(size_t variable) {
    // The last one sees what the others wrote.
    if (missing_[variable].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    for (size_t s = 1; s < shares_.size(); ++s) {
      Add(shares_[s][variable], shares_.front()[variable]);
    }
    ready_(variable);
  }

 private:
  const std::vector<Gradients>& shares_;
  const TrainedModel::Ready ready_;
  std::vector<std::atomic<int>> missing_;
};

}  // namespace

ReplicaSteps::ReplicaSteps(const v1::JobConfig& job, uint32_t replicas,
                           TrainedModel* model)
    : share_(ExamplesPerGradient(job) / ReplicasOf(job)),
      all_(ReplicasOf(job)) {
  for (uint32_t r = 0; r < std::max<uint32_t>(replicas, 1); ++r) {
    Replica& replica = replicas_.emplace_back();
    if (r > 0) {
      replica.clone = model->CloneForReplica(r);
      replica.thread =
          std::make_unique<WorkerThread>(absl::StrCat("replica-", r));
    }
    replica.model = r == 0 ? model : replica.clone.get();
    replica.step = std::make_unique<GradientStep>(job, replica.model);
  }
}

LossScaling ReplicaSteps::loss_scaling() const {
  LossScaling all;
  for (const Replica& replica : replicas_) {
    const LossScaling one = replica.model->loss_scaling();
    all.overflows += one.overflows;
    if (one.scale == 0) continue;  // It has computed nothing.
    all.scale = all.scale == 0 ? one.scale : std::min(all.scale, one.scale);
  }
  return all;
}

std::vector<Portion> ReplicaSteps::RangesOf(
    const v1::ComputeGradient& request,
    absl::Span<const uint32_t> shares) const {
  const Portion whole = {.epoch = request.epoch(),
                         .begin = request.begin(),
                         .end = request.end()};
  if (all_ == 1) return {whole};
  std::vector<Portion> ranges;
  for (const uint32_t share : shares) {
    Portion range = whole;
    range.begin = std::min(whole.end, whole.begin + share * share_);
    range.end = std::min(whole.end, range.begin + share_);
    if (range.size() > 0) ranges.push_back(range);
  }
  return ranges;
}

std::vector<Portion> ReplicaSteps::BatchesOf(
    const v1::ComputeGradient& request,
    absl::Span<const uint32_t> shares) const {
  std::vector<Portion> batches;
  for (const Portion& range : RangesOf(request, shares)) {
    v1::ComputeGradient one = request;
    one.set_begin(range.begin);
    one.set_end(range.end);
    for (const Portion& batch : replicas_.front().step->BatchesOf(one)) {
      batches.push_back(batch);
    }
  }
  return batches;
}

absl::StatusOr<Metrics> ReplicaSteps::ComputeOne(
    const v1::ComputeGradient& request, const Portion& range,
    const StepWeights& weights, const Source& source,
    const std::atomic<bool>* abandoned, GradientSpans gradients,
    TrainedModel::Ready ready) {
  GradientStep& step = *replicas_.front().step;
  v1::ComputeGradient own = request;
  own.set_begin(range.begin);
  own.set_end(range.end);
  std::unique_ptr<Batch> batch;
  const auto next = [&](const Portion& wanted) -> absl::StatusOr<const Batch*> {
    if (batch != nullptr) source.recycle(std::move(batch));
    ASSIGN_OR_RETURN(batch, source.take(wanted));
    return batch.get();
  };
  auto computed = step.Compute(own, weights, next, abandoned, gradients, ready);
  if (batch != nullptr) source.recycle(std::move(batch));
  left_out_ = step.left_out();
  return computed;
}

absl::Status ReplicaSteps::TakeBatches(const v1::ComputeGradient& request,
                                       const Source& source,
                                       std::vector<Share>* shares) {
  for (Share& share : *shares) {
    v1::ComputeGradient own = request;
    own.set_begin(share.range.begin);
    own.set_end(share.range.end);
    for (const Portion& wanted : replicas_.front().step->BatchesOf(own)) {
      ASSIGN_OR_RETURN(std::unique_ptr<Batch> batch, source.take(wanted));
      share.batches.push_back(std::move(batch));
    }
  }
  return absl::OkStatus();
}

void ReplicaSteps::RunShare(const v1::ComputeGradient& request,
                            const StepWeights& weights,
                            const std::atomic<bool>* abandoned,
                            Replica* replica, Share* share,
                            TrainedModel::Ready ready) {
  v1::ComputeGradient own = request;
  own.set_begin(share->range.begin);
  own.set_end(share->range.end);
  size_t taken = 0;
  const auto next = [&](const Portion&) -> absl::StatusOr<const Batch*> {
    return share->batches[taken++].get();
  };
  const auto computed = replica->step->Compute(
      own, weights, next, abandoned, absl::MakeSpan(share->gradients), ready);
  share->status = computed.status();
  if (computed.ok()) share->metrics = *computed;
  share->left_out = replica->step->left_out();
}

std::vector<ReplicaSteps::Share> ReplicaSteps::MakeShares(
    absl::Span<const Portion> ranges, GradientSpans gradients) {
  std::vector<Share> shares(ranges.size());
  memory_.resize(std::max(memory_.size(), shares.size() - 1));
  for (size_t s = 0; s < shares.size(); ++s) {
    shares[s].range = ranges[s];
    shares[s].told.resize(gradients.size());
    if (s == 0) {
      shares[s].gradients.assign(gradients.begin(), gradients.end());
      continue;
    }
    Values& values = memory_[s - 1];
    values.resize(gradients.size());
    for (size_t v = 0; v < gradients.size(); ++v) {
      values[v].resize(gradients[v].size());
      shares[s].gradients.push_back(absl::MakeSpan(values[v]));
    }
  }
  return shares;
}

// Replica r computes the shares r, r + R, ... of those that are here.
void ReplicaSteps::RunShares(const v1::ComputeGradient& request,
                             const StepWeights& weights,
                             const std::atomic<bool>* abandoned,
                             std::vector<Share>* shares,
                             TrainedModel::Ready ready) {
  const auto run = [&](size_t r) {
    for (size_t s = r; s < shares->size(); s += replicas_.size()) {
      Share& share = (*shares)[s];
      RunShare(request, weights, abandoned, &replicas_[r], &share,
               [&](size_t variable) {
                 share.told[variable] = 1;
                 ready(variable);
               });
    }
  };
  const size_t busy = std::min(replicas_.size(), shares->size());
  Countdown others(busy - 1);
  for (size_t r = 1; r < busy; ++r) {
    replicas_[r].thread->Post([&, r] {
      run(r);
      others.Done();
    });
  }
  run(0);
  others.Wait();
}

absl::StatusOr<Metrics> ReplicaSteps::Compute(
    const v1::ComputeGradient& request, absl::Span<const uint32_t> numbers,
    const StepWeights& weights, const Source& source,
    const std::atomic<bool>* abandoned, GradientSpans gradients,
    TrainedModel::Ready ready) {
  left_out_ = 0;
  Metrics metrics;
  const std::vector<Portion> ranges = RangesOf(request, numbers);
  if (ranges.size() == 1) {
    return ComputeOne(request, ranges[0], weights, source, abandoned, gradients,
                      ready);
  }
  if (ranges.empty()) {
    for (const absl::Span<float> variable : gradients) {
      std::fill(variable.begin(), variable.end(), -0.0f);
    }
    for (size_t v = gradients.size(); v-- > 0;) ready(v);
    return metrics;
  }
  std::vector<Share> shares = MakeShares(ranges, gradients);
  RETURN_IF_ERROR(TakeBatches(request, source, &shares));
  std::vector<OrderedSum::Gradients> all;
  for (const Share& share : shares) all.push_back(share.gradients);
  OrderedSum sum(&all, ready);
  RunShares(request, weights, abandoned, &shares,
            [&](size_t variable) { sum.Ready(variable); });
  for (Share& share : shares) {
    RETURN_IF_ERROR(share.status);
    metrics += share.metrics;
    left_out_ += share.left_out;
    for (auto& batch : share.batches) source.recycle(std::move(batch));
    // What the step did not say to be ready: it had several batches, or a loss
    // that is not finite.
    for (size_t v = gradients.size(); v-- > 0;) {
      if (share.told[v] == 0) sum.Ready(v);
    }
  }
  return metrics;
}

}  // namespace paramd
