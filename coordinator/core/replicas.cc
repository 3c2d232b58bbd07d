#include "coordinator/core/replicas.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "coordinator/core/live_configuration.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;
using Call = ServerRecord::Call;

constexpr absl::Duration kPlaceDeadline = absl::Seconds(5);
constexpr absl::Duration kPlaceFinishDeadline = absl::Seconds(1);
constexpr absl::Duration kPlaceRetry = absl::Milliseconds(200);
constexpr absl::Duration kPlaceNotYet = absl::Milliseconds(20);
// What was of no use is tried again then.
constexpr absl::Duration kNotAgainFor = absl::Seconds(10);

// A server whose last place does not answer is taken over: at once if that has
// ended, else when it is silent for its lease.
bool IsGone(const ServerRecord& server, const JobView& job, Time now) {
  return server.suspected && (server.ended || now - server.heard > job.lease());
}

}  // namespace

Replicas::Replicas(const CoordinatorOptions& options,
                   const SnapshotCalls& snapshots, PlaceWatch* watch)
    : snapshots_(snapshots),
      watch_(*watch),
      all_(options.places),
      places_(options.places.size()),
      targets_(options.places.size()) {
  for (size_t s = 0; s < places_.size(); ++s) {
    targets_[s].places = options.places[s];
    places_[s].peer = options.places[s].away;
    places_[s].other = options.places[s].home;
  }
}

absl::optional<uint32_t> Replicas::PeerIn(const v1::ServerMember& logged,
                                          const CoordinatorOptions& options) {
  if (logged.index() >= options.places.size() || !logged.has_peer()) {
    return absl::nullopt;
  }
  const std::vector<uint32_t> all = AllOf(options.places[logged.index()]);
  const bool is_its =
      std::find(all.begin(), all.end(), logged.peer()) != all.end();
  return is_its ? absl::make_optional(logged.peer()) : absl::nullopt;
}

absl::optional<uint32_t> Replicas::ServerAt(uint32_t peer) const {
  for (uint32_t s = 0; s < places_.size(); ++s) {
    if (places_[s].peer == peer) return s;
  }
  return absl::nullopt;
}

// ---- what is heard ----------------------------------------------------------

void Replicas::OnConfigured(uint32_t server, const v1::ConfigureReply& reply) {
  if (active()) places_[server].report = reply.backup();
}

// One that is to be dropped has everything as long as its server has not heard
// of that, and one that is to be a member has it already.
bool Replicas::HasEverything(uint32_t server, const JobView& job) const {
  const Place& place = places_[server];
  const auto& backup = job.servers[server].backup;
  if (!backup.has_value() || place.ended ||
      backup->incarnation() != place.incarnation) {
    return false;
  }
  const bool is_of_it = place.report.since() == backup->since();
  if (is_of_it && !place.report.whole()) return false;
  return backup->member() || place.logging == Logging::kMember;
}

bool Replicas::TakesOver(uint32_t server, Turn* turn) {
  if (!active() || !HasEverything(server, turn->job)) return false;
  Place& place = places_[server];
  place.gone = true;
  if (place.logging == Logging::kNothing) {
    LogTakeOver(server, Last::kEnded, turn);
  }
  return true;
}

void Replicas::OnReply(uint32_t server, const Message& message, Turn* turn) {
  Place& place = places_[server];
  if (place.call == Call::kNone || place.call_id != message.call) return;
  const Call call = std::exchange(place.call, Call::kNone);
  if (place.told_changes && absl::IsInvalidArgument(message.status)) {
    place.told_since.Clear();
    place.next_call = turn->now;
    return;
  }
  if (!message.status.ok()) return OnFailed(server, message.status, turn);
  place.next_keepalive = turn->now + turn->job.heartbeat();
  place.ended = false;
  uint64_t incarnation = place.incarnation;
  if (const auto* recalled =
          DynamicCastToGenerated<v1::RecallReply>(message.head)) {
    incarnation = recalled->incarnation();
    place.build = recalled->build();
    place.suspected = false;
  } else if (const auto* configured =
                 DynamicCastToGenerated<v1::ConfigureReply>(message.head)) {
    // Another process is recalled first.
    if (configured->incarnation() != place.incarnation) {
      place.suspected = true;
    } else {
      place.acknowledged = configured->configuration();
      place.told_since.Clear();
      if (configured->takes_changes()) {
        place.told_since = configured->configuration();
      }
    }
  } else if (call == Call::kFinish) {
    place.end_told = place.end_asked;
  }
  if (incarnation == place.incarnation) return;
  place.incarnation = incarnation;
  place.told_since.Clear();
  place.again = turn->now;
}

