// What the coordinator has written for TensorBoard.
#include <vector>

#include "absl/strings/str_cat.h"

#include "coordinator/core/coordinator.h"

namespace paramd {

void Coordinator::AdvanceSummary(Outbox* out) {
  if (phase_ < Phase::kRunning || phase_ >= Phase::kTellingEnd ||
      !summaries_.IsDue(global_step())) {
    return;
  }
  std::vector<const v1::WorkerStats*> workers;
  for (const auto& [index, worker] : workers_) {
    if (!worker.fencing) workers.push_back(&worker.last.stats());
  }
  StartIo(summaries_.Take(global_step(), workers),
          &Coordinator::OnSummaryWritten, out);
}

void Coordinator::OnSummaryWritten(const IoResult& result, Time /*now*/,
                                   Outbox* out) {
  summaries_.Written();
  if (result.status.ok() || summary_failed_) return;
  summary_failed_ = true;
  out->Note(
      absl::StrCat("no summaries for TensorBoard: ", result.status.message(),
                   "; training goes on, and this is said once"));
}

}  // namespace paramd
