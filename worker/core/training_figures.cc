#include "worker/core/training_figures.h"

#include <algorithm>

namespace paramd {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(1);
constexpr absl::Duration kShortestStall = absl::Seconds(2);

}  // namespace

void TrainingFigures::BeginSession(Time now) {
  since_ = last_ = now;
  examples_ = 0;
  loss_ = 0;
  stalled_ = false;
  acknowledged_step_ = 0;
  acknowledged_examples_ = 0;
  acknowledged_loss_ = 0;
  acknowledged_metrics_.Clear();
  epochs_.clear();
  told_examples_.clear();
}

void TrainingFigures::Computed(uint64_t examples, double loss, Time now) {
  gap_ = now - last_;
  last_ = now;
  if (examples == 0) return;
  // The first is worth telling, however short the job.
  if (acknowledged_examples_ == 0) mean_loss_ = loss / examples;
  if (stalled_) {
    // The time in which nothing was done is not that of this one.
    stalled_ = false;
    since_ = now;
    return;
  }
  steps_.Add(gap_);
  examples_ += examples;
  loss_ += loss;
  const absl::Duration passed = now - since_;
  if (passed < kWindow) return;
  rate_ = examples_ / absl::ToDoubleSeconds(passed);
  mean_loss_ = loss_ / examples_;
  since_ = now;
  examples_ = 0;
  loss_ = 0;
}

void TrainingFigures::Acknowledged(uint64_t step, uint32_t epoch,
                                   uint64_t examples, double loss,
                                   const MetricSums& metrics) {
  acknowledged_step_ = std::max(acknowledged_step_, step);
  acknowledged_examples_ += examples;
  acknowledged_loss_ += loss;
  AddMetrics(metrics, &acknowledged_metrics_);
  if (examples == 0) return;
  v1::EpochSums& sums = epochs_[epoch];
  sums.set_epoch(epoch);
  sums.set_examples(sums.examples() + examples);
  sums.set_loss_sum(sums.loss_sum() + loss);
  AddMetrics(metrics, sums.mutable_metrics());
  if (epochs_.size() <= kMostEpochs) return;
  told_examples_.erase(epochs_.begin()->first);
  epochs_.erase(epochs_.begin());
}

void TrainingFigures::Told(const v1::WorkerStats& stats) {
  for (const v1::EpochSums& sums : stats.epochs()) {
    told_examples_[sums.epoch()] = sums.examples();
  }
}

void TrainingFigures::Tick(Time now) {
  if (now < next_tick()) return;
  stalled_ = true;
  rate_ = 0;
  examples_ = 0;
  loss_ = 0;
}

Time TrainingFigures::next_tick() const {
  return stalled_ ? Time::Never() : last_ + patience();
}

absl::Duration TrainingFigures::patience() const {
  return std::max(kShortestStall, 3 * gap_);
}

void TrainingFigures::Fill(v1::WorkerStats* stats) const {
  stats->set_examples_per_second(rate_);
  stats->set_loss(mean_loss_);
  stats->set_step(acknowledged_step_);
  stats->set_examples(acknowledged_examples_);
  stats->set_loss_sum(acknowledged_loss_);
  *stats->mutable_metrics() = acknowledged_metrics_;
  for (const auto& [epoch, sums] : epochs_) {
    const auto told = told_examples_.find(epoch);
    if (told != told_examples_.end() && told->second == sums.examples()) {
      continue;
    }
    *stats->add_epochs() = sums;
  }
}

}  // namespace paramd
