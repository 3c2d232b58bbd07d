#include "coordinator/core/epoch_trainings.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paramd {
namespace {

// Of epochs that end between two heartbeats the newest are said.
constexpr uint32_t kMostNotes = 20;

template <typename Value>
void Limit(std::map<uint32_t, Value>* epochs) {
  while (epochs->size() > EpochTrainings::kMostEpochs) {
    epochs->erase(epochs->begin());
  }
}

v1::EpochTraining MeansOf(const v1::EpochSums& sums) {
  v1::EpochTraining training;
  training.set_epoch(sums.epoch());
  training.set_examples(sums.examples());
  training.set_loss(sums.loss_sum() / static_cast<double>(sums.examples()));
  for (const v1::MetricSum& sum : sums.metrics()) {
    if (sum.count() > 0) {
      (*training.mutable_metrics())[sum.name()] = MetricValue(sum);
    }
  }
  return training;
}

}  // namespace

void EpochTrainings::Told(uint32_t worker, const v1::SessionId& generation,
                          const v1::WorkerStats& stats) {
  Session& session = sessions_[worker];
  if (session.generation != generation) {
    session.generation = generation;
    session.told.clear();
  }
  for (const v1::EpochSums& now : stats.epochs()) {
    v1::EpochSums& told = session.told[now.epoch()];
    if (now.examples() <= told.examples()) continue;
    v1::EpochSums& sums = epochs_[now.epoch()];
    sums.set_epoch(now.epoch());
    sums.set_examples(sums.examples() + now.examples() - told.examples());
    sums.set_loss_sum(sums.loss_sum() + now.loss_sum() - told.loss_sum());
    AddMetrics(now.metrics(), sums.mutable_metrics());
    SubtractMetrics(told.metrics(), sums.mutable_metrics());
    told = now;
  }
  Limit(&session.told);
  Limit(&epochs_);
}

void EpochTrainings::ForgetFrom(uint32_t epoch) {
  epochs_.erase(epochs_.lower_bound(epoch), epochs_.end());
  noted_ = std::min(noted_, epoch == 0 ? 0 : epoch - 1);
  marked_ = noted_;
  mark_.Clear();
}

void EpochTrainings::Advance(uint32_t finished, bool ending, Turn* turn) {
  if (ending) {
    marked_ = std::max(marked_, finished);
  } else if (!mark_.is_set()) {
    if (finished <= noted_) return;
    marked_ = finished;
    mark_.Set(turn->job.workers);
  }
  if (!ending && !mark_.IsPassed(turn->job.workers)) return;
  mark_.Clear();
  Note(turn);
}

void EpochTrainings::Note(Turn* turn) {
  const uint32_t first =
      marked_ - noted_ > kMostNotes ? marked_ - kMostNotes : noted_;
  for (auto it = epochs_.upper_bound(first);
       it != epochs_.end() && it->first <= marked_; ++it) {
    const v1::EpochTraining training = MeansOf(it->second);
    std::string metrics;
    for (const auto& [name, value] : training.metrics()) {
      absl::StrAppendFormat(&metrics, ", %s %.4g", name, value);
    }
    turn->out->Note(
        absl::StrFormat("epoch %d was trained with a loss of %.4g%s over %d "
                        "examples",
                        training.epoch(), training.loss(), metrics,
                        training.examples()),
        {{"epoch", training.epoch()},
         {"loss", training.loss()},
         {"examples", training.examples()}});
  }
  noted_ = marked_;
}

std::vector<v1::EpochTraining> EpochTrainings::All() const {
  std::vector<v1::EpochTraining> all;
  for (const auto& [epoch, sums] : epochs_) all.push_back(MeansOf(sums));
  return all;
}

}  // namespace paramd
