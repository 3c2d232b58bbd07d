#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "proto/refusal.h"

namespace paramd {
namespace {

// What stays, by place in the order of numbers.
class Staying {
 public:
  // `checkpoints`: oldest first; outlives this.
  explicit Staying(const std::vector<CheckpointSummary>& checkpoints)
      : checkpoints_(checkpoints), left_(checkpoints.size(), false) {
    uint64_t lowest = std::numeric_limits<uint64_t>::max();
    for (size_t i = checkpoints.size(); i-- > 0;) {
      left_[i] = checkpoints[i].step > lowest;
      lowest = std::min(lowest, checkpoints[i].step);
    }
  }

  // Of several with one step the newest alone: the others hold nothing else,
  // and would take the place of what the job can fall back to.
  void AddNewest(uint32_t count) {
    std::set<uint64_t> steps;
    for (size_t i = checkpoints_.size(); i-- > 0 && steps.size() < count;) {
      if (steps.insert(checkpoints_[i].step).second) stays_.insert(i);
    }
  }

  void AddSpans(uint64_t steps) {
    std::map<uint64_t, size_t> first;  // By span.
    for (size_t i = 0; i < checkpoints_.size(); ++i) {
      if (left_[i]) continue;
      const auto [found, is_new] =
          first.emplace(checkpoints_[i].step / steps, i);
      // Of two with one step the newer is the one that the job went on from.
      if (!is_new && checkpoints_[i].step == checkpoints_[found->second].step) {
        found->second = i;
      }
    }
    for (const auto& [span, i] : first) stays_.insert(i);
  }

  void AddHours(double hours) {
    absl::optional<absl::Time> last;
    for (size_t i = 0; i < checkpoints_.size(); ++i) {
      const auto& created = checkpoints_[i].created;
      if (left_[i] || !created.has_value()) continue;
      if (last.has_value() && *created >= *last &&
          *created - *last < absl::Hours(hours)) {
        continue;
      }
      stays_.insert(i);
      last = created;
    }
  }

  void AddBest(uint32_t count, const std::string& metric,
               bool lower_is_better) {
    std::map<uint64_t, size_t> first;  // By evaluation.
    std::vector<std::pair<double, size_t>> best;
    for (size_t i = 0; i < checkpoints_.size(); ++i) {
      const auto found = checkpoints_[i].metrics.find(metric);
      if (left_[i] || found == checkpoints_[i].metrics.end() ||
          !std::isfinite(found->second) ||
          !first.emplace(checkpoints_[i].metrics_step, i).second) {
        continue;
      }
      best.emplace_back(lower_is_better ? found->second : -found->second, i);
    }
    std::sort(best.begin(), best.end());
    if (best.size() > count) best.resize(count);
    for (const auto& [badness, i] : best) stays_.insert(i);
  }

  void AddBases() {
    std::vector<size_t> open(stays_.begin(), stays_.end());
    while (!open.empty()) {
      const CheckpointSummary& one = checkpoints_[open.back()];
      open.pop_back();
      for (size_t i = 0; i < checkpoints_.size(); ++i) {
        const bool is_base =
            std::find(one.bases.begin(), one.bases.end(),
                      checkpoints_[i].snapshot) != one.bases.end();
        if (is_base && stays_.insert(i).second) open.push_back(i);
      }
    }
  }

  std::vector<v1::SnapshotNumber> Others() const {
    std::vector<v1::SnapshotNumber> others;
    for (size_t i = 0; i < checkpoints_.size(); ++i) {
      if (stays_.count(i) == 0) others.push_back(checkpoints_[i].snapshot);
    }
    return others;
  }

 private:
  const std::vector<CheckpointSummary>& checkpoints_;
  std::vector<bool> left_;  // A later one has a lower step.
  std::set<size_t> stays_;
};

}  // namespace

CheckpointSummary Summarize(const v1::Manifest& manifest) {
  CheckpointSummary summary;
  summary.snapshot = manifest.snapshot();
  summary.step = manifest.global_step();
  absl::Time created;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, manifest.created(), &created,
                      &error)) {
    summary.created = created;
  }
  summary.metrics.insert(manifest.metrics().begin(), manifest.metrics().end());
  summary.metrics_step = manifest.metrics_step();
  for (const v1::ShardFile& file : manifest.files()) {
    if (!file.has_base()) continue;
    const v1::SnapshotNumber& base = file.base().snapshot();
    if (std::find(summary.bases.begin(), summary.bases.end(), base) ==
        summary.bases.end()) {
      summary.bases.push_back(base);
    }
  }
  return summary;
}

std::vector<v1::SnapshotNumber> ToRetire(
    const v1::Retention& retention,
    std::vector<CheckpointSummary> checkpoints) {
  if (retention.keep() == 0) return {};
  std::sort(checkpoints.begin(), checkpoints.end(),
            [](const CheckpointSummary& a, const CheckpointSummary& b) {
              return a.snapshot < b.snapshot;
            });
  Staying staying(checkpoints);
  staying.AddNewest(retention.keep());
  if (retention.every_steps() > 0) staying.AddSpans(retention.every_steps());
  if (retention.every_hours() > 0) staying.AddHours(retention.every_hours());
  if (retention.best() > 0) {
    staying.AddBest(retention.best(), retention.metric(),
                    retention.lower_is_better());
  }
  staying.AddBases();
  return staying.Others();
}

}  // namespace paramd
