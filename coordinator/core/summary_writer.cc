#include "coordinator/core/summary_writer.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace paramd {

void SummaryWriter::Advance(uint64_t told_step, bool ending, Turn* turn) {
  const JobPhase phase = turn->job.phase;
  if (phase < JobPhase::kRunning || phase >= JobPhase::kTellingEnd) return;
  // A mean over those alone that happened to tell theirs would be of some
  // workers, and the next one of what the others did before.
  if (summaries_.WantsFigures(told_step) && !mark_.is_set()) {
    mark_.Set(turn->job.workers);
  }
  const bool complete =
      ending || (mark_.is_set() && mark_.IsPassed(turn->job.workers));
  if (!summaries_.IsDue(told_step, ending, complete)) return;
  std::vector<const v1::WorkerStats*> workers;
  for (const auto& [index, worker] : turn->job.workers) {
    if (!worker.fencing) workers.push_back(&worker.last.stats());
  }
  turn->StartIo(summaries_.Take(told_step, workers, ending, complete),
                Then(this, &SummaryWriter::OnWritten));
  if (complete) mark_.Clear();
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
