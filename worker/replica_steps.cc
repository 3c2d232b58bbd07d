#include "worker/replica_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "compute/device/device_ring.h"
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

// What is taken behind so many batches.
std::function<const Batch*()> NextOf(const ReplicaSteps::Source& source,
                                     size_t ahead) {
  if (source.peek == nullptr) return nullptr;
  return [&source, ahead] { return source.peek(ahead); };
}

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
                           TrainedModel* model, ReplicaGroup among)
    : share_(ExamplesPerGradient(job) / ReplicasOf(job)),
      all_(ReplicasOf(job)),
      one_batch_(share_ <= job.batch_per_replica()),
      group_(std::move(among)) {
  for (uint32_t r = 0; r < std::max<uint32_t>(replicas, 1); ++r) {
    Replica& replica = replicas_.emplace_back();
    replica.model = model;
    if (r > 0) {
      ReplicatedModel* const replicated = model->replicated();
      replica.clone = replicated == nullptr ? model->Clone()
                                            : replicated->CloneForReplica(r);
      replica.model = replica.clone.get();
      replica.thread =
          std::make_unique<WorkerThread>(absl::StrCat("replica-", r));
    }
    replica.step = std::make_unique<GradientStep>(job, replica.model);
  }
  if (group_.meeting != nullptr) return;
  group_.bucket_bytes = job.all_reduce().bucket_bytes();
  if (replicas_.size() == 1) return;
  group_.meeting = std::make_shared<ReplicaMeeting>(replicas_.size());
}

void ReplicaSteps::OnReplicas(size_t count,
                              absl::FunctionRef<void(size_t)> work) {
  Countdown others(count - 1);
  for (size_t r = 1; r < count; ++r) {
    replicas_[r].thread->Post([&, r] {
      work(r);
      others.Done();
    });
  }
  work(0);
  others.Wait();
}

void ReplicaSteps::SetRing(std::shared_ptr<DeviceRing> ring) {
  if (ring == group_.ring) return;
  group_.ring = std::move(ring);
  has_asked_ = false;
  joined_ = false;
  // Nobody meets: whoever fails ends the ring, and with it the others' sums.
  group_.meeting = std::make_shared<ReplicaMeeting>(1);
}

void ReplicaSteps::Join() {
  std::vector<absl::Status> joined(replicas_.size());
  OnReplicas(replicas_.size(), [&](size_t r) {
    ReplicaGroup group = group_;
    group.rank += r;
    ReplicatedModel* const replicated = replicas_[r].model->replicated();
    joined[r] = replicated == nullptr ? ReplicatedModel::RefuseToSum(group)
                                      : replicated->JoinReplicas(group);
  });
  has_asked_ = true;
  joined_ = joined.front().ok();
  if (group_.ring != nullptr) return;  // Who has formed it says so.
  if (joined_ && group_.rank == 0) {
    Log(LogLevel::kInfo, "replicas' devices sum their gradients",
        {{"replicas", all_}});
  }
  for (const absl::Status& status : joined) {
    // Where nothing is missing, or another one says what is.
    if (status.ok() || absl::IsUnimplemented(status) ||
        absl::IsCancelled(status)) {
      continue;
    }
    return Log(LogLevel::kWarning,
               "gradients of replicas are summed in host memory, not by their "
               "devices",
               {{"why", status.message()}});
  }
}

size_t ReplicaSteps::MembersThatSum() const {
  if (group_.ring != nullptr) return group_.ring->size();
  return group_.meeting == nullptr ? 0 : group_.meeting->size();
}

bool ReplicaSteps::SumsOnDevices(const v1::ComputeGradient& request) {
  const uint64_t examples = request.end() - request.begin();
  if (MembersThatSum() != all_ || !one_batch_ ||
      examples <= (all_ - 1) * share_ || examples > all_ * share_) {
    return false;
  }
  if (!has_asked_) Join();
  return joined_;
}

