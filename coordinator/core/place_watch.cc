#include "coordinator/core/place_watch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kWatchDeadline = absl::Seconds(1);

}  // namespace

PlaceWatch::PlaceWatch(const CoordinatorOptions& options)
    : scalable_(!options.places.empty() && !options.places[0].others.empty()) {
  for (const ServerPlaces& server : options.places) {
    for (const uint32_t peer : AllOf(server)) {
      by_peer_[peer] = places_.size();
      places_.emplace_back().peer = peer;
    }
  }
}

bool PlaceWatch::IsTime(const JobView& job) {
  return job.phase >= JobPhase::kAdopting && job.phase < JobPhase::kTellingEnd;
}

const PlaceWatch::Place& PlaceWatch::Of(uint32_t peer) const {
  const auto place = by_peer_.find(peer);
  CHECK(place != by_peer_.end(), "each place of a server is watched");
  return places_[place->second];
}

PlaceWatch::Place& PlaceWatch::Of(uint32_t peer) {
  return const_cast<Place&>(std::as_const(*this).Of(peer));
}

void PlaceWatch::Forget(Place* place, uint64_t process) {
  if (place->leaving) place->left = place->process;
  place->process = process;
  SetLeaving(place, false);
  place->drain = place->let_go = false;
  place->stopped.Clear();
  place->hand_over.Clear();
}

void PlaceWatch::SetLeaving(Place* place, bool leaving) {
  leaving_ += (leaving ? 1 : 0) - (place->leaving ? 1 : 0);
  place->leaving = leaving;
}

// ---- what they say ----------------------------------------------------------

PlaceWatch::Answer PlaceWatch::OnReply(const Message& message,
                                       const Turn& turn) {
  const auto found = by_peer_.find(message.from.index);
  if (message.from.kind != PeerId::Kind::kPs || found == by_peer_.end()) {
    return Answer::kNone;
  }
  Place& place = places_[found->second];
  place.has_news = true;
  if (place.call == 0 || place.call != message.call) return Answer::kNone;
  place.call = 0;
  place.known = true;
  const absl::Duration every = place.spare ? kEverySpare : kEvery;
  place.next = turn.now + every;
  if (!message.status.ok()) {
    const auto reason = RefusalOf(message.status).reason();
    if (HasEnded(message.status)) Forget(&place, 0);
    place.doubted = reason == v1::Refusal::NOT_READY;
    return reason != v1::Refusal::REASON_UNSPECIFIED ? Answer::kSomebody
                                                     : Answer::kNobody;
  }
  const auto* reply = DynamicCastToGenerated<v1::WatchReply>(message.head);
  if (reply == nullptr) return Answer::kSomebody;
  place.heard = turn.now;
  place.asked = place.sent;
  const bool is_new = reply->incarnation() != place.process;
  if (is_new) Forget(&place, reply->incarnation());
  const bool was_doubted = std::exchange(place.doubted, false);
  const bool is_news = is_new || reply->leaving() != place.leaving ||
                       reply->stopped() != place.stopped;
  const bool begins_to_leave = reply->leaving() && !place.leaving;
  SetLeaving(&place, reply->leaving());
  place.stopped = reply->stopped();
  place.has_news = is_news || was_doubted || leaving_ > 0;
  // It has waited there.
  place.next = is_news ? turn.now : std::max(turn.now, place.sent + every);
  if (begins_to_leave) {
    place.leaves_since = turn.now;
    LeaveTogether(place.process, turn.now);
  }
  if (is_new && scalable_) place.drain = Leaves(place.process);
  return Answer::kSomebody;
}

// Some may have been told to stay meanwhile.
void PlaceWatch::LeaveTogether(uint64_t process, Time now) {
  for (Place& place : places_) {
    if (place.process != process) continue;
    if (scalable_) place.drain = true;
    if (place.spare) place.next = now;
  }
}

bool PlaceWatch::Leaves(uint64_t process) const {
  return process != 0 &&
         std::any_of(places_.begin(), places_.end(),
                     [process](const Place& place) {
                       return place.left == process ||
                              (place.leaving && place.process == process);
                     });
}

bool PlaceWatch::IsThere(uint32_t peer, const Turn& turn) const {
  const uint64_t process = ProcessAt(peer);
  return process != 0 && !Leaves(process) &&
         !IsSilent(peer, turn.job, turn.now);
}

bool PlaceWatch::IsLeaving(uint32_t peer, uint64_t process) const {
  const Place& place = Of(peer);
  return place.leaving && place.process == process;
}

bool PlaceWatch::IsThereSince(uint32_t peer, uint64_t process,
                              uint32_t leaving) const {
  const Place& place = Of(peer);
  return place.process == process && place.asked > Of(leaving).leaves_since;
}

bool PlaceWatch::HasStopped(uint32_t peer, uint64_t process,
                            const v1::ConfigurationVersion& since) const {
  const Place& place = Of(peer);
  return place.process == process && !IsZero(since) && place.stopped == since;
}

// ---- what they are told -----------------------------------------------------

void PlaceWatch::Drain(uint32_t peer, uint64_t process) {
  Place& place = Of(peer);
  if (place.drain || place.process != process) return;
  place.drain = true;
  if (place.spare) place.next = place.sent;
}

void PlaceWatch::HandOver(uint32_t peer,
                          const v1::ConfigurationVersion& since) {
  Of(peer).hand_over = since;
}

void PlaceWatch::Advance(Turn* turn) {
  if (!IsTime(turn->job)) return;
  for (Place& place : places_) AskIfDue(&place, turn);
}

void PlaceWatch::AdvanceOne(uint32_t peer, Turn* turn) {
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end() || !IsTime(turn->job)) return;
  AskIfDue(&places_[found->second], turn);
}

void PlaceWatch::AskIfDue(Place* place, Turn* turn) {
  if (place->call != 0 || turn->now < place->next) return;
  auto watch = std::make_unique<v1::WatchRequest>();
  watch->mutable_header()->set_term(turn->job.configuration.version().term());
  // First of all who is there.
  if (place->process != 0 && !place->doubted) {
    watch->mutable_header()->set_server_incarnation(place->process);
    watch->set_wait_ms(
        static_cast<uint32_t>(absl::ToInt64Milliseconds(kEvery)));
    watch->set_leaving(place->leaving);
    *watch->mutable_stopped() = place->stopped;
    watch->set_leave(place->drain);
    *watch->mutable_hand_over() = place->hand_over;
    watch->set_may_leave(place->let_go);
    if (place->spare) {
      *watch->mutable_header()->mutable_configuration() =
          turn->job.configuration.version();
      watch->set_spare(true);
    }
  }
  place->sent = turn->now;
  place->call =
      turn->Send(PeerId::Ps(place->peer), std::move(watch), {}, kWatchDeadline);
}

Time PlaceWatch::due(uint32_t peer, const JobView& job) const {
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end() || !IsTime(job)) return Time::Never();
  const Place& place = places_[found->second];
  return place.call == 0 ? place.next : Time::Never();
}

Time PlaceWatch::next_tick(const JobView& job) const {
  Time next = Time::Never();
  if (!IsTime(job)) return next;
  for (const Place& place : places_) {
    if (place.call == 0) next = std::min(next, place.next);
  }
  return next;
}

}  // namespace paramd
