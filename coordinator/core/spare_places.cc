#include "coordinator/core/spare_places.h"

#include <algorithm>
#include <memory>

#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kSpareDeadline = absl::Seconds(1);
constexpr absl::Duration kSpareRetry = absl::Milliseconds(200);

}  // namespace

std::vector<std::pair<uint32_t, uint64_t>> SparePlaces::all(
    const JobView& job) const {
  std::vector<std::pair<uint32_t, uint64_t>> all;
  for (size_t s = 0; s < job.options.places.size(); ++s) {
    for (const uint32_t peer : AllOf(job.options.places[s])) {
      const bool is_spare =
          job.servers[s].peer != peer && !replicas_.ServerAt(peer).has_value();
      if (is_spare) all.emplace_back(peer, watch_.ProcessAt(peer));
    }
  }
  return all;
}

void SparePlaces::Advance(bool everybody_knows, Turn* turn) {
  if (!begun_) {
    begun_ = true;
    for (const auto& [peer, process] : all(turn->job)) {
      places_.push_back({.peer = peer, .process = process});
    }
  }
  const int most = everybody_knows ? 2 : 1;
  for (Place& place : places_) {
    if (place.call != 0 || place.told >= most || turn->now < place.next) {
      continue;
    }
    auto finish = std::make_unique<v1::FinishRequest>();
    finish->mutable_header()->set_term(
        turn->job.configuration.version().term());
    finish->set_everybody_knows(everybody_knows);
    place.asked = most;
    place.call = turn->Send(PeerId::Ps(place.peer), std::move(finish), {},
                            kSpareDeadline);
  }
}

void SparePlaces::OnReply(const Message& message, Turn* turn) {
  for (Place& place : places_) {
    if (place.call == 0 || place.call != message.call) continue;
    place.call = 0;
    place.next = turn->now + kSpareRetry;
    const auto reason = RefusalOf(message.status).reason();
    if (message.status.ok()) {
      place.told = std::max(place.told, place.asked);
    } else if (reason == v1::Refusal::JOB_FINISHED) {
      place.told = std::max(place.told, 1);
    } else if (reason == v1::Refusal::REASON_UNSPECIFIED && place.told == 1) {
      place.told = 2;  // One that has heard of the end leaves by itself.
    } else if (HasEnded(message.status)) {
      place.told = 2;
    }
    return;
  }
}

bool SparePlaces::all_know() const {
  return std::all_of(places_.begin(), places_.end(), [](const Place& place) {
    return place.told == 2 || place.process == 0;
  });
}

}  // namespace paramd