void Replicas::OnFailed(uint32_t server, const absl::Status& status,
                        Turn* turn) {
  Place& place = places_[server];
  const v1::Refusal refusal = RefusalOf(status);
  place.why = std::string(status.message());
  place.next_call = turn->now + kPlaceRetry;
  place.ended = place.ended || HasEnded(status);
  switch (refusal.reason()) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::WAIT:
    case v1::Refusal::RETRY:
      place.next_call =
          turn->now +
          std::max(kPlaceNotYet, absl::Milliseconds(refusal.retry_after_ms()));
      return;
    case v1::Refusal::OLD_TERM:
      return turn->out->Exit(TermLost(place.why));
    case v1::Refusal::JOB_FINISHED:
      place.end_told = std::max(place.end_told, 1);
      return;
    case v1::Refusal::REASON_UNSPECIFIED:
    case v1::Refusal::FENCED:
      place.suspected = true;
      // One that has heard of the end leaves by itself.
      if (place.end_told == 1) place.end_told = 2;
      return;
    default:
      break;
  }
  turn->out->Warn(absl::StrCat(
      "ps-", server, " has no backup: the other place refuses: ", place.why));
  place.again = turn->now + kNotAgainFor;
  place.suspected = true;
}

// ---- what is decided --------------------------------------------------------

void Replicas::Decide(uint32_t server, Turn* turn) {
  Place& place = places_[server];
  if (place.logging != Logging::kNothing) return;
  const ServerRecord& record = turn->job.servers[server];
  if (!record.backup.has_value()) {
    if (place.peer != Wanted(server)) BeginElsewhere(server);
    const bool may = place.incarnation != 0 && !place.suspected &&
                     turn->now >= place.again && !record.suspected &&
                     record.restored && record.drains_since == Time::Never() &&
                     !watch_.IsLeaving(*record.peer, record.incarnation) &&
                     !watch_.IsLeaving(place.peer, place.incarnation);
    if (may && !IsOfAnotherBuild(server, turn)) Tell(server, turn);
    return;
  }
  const v1::Backup& backup = *record.backup;
  if (backup.incarnation() != place.incarnation || place.ended) {
    return Drop(server, "its process has ended", turn);
  }
  if (place.suspected && place.again > turn->now) {
    return Drop(server, place.why, turn);
  }
  if (IsGone(record, turn->job, turn->now) &&
      HasEverything(server, turn->job)) {
    return LogTakeOver(server, record.ended ? Last::kEnded : Last::kSilent,
                       turn);
  }
  if (watch_.IsLeaving(place.peer, place.incarnation)) {
    // Unless its server may be gone: then this one takes over.
    if (watch_.IsThereSince(*record.peer, record.incarnation, place.peer)) {
      Drop(server, "its process leaves", turn);
    }
    return;
  }
  // One that may be gone goes on in the backup that it has.
  const bool is_there = !record.suspected &&
                        turn->now - record.heard <= 2 * turn->job.heartbeat();
  if (is_there && place.peer != Wanted(server)) {
    return Drop(server, "it gets one in another process", turn);
  }
  const bool is_of_it = place.report.since() == backup.since();
  if (is_of_it && !place.report.lost().empty()) {
    place.again = turn->now + kNotAgainFor;
    return Drop(server, place.report.lost(), turn);
  }
  if (!backup.member() && is_of_it && place.report.whole()) {
    return LogMember(server, turn);
  }
  HandOver(server, turn);
}

void Replicas::HandOver(uint32_t server, Turn* turn) {
  const ServerRecord& record = turn->job.servers[server];
  const v1::Backup& backup = *record.backup;
  const uint32_t peer = *record.peer;
  if (!backup.member() || !HasEverything(server, turn->job)) return;
  if (watch_.HasStopped(peer, record.incarnation, backup.since())) {
    const bool leaves = watch_.IsLeaving(peer, record.incarnation);
    return LogTakeOver(server, leaves ? Last::kStopped : Last::kMoved, turn);
  }
  const JobPhase phase = turn->job.phase;
  const bool is_under_way =
      phase == JobPhase::kRunning || phase == JobPhase::kEvaluating;
  if (is_under_way && !chief_leaves_ &&
      (watch_.IsLeaving(peer, record.incarnation) || MovesFrom(server, peer))) {
    watch_.HandOver(peer, backup.since());
  }
}

