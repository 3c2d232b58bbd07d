#include "coordinator/core/due_members.h"

#include <algorithm>

namespace paramd {
namespace {

// Whoever is due still, and could not be helped, is not looked at again before.
constexpr absl::Duration kNotAgainBefore = absl::Milliseconds(1);

}  // namespace

void DueMembers::Begin() {
  due_.clear();
  const auto servers = static_cast<uint32_t>(parts_.servers.all().size());
  for (uint32_t s = 0; s < servers; ++s) Add(Kind::kServer, s);
  parts_.watch.ForEach([this](uint32_t peer) { Add(Kind::kPlace, peer); });
  for (const auto& [worker, session] : parts_.sessions.all()) {
    if (session.parked == 0) continue;
    due_.push_back({session.parked_until, Kind::kSession, worker});
  }
  std::make_heap(due_.begin(), due_.end(), IsLater);
}

void DueMembers::Add(Kind kind, uint32_t index) {
  const Time at = TimeOf(kind, index);
  if (at != Time::Never()) due_.push_back({at, kind, index});
}

Time DueMembers::TimeOf(Kind kind, uint32_t index) const {
  const JobView& job = parts_.job;
  switch (kind) {
    case Kind::kServer:
      return parts_.replicas.active()
                 ? std::min(parts_.servers.due(index, job),
                            parts_.replicas.due(index, job))
                 : parts_.servers.due(index, job);
    case Kind::kPlace:
      return parts_.watch.due(index, job);
    case Kind::kSession:
      break;
  }
  return parts_.sessions.due(index);
}

void DueMembers::AdvanceOne(PeerId from, absl::optional<uint32_t> server,
                            Turn* turn) {
  if (from.kind == PeerId::Kind::kWorker) {
    return Advance(Kind::kSession, from.index, turn);
  }
  if (from.kind != PeerId::Kind::kPs) return;
  // What the place has said may matter to its server.
  if (server.has_value()) Advance(Kind::kServer, *server, turn);
  Advance(Kind::kPlace, from.index, turn);
}

// As in Dispatcher::AdvanceParts.
void DueMembers::Advance(Kind kind, uint32_t index, Turn* turn) {
  switch (kind) {
    case Kind::kServer:
      if (parts_.replicas.active()) {
        parts_.replicas.AdvanceOne(index, turn);
        facts_.Deliver(turn);
      }
      parts_.servers.AdvanceOne(index, turn);
      break;
    case Kind::kPlace:
      parts_.watch.AdvanceOne(index, turn);
      break;
    case Kind::kSession:
      parts_.sessions.AnswerOne(
          index, [this](uint32_t w) { return parts_.NewsFor(w); }, turn);
      break;
  }
  const size_t before = due_.size();
  Add(kind, index);
  if (due_.size() == before) return;
  due_.back().at = std::max(due_.back().at, turn->now + kNotAgainBefore);
  std::push_heap(due_.begin(), due_.end(), IsLater);
}

void DueMembers::AdvanceDue(Turn* turn) {
  while (!due_.empty() && due_.front().at <= turn->now) {
    std::pop_heap(due_.begin(), due_.end(), IsLater);
    const Due due = due_.back();
    due_.pop_back();
    Advance(due.kind, due.index, turn);
  }
}

}  // namespace paramd
