// The coordinator and how far workers may be apart: clocks, and a mode that is
// changed while the job runs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/consistency.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/core/mode_setting.h"
#include "proto/refusal.h"

namespace paramd {

uint64_t Coordinator::HighestClock() const {
  uint64_t highest = highest_clock_;
  for (const auto& [index, worker] : workers_) {
    highest = std::max(highest, worker.clock());
  }
  return highest;
}

// At its own minimum a joiner would be waited for until it had made up all that
// was done before it came.
uint64_t Coordinator::StartClock(Time now) const {
  bool any = false;
  uint64_t lowest = 0;
  for (const auto& [index, worker] : workers_) {
    if (!IsLive(worker, now) || worker.last.no_input()) continue;
    lowest = any ? std::min(lowest, worker.clock()) : worker.clock();
    any = true;
  }
  return any ? lowest : HighestClock();
}

void Coordinator::OnSet(const Message& message, const v1::SetRequest& request,
                        Outbox* out) {
  if (phase_ >= Phase::kTellingEnd) {
    out->Refuse(message.call, Refuse(v1::Refusal::JOB_FINISHED, "job",
                                     "the job is finished"));
    return;
  }
  if (phase_ < Phase::kRunning || setting_.has_value()) {
    const std::string whom = setting_.has_value()
                                 ? "another setting to be logged"
                                 : waiting_for();
    out->Refuse(message.call,
                RefuseForNow(v1::Refusal::RETRY, whom, absl::Milliseconds(200),
                             absl::StrCat("waiting for ", whom)));
    return;
  }
  auto mode = ModeToSet(request, configuration_.consistency());
  if (!mode.ok()) {
    out->Refuse(message.call, mode.status());
    return;
  }
  if (StalenessText(*mode) == StalenessText(configuration_.consistency())) {
    AnswerSet(message.call, out);
    return;
  }
  setting_ = {message.call, *std::move(mode)};
  v1::LogEntry entry;
  *entry.mutable_configuration() = configuration_;
  *entry.mutable_configuration()->mutable_consistency() = setting_->mode;
  Append(std::move(entry), &Coordinator::OnModeLogged, out);
}

void Coordinator::OnModeLogged(const IoResult& result, Time /*now*/,
                               Outbox* out) {
  const Setting setting = *std::move(setting_);
  setting_.reset();
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  const v1::Consistency before = configuration_.consistency();
  *configuration_.mutable_consistency() = setting.mode;
  // How far they came without a bound is nobody's backlog.
  if (before.mode() != v1::Consistency::BOUNDED) {
    const uint64_t highest = HighestClock();
    for (auto& [index, worker] : workers_) {
      worker.start_clock += highest - worker.clock();
    }
    SetWorkerMembers();
  }
  NextVersion();
  out->Note(absl::StrCat("an operator changed staleness from ",
                         StalenessText(before), " to ",
                         StalenessText(setting.mode), ", as of configuration ",
                         VersionName(configuration_.version())));
  AnswerSet(setting.call, out);
}

void Coordinator::AnswerSet(CallId call, Outbox* out) {
  auto reply = std::make_unique<v1::SetReply>();
  *reply->mutable_configuration() = configuration_.version();
  out->Reply(call, std::move(reply));
}

}  // namespace paramd
