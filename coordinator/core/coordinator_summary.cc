// What the coordinator has written for TensorBoard.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "coordinator/core/coordinator.h"

namespace paramd {

// The step up to which workers have told their losses.
uint64_t Coordinator::ToldStep() const {
  uint64_t step = IsSync() ? 0 : step_before_;
  for (const auto& [index, worker] : workers_) {
    const v1::WorkerStats& stats = worker.last.stats();
    if (IsSync()) {
      step = std::max(step, stats.step());
    } else {
      step += worker.last.number() > 0 ? stats.pushes() : worker.acknowledged;
    }
  }
  return std::min(step, global_step());
}

void Coordinator::AdvanceSummary(Outbox* out) {
  const uint64_t step = ToldStep();
  const bool ending = draining_ || phase_ >= Phase::kEvaluating;
  if (phase_ < Phase::kRunning || phase_ >= Phase::kTellingEnd ||
      !summaries_.IsDue(step, ending)) {
    return;
  }
  std::vector<const v1::WorkerStats*> workers;
  for (const auto& [index, worker] : workers_) {
    if (!worker.fencing) workers.push_back(&worker.last.stats());
  }
  StartIo(summaries_.Take(step, workers, ending),
          &Coordinator::OnSummaryWritten, out);
}

void Coordinator::OnSummaryWritten(const IoResult& result, Time /*now*/,
                                   Outbox* out) {
  summaries_.Written();
  if (result.status.ok() || summary_failed_) return;
  summary_failed_ = true;
  out->Warn(
      absl::StrCat("no summaries for TensorBoard: ", result.status.message(),
                   "; training goes on, and this is said once"));
}

}  // namespace paramd
