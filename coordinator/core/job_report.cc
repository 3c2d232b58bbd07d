#include "coordinator/core/job_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "config/consistency.h"
#include "coordinator/core/rate_scale.h"

namespace paramd {
namespace {

constexpr absl::Duration kSlowStep = absl::Seconds(3);

}  // namespace

std::string JobReport::waiting_for() const {
  const JobView& job = parts_.job;
  const StepLedger& steps = parts_.input.steps();
  const Checkpoints& checkpoints = parts_.checkpoints;
  if (job.phase < JobPhase::kRecalling ||
      job.phase == JobPhase::kLoggingLayout) {
    return "the configuration log";
  }
  if (steps.going_back() && !steps.MayGoBack(parts_.ToSteps(), job) &&
      checkpoints.round() != nullptr) {
    return checkpoints.waiting_for(job);
  }
  const std::string servers = parts_.servers.waiting_for(job);
  if (!servers.empty()) return servers;
  if (parts_.modes.IsUnderWay()) {
    return absl::StrCat(parts_.modes.waiting_for(job), ", to change staleness ",
                        parts_.modes.change()->Name());
  }
  if (job.phase == JobPhase::kAdopting) {
    const uint32_t worker = parts_.input.portions().holders().awaited();
    return absl::StrCat(job.NameOfWorker(worker),
                        " to say what it holds of the input");
  }
  if (checkpoints.round() != nullptr) {
    const std::string whom = checkpoints.waiting_for(job);
    if (!whom.empty()) return whom;
  }
  return BehindTheOthers();
}

std::string JobReport::BehindTheOthers() const {
  const JobView& job = parts_.job;
  const bool draining = parts_.leaving.draining();
  if (job.phase == JobPhase::kRunning && !draining) {
    for (uint32_t w = 0; w < job.options.workers; ++w) {
      if (job.workers.contains(w)) continue;
      return absl::StrCat("worker-", w, " to join");
    }
  }
  if (draining && job.phase < JobPhase::kSaving) {
    if (parts_.SomebodyLeavesWithASnapshot()) {
      const std::string& failure = parts_.checkpoints.failure();
      return absl::StrCat(
          "a checkpoint to leave with",
          failure.empty() ? ""
                          : absl::StrCat(", which is tried again: ", failure));
    }
    if (parts_.leaving.stopping()) return "the servers to be heard";
    return absl::StrCat(job.NameOfWorker(0), " and the servers to leave");
  }
  if (job.IsSync() && job.phase == JobPhase::kRunning) {
    return job.progress.StepWaitsFor();
  }
  if (job.phase == JobPhase::kEvaluating) {
    return absl::StrCat(
        job.NameOfWorker(parts_.evaluations.awaited(job).value_or(0)),
        " to evaluate");
  }
  if (job.phase == JobPhase::kSaving && parts_.ending.failures() > 0) {
    return absl::StrCat("the last checkpoint, which is tried again: ",
                        parts_.checkpoints.failure());
  }
  if (job.phase == JobPhase::kTellingEnd) {
    return "all processes to hear of the end";
  }
  if (job.phase == JobPhase::kFindingCheckpoint) return "the newest checkpoint";
  return FilesAwaited();
}

std::string JobReport::FilesAwaited() const {
  const GrowingInput& growing = parts_.input.portions().growing();
  const bool waits = parts_.phase == JobPhase::kRunning && growing.waits();
  return waits ? growing.waiting_for() : "";
}

std::string JobReport::overdue(Time now) const {
  const JobView& job = parts_.job;
  // A step takes its time.
  const bool is_short =
      job.IsSync() && job.phase == JobPhase::kRunning &&
      now - parts_.input.steps().steps().decided_at() < kSlowStep;
  const std::string whom = waiting_for();
  if (is_short && whom == job.progress.StepWaitsFor()) return "";
  return whom == FilesAwaited() ? "" : whom;  // Nobody is late with them.
}

v1::JobState JobReport::State() const {
  const v1::JobState state = parts_.job.configuration.state();
  if (state != v1::JOB_STATE_UNSPECIFIED) return state;
  // Of a run that had ended before this process began, or that is yet to be
  // found.
  return parts_.phase >= JobPhase::kTellingEnd ? v1::FINISHED : v1::STARTING;
}

void JobReport::FillEpochs(v1::JobStats* job) const {
  const Epochs& epochs = parts_.input.portions().portions().epochs();
  job->set_epochs(epochs.number());
  if (!epochs.grows()) return;
  v1::GrowingInput* const input = job->mutable_growing_input();
  input->set_epochs(epochs.number());
  input->set_ended(epochs.complete());
  for (uint32_t epoch = 1; epoch <= epochs.number(); ++epoch) {
    input->set_files(input->files() + epochs.FilesOf(epoch)->files_size());
    input->set_examples(input->examples() + epochs.ExamplesOf(epoch));
  }
  const GrowingInput& growing = parts_.input.portions().growing();
  input->set_partitions(static_cast<uint32_t>(growing.partitions()));
  input->set_gone_messages(growing.gone_messages());
  input->set_held_messages(growing.held_messages());
  const v1::SavedInput& saved = parts_.checkpoints.newest().input;
  uint32_t first = std::max(saved.next_epoch(), uint32_t{1});
  for (const v1::SavedInput::Range& range : saved.remaining()) {
    first = std::min(first, range.epoch());
  }
  input->set_saved_epochs(first - 1);
}

void JobReport::FillStatus(Time now, v1::StatusReply* status) const {
  const JobView& view = parts_.job;
  *status->mutable_configuration() = view.configuration.version();
  v1::JobStats* const job = status->mutable_job();
  job->set_name(view.options.job.name());
  job->set_state(State());
  FillEpochs(job);
  job->set_servers(view.options.servers);
  job->set_workers(view.options.workers);
  parts_.input.FillStatus(job);
  parts_.checkpoints.FillStatus(now, job);
  if (parts_.evaluations.newest().examples() > 0) {
    *job->mutable_evaluation() = parts_.evaluations.newest();
  }
  job->set_waiting_for(waiting_for());
  job->set_stopping(parts_.stop.sentence());
  *job->mutable_settings() = view.configuration.settings();
  job->set_staleness(StalenessText(view.configuration.consistency()));
  if (RateScaleOf(view.configuration) != 1) {
    job->set_learning_rate_scale(RateScaleOf(view.configuration));
  }
  parts_.servers.FillStatus(now, job);
  parts_.scaling.FillStatus(job);
  parts_.balance.FillStatus(now, job);
  parts_.sessions.FillStatus(
      view, now, [this](uint32_t w) { return parts_.joins.IsJoining(w); }, job);
}

}  // namespace paramd
