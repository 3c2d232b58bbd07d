#include "coordinator/core/input_ledger.h"

#include <algorithm>

namespace paramd {

// ---- how far ----------------------------------------------------------------

uint64_t InputLedger::global_step() const {
  return job_.IsSync() ? steps_.steps().step() : portions_.Pushes(job_);
}

uint64_t InputLedger::StepAt(const Cuts& cuts) const {
  return portions_.PushesAt(cuts, job_);
}

v1::SavedInput InputLedger::InputLeft(const Cuts& cuts) const {
  return job_.IsSync() ? steps_.steps().input().left()
                       : portions_.portions().Save(cuts);
}

bool InputLedger::InputFinished() const {
  const SyncSteps& steps = steps_.steps();
  return job_.IsSync() ? steps.finished() && steps.settled()
                       : portions_.portions().finished();
}

uint32_t InputLedger::EpochsFinished() const {
  return job_.IsSync() ? steps_.steps().input().epochs_finished()
                       : portions_.portions().epochs_finished();
}

bool InputLedger::IsBetweenSteps() const {
  return steps_.steps().settled() && !steps_.going_back();
}

std::string InputLedger::StepWaitsFor() const {
  return steps_.waiting_for(job_);
}

absl::Duration InputLedger::LongestStep() const {
  return portions_.longest_step();
}

uint64_t InputLedger::ToldStep() const {
  if (!job_.IsSync()) {
    return std::min(portions_.PushesTold(job_), global_step());
  }
  uint64_t step = 0;
  for (const auto& [index, worker] : job_.workers) {
    step = std::max(step, worker.last.stats().step());
  }
  return std::min(step, global_step());
}

// ---- where it changes -------------------------------------------------------

void InputLedger::GoOnFrom(uint64_t step, const v1::SavedInput& left) {
  portions_.GoOnFrom(step, left);
  steps_.GoOnFrom(step, left);
}

void InputLedger::ChangeMode(bool to_sync, uint64_t step,
                             const v1::SavedInput& left) {
  steps_.ForgetCalls();
  if (to_sync) {
    portions_.CountBefore(step);
    steps_.GoOnFrom(step, left);
  } else {
    portions_.GoOnFrom(step, left);
  }
}

void InputLedger::OnSessionsEnded() {
  portions_.OnSessionsEnded();
  steps_.OnSessionsEnded();
}

void InputLedger::OnHeartbeat(const v1::HeartbeatRequest& request,
                              uint64_t pushes, Time now) {
  const uint32_t worker = request.header().worker();
  request.no_input() ? portions_.step_times().Rest(worker)
                     : portions_.step_times().Count(worker, pushes, now);
}

void InputLedger::OnPause(Time now) {
  portions_.step_times().RestAll();
  steps_.OnPause(now);
}

// ---- for people -------------------------------------------------------------

void InputLedger::FillStatus(v1::JobStats* status) const {
  status->set_epochs_done(job_.IsSync() ? steps_.steps().input().epochs_done()
                                        : portions_.portions().epochs_done());
  const uint64_t step = global_step();
  status->set_global_step(step);
  status->set_pushes(step - std::min(step, portions_.pushes_before()));
}

}  // namespace paramd
