#include "coordinator/core/pings.h"

#include <algorithm>
#include <memory>

#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kPingDeadline = absl::Seconds(1);

}  // namespace

Pings::Pings(const CoordinatorOptions& options) {
  for (const ServerPlaces& server : options.places) {
    for (const uint32_t peer : {server.home, server.away}) {
      places_.emplace_back().peer = peer;
    }
  }
}

bool Pings::IsTime(const JobView& job) {
  return job.phase >= JobPhase::kAdopting && job.phase < JobPhase::kTellingEnd;
}

Pings::Answer Pings::OnReply(const Message& message, const Turn& turn) {
  for (Place& place : places_) {
    if (place.call == 0 || message.from != PeerId::Ps(place.peer) ||
        place.call != message.call) {
      continue;
    }
    place.call = 0;
    place.next = turn.now + kEvery;
    const bool is_refused =
        RefusalOf(message.status).reason() != v1::Refusal::REASON_UNSPECIFIED;
    return message.status.ok() || is_refused ? Answer::kSomebody
                                             : Answer::kNobody;
  }
  return Answer::kNone;
}

void Pings::Advance(Turn* turn) {
  if (!IsTime(turn->job)) return;
  for (Place& place : places_) {
    if (place.call != 0 || turn->now < place.next) continue;
    // Without an encoding it is refused before anything is looked at.
    place.call =
        turn->Send(PeerId::Ps(place.peer), std::make_unique<v1::PullRequest>(),
                   {}, kPingDeadline);
  }
}

Time Pings::next_tick(const JobView& job) const {
  Time next = Time::Never();
  if (!IsTime(job)) return next;
  for (const Place& place : places_) {
    if (place.call == 0) next = std::min(next, place.next);
  }
  return next;
}

}  // namespace paramd
