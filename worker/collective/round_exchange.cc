#include "worker/collective/round_exchange.h"

#include <utility>

#include "base/status_macros.h"
#include "worker/collective/mirror_exchange.h"

namespace paramd {

RoundExchange::RoundExchange(Options options, RoundLink* link)
    : options_(std::move(options)), link_(link) {}

std::vector<uint32_t> RoundExchange::Begin(const v1::ComputeGradient& step,
                                           GradientSpans gradients) {
  gradients_.assign(gradients.begin(), gradients.end());
  gathered_.clear();
  before_.clear();
  pass_ = 0;
  if (sum_ == nullptr) {
    std::vector<uint64_t> elements;
    for (const absl::Span<float> gradient : gradients) {
      elements.push_back(gradient.size());
    }
    sum_ = std::make_unique<BucketedSum>(std::move(elements),
                                         options_.bucket_bytes);
    added_ = std::vector<std::atomic<bool>>(gradients.size());
  }
  v1::StepPosition position;
  position.set_epoch(step.epoch());
  position.set_begin(step.begin());
  auto joined = link_->Join(position);
  begun_ = joined.status();
  if (!begun_.ok()) return {};
  if (collective_ != joined->collective) steps_ = 0;
  collective_ = std::move(joined->collective);
  names_ = std::move(joined->names);
  const bool checks = options_.check_every_steps > 0 &&
                      steps_ % options_.check_every_steps == 0;
  ++steps_;
  header_ = MakeHeader(step, checks ? options_.checksum : nullptr);
  return BeginPass();
}

std::vector<uint32_t> RoundExchange::BeginPass() {
  for (std::atomic<bool>& added : added_) added = false;
  devices_sum_ = false;
  sum_->Begin(gradients_, collective_.get());
  const uint32_t share =
      static_cast<uint32_t>(pass_ * collective_->size() + collective_->rank());
  if (share >= options_.shares) return {};
  return {share};
}

absl::optional<std::vector<uint32_t>> RoundExchange::NextPass() {
  if (!begun_.ok() || IsLastPass()) return absl::nullopt;
  before_.resize(gradients_.size());
  for (size_t v = 0; v < gradients_.size(); ++v) {
    before_[v].assign(gradients_[v].begin(), gradients_[v].end());
  }
  ++pass_;
  return BeginPass();
}

// The first to add in this pass adds to the sum of those before.
void RoundExchange::AddBefore(size_t variable) {
  if (before_.empty() || collective_->rank() != 0) return;
  if (added_[variable].exchange(true)) return;
  const std::vector<float>& before = before_[variable];
  const absl::Span<float> own = gradients_[variable];
  for (size_t i = 0; i < own.size(); ++i) own[i] = before[i] + own[i];
}

std::shared_ptr<DeviceRing> RoundExchange::ring() {
  // In passes each share is added to those before it, in host memory.
  if (!begun_.ok() || collective_->size() != options_.shares) return nullptr;
  return collective_->ring();
}

void RoundExchange::Ready(size_t variable) {
  if (!begun_.ok() || devices_sum_) return;
  AddBefore(variable);
  sum_->Ready(variable);
}

absl::Status RoundExchange::GatherFigures(const std::vector<double>& own) {
  const size_t members = collective_->size();
  std::vector<double> headers(members * kHeaderNumbers);
  RETURN_IF_ERROR(collective_->Gather(header_, absl::MakeSpan(headers)));
  RETURN_IF_ERROR(CheckHeaders(headers, names_));
  std::vector<double> all(own.size() * members);
  RETURN_IF_ERROR(collective_->Gather(own, absl::MakeSpan(all)));
  gathered_.insert(gathered_.end(), all.begin(), all.end());
  return absl::OkStatus();
}

absl::Status RoundExchange::End(std::vector<double>* figures) {
  RETURN_IF_ERROR(begun_);
  for (size_t v = 0; v < gradients_.size(); ++v) AddBefore(v);
  absl::Status status =
      devices_sum_ ? collective_->ring()->status() : sum_->End();
  const bool has_sums = status.ok() && IsLastPass();
  if (status.ok()) status = GatherFigures(*figures);
  if (absl::IsUnavailable(status)) {
    return link_->AwaitVerdict(collective_.get(), has_sums, figures);
  }
  RETURN_IF_ERROR(status);
  if (!IsLastPass()) return absl::OkStatus();
  *figures = gathered_;
  link_->Made(*figures);
  return absl::OkStatus();
}

}  // namespace paramd
