#include "worker/collective/bucketed_sum.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace paramd {

BucketedSum::BucketedSum(std::vector<uint64_t> elements, uint64_t bucket_bytes)
    : bucket_of_(elements.size()),
      ready_(elements.size()),
      reducing_("all-reduce") {
  const uint64_t most = std::max<uint64_t>(1, bucket_bytes / sizeof(float));
  for (size_t v = elements.size(); v-- > 0;) {
    if (buckets_.empty() || buckets_.back().elements + elements[v] > most) {
      buckets_.emplace_back();
    }
    buckets_.back().variables.push_back(v);
    buckets_.back().elements += elements[v];
    bucket_of_[v] = buckets_.size() - 1;
  }
}

void BucketedSum::Begin(absl::Span<const absl::Span<float>> gradients,
                        Collective* collective) {
  const MutexLock lock(&mutex_);
  gradients_ = gradients;
  collective_ = collective;
  std::fill(ready_.begin(), ready_.end(), 0);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.variables.size();
  started_ = 0;
  ended_ = 0;
  status_ = absl::OkStatus();
}

void BucketedSum::Ready(size_t variable) {
  const MutexLock lock(&mutex_);
  ReadyLocked(variable);
  StartLocked();
}

void BucketedSum::ReadyLocked(size_t variable) {
  if (std::exchange(ready_[variable], 1) == 0) {
    --buckets_[bucket_of_[variable]].missing;
  }
}

void BucketedSum::StartLocked() {
  for (; started_ < buckets_.size() && buckets_[started_].missing == 0;
       ++started_) {
    reducing_.Post([this, bucket = &buckets_[started_]] {
      absl::Status status;
      {
        const MutexLock lock(&mutex_);
        status = status_;
      }
      if (status.ok()) status = Reduce(*bucket);
      const MutexLock lock(&mutex_);
      status_.Update(status);
      ++ended_;
      changed_.NotifyAll();
    });
  }
}

absl::Status BucketedSum::End() {
  MutexLock lock(&mutex_);
  for (size_t v = 0; v < ready_.size(); ++v) ReadyLocked(v);
  StartLocked();
  while (ended_ < buckets_.size()) changed_.Wait(&mutex_);
  return status_;
}

absl::Status BucketedSum::Reduce(const Bucket& bucket) {
  if (bucket.variables.size() == 1) {
    return collective_->Sum(gradients_[bucket.variables[0]]);
  }
  together_.resize(bucket.elements);
  auto to = together_.begin();
  for (const size_t v : bucket.variables) {
    to = std::copy(gradients_[v].begin(), gradients_[v].end(), to);
  }
  RETURN_IF_ERROR(collective_->Sum(absl::MakeSpan(together_)));
  auto from = together_.begin();
  for (const size_t v : bucket.variables) {
    std::copy_n(from, gradients_[v].size(), gradients_[v].begin());
    from += gradients_[v].size();
  }
  return absl::OkStatus();
}

}  // namespace paramd