bool ReplicaSteps::DevicesFinish(const v1::ComputeGradient& request) {
  if (all_ > 1) return SumsOnDevices(request);
  return one_batch_ && request.end() - request.begin() <= share_;
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
  const Portion whole = {
      .epoch = request.epoch(), .begin = request.begin(), .end = request.end()};
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
  // Whom the others' devices wait for does not stop half way.
  const bool sums = SumsOnDevices(request);
  step.SetSharing(sums ? Sharing::kSum : Sharing::kAlone);
  if (sums) abandoned = nullptr;
  step.SetNext(NextOf(source, 0));
  step.SetTake(sums ? nullptr : take_);
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
  size_t before = 0;
  for (Share& share : *shares) {
    share.next = NextOf(source, before);
    before += share.batches.size();
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
  const auto next = [&](const Portion&) -> absl::StatusOr<const Batch*> {
    return share->batches[share->taken++].get();
  };
  replica->step->SetTake(nullptr);
  replica->step->SetNext([share]() -> const Batch* {
    if (share->taken < share->batches.size()) {
      return share->batches[share->taken].get();
    }
    return share->next == nullptr ? nullptr : share->next();
  });
  const auto computed = replica->step->Compute(
      own, weights, next, abandoned, absl::MakeSpan(share->gradients), ready);
  share->status = computed.status();
  if (computed.ok()) share->metrics = *computed;
  share->left_out = replica->step->left_out();
}

std::vector<ReplicaSteps::Share> ReplicaSteps::MakeShares(
    absl::Span<const Portion> ranges, GradientSpans gradients,
    bool on_devices) {
  std::vector<Share> shares(ranges.size());
  if (!on_devices) memory_.resize(std::max(memory_.size(), shares.size() - 1));
  for (size_t s = 0; s < shares.size(); ++s) {
    shares[s].range = ranges[s];
    shares[s].told.resize(gradients.size());
    shares[s].contributes = on_devices && s > 0;
    if (s == 0 || on_devices) {
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

uint64_t ReplicaSteps::CountExamples(absl::Span<const Share> shares) const {
  const TrainedModel& model = *replicas_.front().model;
  uint64_t examples = 0;
  for (const Share& share : shares) {
    for (const auto& batch : share.batches) {
      examples += model.CountedExamples(*batch);
    }
  }
  return std::max<uint64_t>(examples, 1);
}

absl::Status ReplicaSteps::WhyOneFailed(absl::Span<const Share> shares) {
  absl::Status why;
  for (const Share& share : shares) {
    if (why.ok() || absl::IsCancelled(why)) {
      if (!share.status.ok()) why = share.status;
    }
  }
  return why;
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
                 if (!share.contributes) ready(variable);
               });
    }
  };
  OnReplicas(std::min(replicas_.size(), shares->size()), run);
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
  const bool on_devices = SumsOnDevices(request);
  std::vector<Share> shares = MakeShares(ranges, gradients, on_devices);
  RETURN_IF_ERROR(TakeBatches(request, source, &shares));
  for (size_t r = 0; r < replicas_.size(); ++r) {
    replicas_[r].step->SetSharing(!on_devices ? Sharing::kAlone
                                  : r == 0    ? Sharing::kSum
                                              : Sharing::kContribute);
  }
  v1::ComputeGradient divided = request;
  if (request.divide_by() == 0) divided.set_divide_by(CountExamples(shares));
  std::vector<OrderedSum::Gradients> all;
  for (const Share& share : shares) {
    if (!share.contributes) all.push_back(share.gradients);
  }
  OrderedSum sum(&all, ready);
  RunShares(divided, weights, on_devices ? nullptr : abandoned, &shares,
            [&](size_t variable) { sum.Ready(variable); });
  RETURN_IF_ERROR(WhyOneFailed(shares));
  for (Share& share : shares) {
    metrics += share.metrics;
    left_out_ += share.left_out;
    for (auto& batch : share.batches) source.recycle(std::move(batch));
    if (on_devices) continue;  // Then all was said that is of use.
    // What the step did not say to be ready: it had several batches, or a loss
    // that is not finite.
    for (size_t v = gradients.size(); v-- > 0;) {
      if (share.told[v] == 0) sum.Ready(v);
    }
  }
  return metrics;
}

}  // namespace paramd
