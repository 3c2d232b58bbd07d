#include "coordinator/core/place_drains.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kDrainPatience = absl::Seconds(2);
constexpr size_t kMostDrainsWaiting = 64;

std::string PsName(uint32_t ps) { return absl::StrCat("ps-", ps); }

// All places of the ps.
std::vector<uint32_t> PlacesOfPs(uint32_t ps,
                                 const std::vector<ServerPlaces>& places) {
  std::vector<uint32_t> of_ps;
  for (const ServerPlaces& server : places) {
    for (const uint32_t peer : AllOf(server)) {
      if (TaskOfPlace(places, peer) == ps) of_ps.push_back(peer);
    }
  }
  return of_ps;
}

// A process that is let go is as good as gone.
bool IsThere(uint32_t peer, const PlaceWatch& watch) {
  return watch.ProcessAt(peer) != 0 && !watch.IsLetGo(peer);
}

// One whose machine has vanished never says that it leaves.
bool HasLeft(const std::pair<uint32_t, uint64_t>& place,
             const PlaceWatch& watch, const JobView& job, Time now) {
  const uint32_t peer = place.first;
  if (watch.ProcessAt(peer) != place.second || watch.IsLetGo(peer)) return true;
  const ServerRecord& server =
      job.servers[ServerOfPlace(job.options.places, peer)];
  const bool is_needed = server.peer == peer || (server.backup.has_value() &&
                                                 server.backup->peer() == peer);
  return !is_needed && watch.IsSilent(peer, job, now);
}

}  // namespace

absl::Status PlaceDrains::Check(uint32_t ps, const Replicas& replicas,
                                const PlaceWatch& watch, const JobView& job) {
  const std::vector<ServerPlaces>& places = job.options.places;
  const std::string name = PsName(ps);
  if (places.empty()) {
    return Invalid(name, absl::StrCat(name,
                                      " can't be drained: with replication 1 "
                                      "nobody has what it holds; on SIGTERM it "
                                      "leaves with a checkpoint"));
  }
  const std::vector<uint32_t> of_ps = PlacesOfPs(ps, places);
  if (of_ps.empty()) {
    return Invalid(
        name, absl::StrCat("the job has no ", name, "; its last one is ps-",
                           TaskOfPlace(places, places.back().home)));
  }
  if (job.phase < JobPhase::kRunning) {
    const std::string whom = job.waiting_for();
    return RefuseForNow(v1::Refusal::RETRY, whom, job.heartbeat(),
                        absl::StrCat("no ps can be drained before the job "
                                     "runs: waiting for ",
                                     whom));
  }
  const bool is_here =
      std::any_of(of_ps.begin(), of_ps.end(),
                  [&](uint32_t peer) { return IsThere(peer, watch); });
  if (!is_here) {
    return Invalid(name, absl::StrCat(name,
                                      " is not there: nothing has to be "
                                      "drained"));
  }
  const bool is_last = std::none_of(
      places.begin(), places.end(), [&](const ServerPlaces& server) {
        const uint32_t home = TaskOfPlace(places, server.home);
        return home != ps && IsThere(server.home, watch);
      });
  if (is_last) {
    return Invalid(name, absl::StrCat(name,
                                      " can't be drained: no other ps is "
                                      "there"));
  }
  for (uint32_t s = 0; s < job.servers.size(); ++s) {
    const uint32_t peer = job.servers[s].peer.value_or(s);
    if (TaskOfPlace(places, peer) != ps) continue;
    const std::string why = replicas.WhyNotHandedOver(s, job);
    if (why.empty()) continue;
    return Invalid(name, absl::StrCat(name, " can't be drained now: ", why));
  }
  return absl::OkStatus();
}