// The one of the two where the server is not. Where it is in neither, it goes
// to its home, unless there is a backup in the other one already.
uint32_t Replicas::Wanted(uint32_t server) const {
  const ServerPlaces& belongs = targets_[server].places;
  const Place& place = places_[server];
  if (place.other == belongs.home) return belongs.away;
  const bool is_neither = place.other != belongs.away;
  return is_neither && place.peer == belongs.away ? belongs.away : belongs.home;
}

bool Replicas::MovesFrom(uint32_t server, uint32_t peer) const {
  const Target& target = targets_[server];
  return target.settles && peer != target.places.home;
}

void Replicas::BeginElsewhere(uint32_t server) {
  const uint32_t other = places_[server].other;
  const uint32_t wanted = Wanted(server);
  places_[server] = Place();
  places_[server].peer = wanted;
  places_[server].other = other;
}

bool Replicas::IsFree(uint32_t server, uint32_t peer,
                      const JobView& job) const {
  const ServerRecord& record = job.servers[server];
  const bool is_backup =
      record.backup.has_value() && record.backup->peer() == peer;
  return record.peer != peer && !is_backup &&
         (record.restored || record.ended) &&
         places_[server].logging == Logging::kNothing;
}

void Replicas::LetGo(uint32_t server, const JobView& job) {
  const ServerPlaces& all = all_[server];
  const size_t count = 2 + all.others.size();
  for (size_t p = 0; p < count; ++p) {
    const uint32_t peer = p == 0   ? all.home
                          : p == 1 ? all.away
                                   : all.others[p - 2];
    const bool is_free = IsFree(server, peer, job);
    watch_.SetSpare(peer, is_free && peer != places_[server].peer);
    if (is_free && watch_.IsLeaving(peer, watch_.ProcessAt(peer))) {
      watch_.LetGo(peer);
    }
  }
}

std::string Replicas::WhyNotHandedOver(uint32_t server,
                                       const JobView& job) const {
  const Place& place = places_[server];
  const auto& backup = job.servers[server].backup;
  if (backup.has_value() && backup->member() && HasEverything(server, job) &&
      !watch_.IsLeaving(place.peer, place.incarnation)) {
    return "";
  }
  if (backup.has_value()) {
    return absl::StrCat("the backup of ps-", server,
                        backup->member() ? " leaves or is lost"
                                         : " does not hold everything yet");
  }
  return absl::StrCat("ps-", server, " has no backup",
                      place.why.empty() ? "" : ": ", place.why);
}

v1::ServerMember Replicas::MemberOf(uint32_t server, const Turn& turn) {
  return turn.job.configuration.servers(static_cast<int>(server));
}

bool Replicas::IsOfAnotherBuild(uint32_t server, Turn* turn) {
  Place& place = places_[server];
  const std::string& own = turn->job.servers[server].build;
  if (own == place.build || own.empty() || place.build.empty()) return false;
  std::string why =
      absl::StrCat("its process is paramd ", own, ", that of its other place ",
                   place.build, ": start all ps with one build");
  if (place.why != why) {
    turn->out->Warn(absl::StrCat("ps-", server, " has no backup: ", why));
  }
  place.why = std::move(why);
  return true;
}

void Replicas::Tell(uint32_t server, Turn* turn) {
  const Place& place = places_[server];
  ReplicaChanged change;
  change.member = MemberOf(server, *turn);
  v1::Backup* const backup = change.member.mutable_backup();
  backup->Clear();
  backup->set_peer(place.peer);
  backup->set_incarnation(place.incarnation);
  v1::ConfigurationVersion since = turn->job.configuration.version();
  since.set_counter(since.counter() + 1);
  *backup->mutable_since() = since;
  turn->out->Note(absl::StrCat("ps-", server, " tells a backup what it holds"));
  turn->Raise(std::move(change));
}

void Replicas::LogMember(uint32_t server, Turn* turn) {
  ReplicaChanged change;
  change.member = MemberOf(server, *turn);
  change.member.mutable_backup()->set_member(true);
  change.note = absl::StrCat("ps-", server, " has a backup");
  Log(server, Logging::kMember, std::move(change), turn);
}

