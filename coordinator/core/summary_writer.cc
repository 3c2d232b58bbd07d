#include "coordinator/core/summary_writer.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace paramd {

void SummaryWriter::Advance(uint64_t told_step, bool ending, Turn* turn) {
  const JobPhase phase = turn->job.phase;
  if (phase < JobPhase::kRunning || phase >= JobPhase::kTellingEnd ||
      !summaries_.IsDue(told_step, ending)) {
    return;
  }
  std::vector<const v1::WorkerStats*> workers;
  for (const auto& [index, worker] : turn->job.workers) {
    if (!worker.fencing) workers.push_back(&worker.last.stats());
  }
  turn->StartIo(summaries_.Take(told_step, workers, ending),
                Then(this, &SummaryWriter::OnWritten));
}

void SummaryWriter::OnWritten(const IoResult& result, Turn* turn) {
  summaries_.Written();
  if (result.status.ok() || failed_) return;
  failed_ = true;
  turn->out->Warn(
      absl::StrCat("no summaries for TensorBoard: ", result.status.message(),
                   "; training goes on, and this is said once"));
}

}  // namespace paramd
