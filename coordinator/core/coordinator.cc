#include "coordinator/core/coordinator.h"

#include <utility>

#include "coordinator/core/dispatcher.h"
#include "coordinator/core/failed_job.h"

namespace paramd {

Coordinator::Coordinator(const Options& options)
    : dispatcher_(std::make_unique<Dispatcher>(options)) {}

Coordinator::~Coordinator() = default;

void Coordinator::Start(Time now, Outbox* out) { dispatcher_->Start(now, out); }

void Coordinator::Receive(Message message, Time now, Outbox* out) {
  if (failed_ != nullptr) return failed_->Receive(message, now, out);
  dispatcher_->Receive(std::move(message), now, out);
  TellOwnFailure(now, out);
}

void Coordinator::Completed(IoResult result, Time now, Outbox* out) {
  if (failed_ != nullptr) return;  // Nothing more comes of it.
  dispatcher_->Completed(std::move(result), now, out);
  TellOwnFailure(now, out);
}

void Coordinator::Tick(Time now, Outbox* out) {
  if (failed_ != nullptr) return failed_->Tick(now, out);
  dispatcher_->Tick(now, out);
  TellOwnFailure(now, out);
}

Time Coordinator::next_tick() const {
  return failed_ != nullptr ? failed_->next_tick() : dispatcher_->next_tick();
}

void Coordinator::Drain(Time now, Outbox* out) {
  if (failed_ != nullptr) return failed_->Hurry(now, out);
  dispatcher_->Drain(now, out);
  TellOwnFailure(now, out);
}

void Coordinator::Fail(const absl::Status& why, Time now, Outbox* out) {
  if (failed_ != nullptr) return;
  out->Exit(absl::OkStatus());
  TellFailure(why, now, out);
}

void Coordinator::TellOwnFailure(Time now, Outbox* out) {
  if (!out->exited || out->exit_status.ok()) return;
  const absl::Status why = out->exit_status;
  // Of its storage: space is freed, and the next start goes on.
  if (absl::IsResourceExhausted(why)) {
    out->exit_status = absl::UnavailableError(why.message());
    return;
  }
  TellFailure(why, now, out);
}

void Coordinator::TellFailure(const absl::Status& why, Time now, Outbox* out) {
  auto telling = dispatcher_->ToTell(why, now);
  if (!telling.has_value()) return;
  out->exited = false;
  out->exit_status = absl::OkStatus();
  failed_ = std::make_unique<FailedJob>(*std::move(telling), now, out);
}

std::string Coordinator::waiting_for() const {
  return failed_ != nullptr ? failed_->waiting_for()
                            : dispatcher_->waiting_for();
}

std::string Coordinator::overdue(Time now) const {
  return failed_ != nullptr ? failed_->waiting_for()
                            : dispatcher_->overdue(now);
}

void Coordinator::FillStatus(v1::StatusReply* status) const {
  dispatcher_->FillStatus(status);
}

}  // namespace paramd