void Replicas::Drop(uint32_t server, const std::string& why, Turn* turn) {
  ReplicaChanged change;
  change.member = MemberOf(server, *turn);
  change.note = absl::StrCat("ps-", server, " goes on without its backup: ",
                             why.empty() ? "it is lost" : why);
  const bool was_member = change.member.backup().member();
  change.member.clear_backup();
  places_[server].why = why;
  // Of one that may not take over nothing is in the log.
  if (was_member) return Log(server, Logging::kDrop, std::move(change), turn);
  turn->Raise(std::move(change));
}

void Replicas::LogTakeOver(uint32_t server, Last last, Turn* turn) {
  ReplicaChanged change;
  change.member = MemberOf(server, *turn);
  const v1::Backup backup = change.member.backup();
  change.takes_over = true;
  change.member.set_peer(backup.peer());
  change.member.set_incarnation(backup.incarnation());
  *change.member.mutable_generation() =
      turn->live->NewGeneration<v1::ServerLife>();
  *change.member.mutable_took_over() = backup.since();
  change.member.set_last_has_ended(last != Last::kSilent);
  change.member.clear_backup();
  const char* const what = last == Last::kEnded     ? "is gone"
                           : last == Last::kStopped ? "leaves"
                           : last == Last::kMoved   ? "moves"
                                                    : "is silent";
  change.note = absl::StrCat("ps-", server, " ", what,
                             "; its backup takes over as generation ",
                             VersionName(change.member.generation()),
                             " with all that was "
                             "acknowledged");
  Log(server, Logging::kTakeOver, std::move(change), turn);
}

void Replicas::Log(uint32_t server, Logging what, ReplicaChanged change,
                   Turn* turn) {
  places_[server].logging = what;
  v1::LogEntry entry;
  *entry.mutable_replicas() = change.member;
  IoHandler handler = [this, server, era = era_, change = std::move(change)](
                          const IoResult& result, Turn* later) {
    if (!result.status.ok()) {
      later->out->Exit(result.status);
      return;
    }
    if (era == era_) OnLogged(server, change, later);
  };
  // A server that lost its backup, or is lost itself, holds up all workers.
  what == Logging::kMember
      ? turn->AppendPatiently(std::move(entry), std::move(handler))
      : turn->Append(std::move(entry), std::move(handler));
}

void Replicas::OnLogged(uint32_t server, const ReplicaChanged& change,
                        Turn* turn) {
  Place& place = places_[server];
  const Logging what = place.logging;
  const ServerRecord& record = turn->job.servers[server];
  const bool takes_over =
      what != Logging::kTakeOver &&
      (place.gone || IsGone(record, turn->job, turn->now)) &&
      HasEverything(server, turn->job);
  place.logging = Logging::kNothing;
  if (!takes_over) return turn->Raise(change);
  LogTakeOver(server, place.gone || record.ended ? Last::kEnded : Last::kSilent,
              turn);
}

void Replicas::OnRestoreAll() {
  ++era_;
  for (Place& place : places_) {
    place.logging = Logging::kNothing;
    place.gone = false;
  }
}

void Replicas::GoOnAt(uint32_t server, uint32_t peer) {
  const uint32_t last = places_[server].other;
  Place& place = places_[server];
  place = Place();
  place.other = peer;
  place.peer = last;
  place.peer = Wanted(server);
}

void Replicas::Aim(uint32_t server, const ServerPlaces& places, bool settles) {
  targets_[server].places = places;
  targets_[server].settles = settles;
}

bool Replicas::IsSettled(uint32_t server, const ServerPlaces& places,
                         const JobView& job) {
  const ServerRecord& record = job.servers[server];
  return record.restored && record.peer == places.home &&
         record.backup.has_value() && record.backup->member() &&
         record.backup->peer() == places.away;
}

// ---- calls ------------------------------------------------------------------

void Replicas::Advance(bool everybody_knows, Turn* turn) {
  const JobPhase phase = turn->job.phase;
  if (!active() || phase < JobPhase::kFilling || phase == JobPhase::kDone) {
    return;
  }
  everybody_knows_ = everybody_knows;
  for (uint32_t s = 0; s < places_.size(); ++s) AdvanceOne(s, turn);
}

