#include "server/core/worker_clocks.h"

#include <algorithm>
#include <utility>

#include "config/server_settings.h"
#include "proto/refusal.h"

namespace paramd {

void WorkerClocks::Configure(const v1::Configuration& configuration, Time now) {
  std::map<uint32_t, Session> next;
  for (const v1::WorkerMember& member : configuration.workers()) {
    Session& session = next[member.index()];
    const auto known = sessions_.find(member.index());
    if (known != sessions_.end() &&
        known->second.generation == member.generation()) {
      session = known->second;
      session.clock += member.start_clock() -
                       std::min(member.start_clock(), session.start_clock);
    } else {
      session.generation = member.generation();
      session.clock = member.start_clock();
      session.heard = now;
    }
    session.start_clock = member.start_clock();
  }
  sessions_ = std::move(next);
  lease_ = ServerSettingsIn(configuration).lease;
}

void WorkerClocks::CountAll(Time now) {
  for (auto& [worker, session] : sessions_) {
    session.heard = now;
    session.no_input = false;
  }
}

WorkerClocks::Session* WorkerClocks::Find(const v1::Header& header) {
  const auto found = sessions_.find(header.worker());
  return found != sessions_.end() &&
                 found->second.generation == header.generation()
             ? &found->second
             : nullptr;
}

void WorkerClocks::Hear(const v1::Header& header, uint64_t clock, Time now) {
  Session* const session = Find(header);
  if (session == nullptr) return;
  session->clock = std::max(session->clock, clock);
  session->heard = now;
}

void WorkerClocks::Tell(const v1::TellClockRequest& told, Time now) {
  Hear(told.header(), told.clock(), now);
  Session* const session = Find(told.header());
  if (session == nullptr || told.number() <= session->told) return;
  session->told = told.number();
  session->no_input = told.no_input();
}

void WorkerClocks::Forgive(absl::Duration pause) {
  for (auto& [worker, session] : sessions_) {
    session.heard = session.heard + pause;
  }
}

bool WorkerClocks::Counts(const Session& session, Time now) const {
  return !session.no_input && now - session.heard <= lease_;
}

absl::optional<WorkerClocks::Slowest> WorkerClocks::slowest(Time now) const {
  absl::optional<Slowest> slowest;
  for (const auto& [worker, session] : sessions_) {
    if (!Counts(session, now)) continue;
    if (slowest.has_value() && slowest->clock <= session.clock) continue;
    slowest = {worker, session.generation, session.clock, session.heard};
  }
  return slowest;
}

Time WorkerClocks::next_expiry(Time now) const {
  Time next = Time::Never();
  for (const auto& [worker, session] : sessions_) {
    if (!Counts(session, now)) continue;
    next = std::min(next, session.heard + lease_ + absl::Nanoseconds(1));
  }
  return next;
}

}  // namespace paramd
