#include "coordinator/core/ending.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/optimizer_slots.h"
#include "coordinator/core/layout.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// The last checkpoint is tried so often, and for the drain_timeout, at least.
constexpr int kAttempts = 3;
constexpr absl::Duration kRetry = absl::Seconds(2);

absl::Duration FinishTimeout(const JobView& job) {
  return absl::Milliseconds(job.options.job.finish_timeout_ms());
}

// Of a checkpoint with all blocks, about.
uint64_t BytesOfACheckpoint(const JobView& job) {
  const v1::OptimizerConfig& optimizer = job.configuration.optimizer();
  uint64_t bytes = 0;
  for (const v1::Variable& variable : job.options.variables) {
    const auto shape = ToRowShape(variable.shape());
    if (!shape.ok()) continue;
    const uint64_t elements = shape->rows * shape->row_elements;
    bytes += elements * ValueBytes(variable);
    for (const Slot& slot : SlotsOf(optimizer, variable)) {
      bytes += slot.words(elements, shape->row_elements) * sizeof(float);
    }
  }
  return bytes;
}

}  // namespace

// ---- the last checkpoint ----------------------------------------------------

// Nothing is lost by waiting for space: all input is used up.
void Ending::OnSaveFailed(const absl::Status& why, Turn* turn) {
  if (++failures_ == 1) failing_since_ = turn->now;
  next_attempt_ = turn->now + kRetry;
  if (failures_ < kAttempts ||
      turn->now - failing_since_ <
          absl::Milliseconds(turn->job.options.job.drain_timeout_ms())) {
    return;
  }
  // Another run's directory stays so.
  const bool may_pass = !absl::IsInvalidArgument(why);
  turn->out->Exit(absl::Status(
      may_pass ? absl::StatusCode::kUnavailable : why.code(),
      absl::StrCat(
          "the last checkpoint can't be written: ", why.message(),
          may_pass
              ? absl::StrCat("; it takes about ", BytesOfACheckpoint(turn->job),
                             " bytes: see to it, and start the job "
                             "again in its run_dir (paramd local: "
                             "--resume)")
              : "")));
}

// ---- the result and the log -------------------------------------------------

void Ending::Write(std::unique_ptr<v1::WriteResult> result, Turn* turn) {
  turn->StartIo(std::move(result), Then(this, &Ending::OnResultWritten));
  turn->Raise(Reached{JobPhase::kWritingResult});
}

void Ending::OnResultWritten(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  v1::LogEntry entry;
  entry.mutable_finished()->set_reason("all input is used up");
  turn->Append(std::move(entry), Then(this, &Ending::OnLogged));
  turn->Raise(Reached{JobPhase::kLoggingEnd});
}

void Ending::OnLogged(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  turn->live->ChangeState(v1::FINISHED);
  BeginTelling(turn);
  turn->Raise(Reached{JobPhase::kTellingEnd});
}

// ---- telling ----------------------------------------------------------------

void Ending::BeginTelling(Turn* turn) {
  deadline_ = turn->now + FinishTimeout(turn->job);
  for (uint32_t w = 0; w < turn->job.options.workers; ++w) {
    if (!turn->job.workers.contains(w)) yet_to_hear_.insert(w);
  }
}

void Ending::Advance(bool idle, Turn* turn) {
  const JobView& job = turn->job;
  const bool all_workers_know =
      yet_to_hear_.empty() &&
      std::all_of(job.workers.begin(), job.workers.end(), [&](const auto& w) {
        return w.second.last.state() == v1::FINISHED ||
               !job.IsLive(w.second, turn->now);
      });
  everybody_knows_ |= all_workers_know || turn->now >= deadline_;
  const bool all_servers_know =
      std::all_of(job.servers.begin(), job.servers.end(),
                  [](const ServerRecord& s) { return s.end_told == 2; });
  // Servers are told for as long again; they then leave by themselves.
  if ((everybody_knows_ && all_servers_know && idle) ||
      turn->now >= deadline_ + FinishTimeout(job)) {
    turn->Raise(Reached{JobPhase::kDone});
  }
}

}  // namespace paramd