void Replicas::AdvanceOne(uint32_t server, Turn* turn) {
  const JobPhase phase = turn->job.phase;
  if (phase >= JobPhase::kAdopting && phase < JobPhase::kTellingEnd) {
    Decide(server, turn);
    LetGo(server, turn->job);
  }
  if (places_[server].call != Call::kNone) return;
  const Due due = NextCall(server, turn->job);
  if (due.call != Call::kNone && due.at <= turn->now) {
    CallOne(server, due.call, turn);
  }
}

Time Replicas::due(uint32_t server, const JobView& job) const {
  return places_[server].call == Call::kNone ? NextCall(server, job).at
                                             : Time::Never();
}

Replicas::Due Replicas::NextCall(uint32_t server, const JobView& job) const {
  const Place& place = places_[server];
  if (job.phase == JobPhase::kTellingEnd) {
    if (place.end_told >= (everybody_knows_ ? 2 : 1)) return {};
    return {Call::kFinish, place.next_call};
  }
  if (place.suspected) return {Call::kRecall, place.next_call};
  const auto& backup = job.servers[server].backup;
  const bool is_backup =
      backup.has_value() && backup->incarnation() == place.incarnation;
  if (is_backup && place.acknowledged < job.configuration.version()) {
    return {Call::kConfigure, place.next_call};
  }
  return {is_backup ? Call::kConfigure : Call::kRecall,
          std::max(place.next_call, place.next_keepalive)};
}

void Replicas::CallOne(uint32_t server, Call call, Turn* turn) {
  Place& place = places_[server];
  const JobView& job = turn->job;
  const v1::ConfigurationVersion& version = job.configuration.version();
  v1::Header header;
  header.set_term(version.term());
  *header.mutable_configuration() = version;
  header.mutable_snapshot()->set_term(version.term());
  header.mutable_snapshot()->set_counter(snapshots_.numbers().counter);
  place.call = call;
  place.told_changes = false;
  place.end_asked = everybody_knows_ ? 2 : 1;
  Outbox::Head head;
  absl::Duration deadline = kPlaceDeadline;
  if (call == Call::kRecall) {
    auto recall = std::make_unique<v1::RecallRequest>();
    *recall->mutable_header() = header;
    recall->set_run_id(job.configuration.run_id());
    recall->set_job_digest(job.options.job_digest);
    head = std::move(recall);
  } else if (call == Call::kFinish) {
    auto finish = std::make_unique<v1::FinishRequest>();
    *finish->mutable_header() = header;
    finish->set_everybody_knows(everybody_knows_);
    head = std::move(finish);
    deadline = kPlaceFinishDeadline;
  } else {
    auto configure = std::make_unique<v1::ConfigureRequest>();
    *configure->mutable_header() = header;
    *configure->mutable_committed() = snapshots_.numbers().committed;
    place.told_changes = turn->live->CanTellSince(place.told_since);
    *configure->mutable_configuration() =
        turn->live->ForServer(server, place.told_since);
    if (turn->TellsInput(server, place.told_since)) {
      *configure->mutable_input_left() = job.progress.InputLeft({});
    }
    head = std::move(configure);
  }
  place.call_id =
      turn->Send(PeerId::Ps(place.peer), std::move(head), {}, deadline);
}

Time Replicas::next_tick(const JobView& job) const {
  Time next = Time::Never();
  if (job.phase < JobPhase::kFilling || job.phase == JobPhase::kDone) {
    return next;
  }
  for (uint32_t s = 0; s < places_.size(); ++s) {
    next = std::min(next, due(s, job));
  }
  return next;
}

std::vector<std::pair<uint32_t, uint64_t>> Replicas::others() const {
  std::vector<std::pair<uint32_t, uint64_t>> others;
  for (const Place& place : places_) {
    if (place.incarnation == 0) continue;
    others.emplace_back(place.peer, place.incarnation);
  }
  return others;
}

bool Replicas::all_know() const {
  return std::all_of(places_.begin(), places_.end(), [](const Place& place) {
    return place.end_told == 2 || place.incarnation == 0;
  });
}

std::string Replicas::Missing(const JobView& job) const {
  for (uint32_t s = 0; s < places_.size(); ++s) {
    const auto& backup = job.servers[s].backup;
    if (backup.has_value() && backup->member()) continue;
    const std::string& why = places_[s].why;
    return absl::StrCat(
        "ps-", s,
        why.empty() || backup.has_value() ? "" : absl::StrCat(": ", why));
  }
  return "";
}

}  // namespace paramd
