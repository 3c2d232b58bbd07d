// How far the job is, which the ledger of its mode knows.
#include <algorithm>

#include "coordinator/core/dispatcher.h"

namespace paramd {

uint64_t Dispatcher::global_step() const {
  return job_.IsSync() ? steps_.steps().step() : input_.Pushes(job_);
}

uint64_t Dispatcher::StepAt(const Cuts& cuts) const {
  return input_.PushesAt(cuts, job_);
}

v1::SavedInput Dispatcher::InputLeft(const Cuts& cuts) const {
  return job_.IsSync() ? steps_.steps().input().left()
                       : input_.portions().Save(cuts);
}

bool Dispatcher::IsBetweenSteps() const {
  return steps_.steps().settled() && !steps_.going_back();
}

bool Dispatcher::InputFinished() const {
  const SyncSteps& steps = steps_.steps();
  return job_.IsSync() ? steps.finished() && steps.settled()
                       : input_.portions().finished();
}

uint32_t Dispatcher::EpochsFinished() const {
  return job_.IsSync() ? steps_.steps().input().epochs_finished()
                       : input_.portions().epochs_finished();
}

std::string Dispatcher::StepWaitsFor() const {
  return steps_.waiting_for(job_);
}

absl::Duration Dispatcher::LongestStep() const { return input_.longest_step(); }

// The step up to which workers have told their losses.
uint64_t Dispatcher::ToldStep() const {
  if (!job_.IsSync()) return std::min(input_.PushesTold(job_), global_step());
  uint64_t step = 0;
  for (const auto& [index, worker] : workers_) {
    step = std::max(step, worker.last.stats().step());
  }
  return std::min(step, global_step());
}

}  // namespace paramd