void PlaceDrains::OnRequest(const Message& message,
                            const v1::DrainRequest& request,
                            const Replicas& replicas, const PlaceWatch& watch,
                            bool ends, Turn* turn) {
  const JobView& job = turn->job;
  if (job.phase >= JobPhase::kSaving) {
    return turn->out->Refuse(
        message.call,
        Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished"));
  }
  if (ends) {
    return turn->out->Refuse(message.call,
                             Invalid("job",
                                     "the job is being stopped: no ps is "
                                     "drained any more"));
  }
  if (waiting_ >= kMostDrainsWaiting) {
    return turn->out->Refuse(
        message.call, RefuseForNow(v1::Refusal::RETRY, "drain", kDrainPatience,
                                   absl::StrCat(kMostDrainsWaiting,
                                                " wait for a ps to be drained "
                                                "already")));
  }
  const uint32_t ps = request.ps();
  const auto known = drains_.find(ps);
  const bool goes_on =
      known != drains_.end() &&
      (!known->second.left || known->second.nonce == request.nonce());
  if (!goes_on) {
    const absl::Status status = Check(ps, replicas, watch, job);
    if (!status.ok()) return turn->out->Refuse(message.call, status);
    Drain drain;
    drain.nonce = request.nonce();
    for (const uint32_t peer : PlacesOfPs(ps, job.options.places)) {
      const uint64_t process = watch.ProcessAt(peer);
      if (process != 0) drain.places.emplace_back(peer, process);
    }
    drains_[ps] = std::move(drain);
    turn->out->Note(absl::StrCat("an operator (", request.origin().who(),
                                 ") drains ", PsName(ps)));
  }
  drains_[ps].waiting.push_back({message.call, turn->now + kDrainPatience});
  ++waiting_;
}

std::string PlaceDrains::WaitsFor(const Drain& drain, const PlaceWatch& watch,
                                  const JobView& job, Time now) {
  std::string waits;
  for (const auto& place : drain.places) {
    if (HasLeft(place, watch, job, now)) continue;
    const uint32_t server = ServerOfPlace(job.options.places, place.first);
    if (job.servers[server].peer == place.first) {
      return absl::StrCat("the backup of ps-", server, " to take over");
    }
    const auto& backup = job.servers[server].backup;
    const bool is_backup = backup.has_value() && backup->peer() == place.first;
    if (is_backup) {
      const ServerRecord& record = job.servers[server];
      const bool is_there =
          watch.IsThereSince(*record.peer, record.incarnation, place.first);
      waits = is_there ? absl::StrCat("the log to drop ps-", server,
                                      "'s backup there")
                       : absl::StrCat("ps-", server, " to answer, or its ",
                                      "backup there to take over");
    } else if (waits.empty()) {
      waits = "its process to hear that it may leave";
    }
  }
  return waits;
}

std::string PlaceDrains::UnderWay() const {
  for (const auto& [ps, drain] : drains_) {
    if (!drain.left) return PsName(ps);
  }
  return "";
}

// A process may be gone without having been let go: it was killed, or had no
// backup any more. Of a server that has one it is decided yet who goes on.
void PlaceDrains::SeeWhoLeft(const PlaceWatch& watch, const JobView& job,
                             Time now, Drain* drain) {
  absl::optional<uint32_t> missed;
  for (const auto& place : drain->places) {
    if (!HasLeft(place, watch, job, now)) return;
    const bool was_let_go = watch.ProcessAt(place.first) == place.second;
    const uint32_t server = ServerOfPlace(job.options.places, place.first);
    if (was_let_go || job.servers[server].peer != place.first) continue;
    if (job.servers[server].backup.has_value()) return;
    missed = server;
  }
  drain->left = true;
  drain->missed = missed;
}

void PlaceDrains::Answer(uint32_t ps, const std::string& waiting_for,
                         Drain* drain, Turn* turn) {
  waiting_ -= std::erase_if(drain->waiting, [&](const Waiting& waiting) {
    if (!drain->left && turn->now < waiting.until) return false;
    if (drain->missed.has_value()) {
      turn->out->Refuse(
          waiting.call,
          Refuse(v1::Refusal::NOT_READY, PsName(ps),
                 absl::StrCat(PsName(ps), " has ended and is not drained: ps-",
                              *drain->missed, " lost its backup meanwhile; ",
                              "start ", PsName(ps), " again, the job waits ",
                              "for it")));
      return true;
    }
    auto reply = std::make_unique<v1::DrainReply>();
    reply->set_left(drain->left);
    reply->set_waiting_for(waiting_for);
    turn->out->Reply(waiting.call, std::move(reply));
    return true;
  });
}

void PlaceDrains::Advance(PlaceWatch* watch, Turn* turn) {
  for (auto& [ps, drain] : drains_) {
    if (!drain.left) {
      for (const auto& [peer, process] : drain.places) {
        watch->Drain(peer, process);
      }
      SeeWhoLeft(*watch, turn->job, turn->now, &drain);
    }
    if (!drain.waiting.empty()) {
      Answer(ps, WaitsFor(drain, *watch, turn->job, turn->now), &drain, turn);
    }
  }
}

}  // namespace paramd
