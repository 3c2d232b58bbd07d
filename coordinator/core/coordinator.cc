#include "coordinator/core/coordinator.h"

#include <utility>

#include "coordinator/core/dispatcher.h"

namespace paramd {

Coordinator::Coordinator(const Options& options)
    : dispatcher_(std::make_unique<Dispatcher>(options)) {}

Coordinator::~Coordinator() = default;

void Coordinator::Start(Time now, Outbox* out) { dispatcher_->Start(now, out); }

void Coordinator::Receive(Message message, Time now, Outbox* out) {
  dispatcher_->Receive(std::move(message), now, out);
}

void Coordinator::Completed(IoResult result, Time now, Outbox* out) {
  dispatcher_->Completed(std::move(result), now, out);
}

void Coordinator::Tick(Time now, Outbox* out) { dispatcher_->Tick(now, out); }

Time Coordinator::next_tick() const { return dispatcher_->next_tick(); }

void Coordinator::Drain(Time now, Outbox* out) { dispatcher_->Drain(now, out); }

std::string Coordinator::waiting_for() const {
  return dispatcher_->waiting_for();
}

std::string Coordinator::overdue(Time now) const {
  return dispatcher_->overdue(now);
}

void Coordinator::FillStatus(v1::StatusReply* status) const {
  dispatcher_->FillStatus(status);
}

}  // namespace paramd
