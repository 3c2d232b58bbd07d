#include "coordinator/core/servers.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "coordinator/core/live_configuration.h"
#include "coordinator/core/server_failure.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;
using Call = ServerRecord::Call;

constexpr absl::Duration kCallDeadline = absl::Seconds(5);
constexpr absl::Duration kWrittenDeadline = absl::Seconds(10);
// Short, so that a lost one is repeated several times before the end.
constexpr absl::Duration kFinishDeadline = absl::Seconds(1);
constexpr absl::Duration kCallRetry = absl::Milliseconds(200);
constexpr absl::Duration kFillingPoll = absl::Milliseconds(20);
// A server that leaves waits no longer for its backup to have everything. Its
// own drain_timeout may be shorter than the chief's, and a checkpoint takes
// time.
constexpr absl::Duration kMostForBackup = absl::Seconds(5);

// Of servers that can't be reached, in a sentence.
constexpr size_t kMostNamed = 16;

absl::Duration DeadlineOf(Call call) {
  switch (call) {
    case Call::kWritten:
    case Call::kFetch:
      return kWrittenDeadline;
    case Call::kFinish:
      return kFinishDeadline;
    default:
      return kCallDeadline;
  }
}

// "ps-0 generation 1.2 at host:1: refused", "ps-0 to be there: did not answer".
std::string Missing(uint32_t server, const v1::ServerLife& generation,
                    absl::string_view why) {
  const std::string name = ServerName(server, generation);
  const bool is_named =
      absl::ConsumePrefix(&why, ServerName(server, v1::ServerLife()) + " ");
  if (is_named && absl::StartsWith(why, "at ")) {
    return absl::StrCat(name, " ", why);
  }
  return absl::StrCat(name, " to be there", why.empty() ? "" : ": ", why);
}

// What it held in earlier lives, and who held that beside it, counts no more.
void ForgetEarlierLives(ServerRecord* server) {
  server->filled.Clear();
  server->backup.reset();
  server->took_over.Clear();
  server->taken_over = false;
}

// It begins another life, from this checkpoint or, if empty, initial values.
void BeginFrom(const std::string& checkpoint, ServerRecord* server,
               Turn* turn) {
  server->generation = turn->live->NewGeneration<v1::ServerLife>();
  server->restore_directory = checkpoint;
  ForgetEarlierLives(server);
}

template <typename Request>
std::unique_ptr<Request> WithHeader(const v1::Header& header) {
  auto request = std::make_unique<Request>();
  *request->mutable_header() = header;
  return request;
}

}  // namespace

Servers::Servers(const CoordinatorOptions& options,
                 const SnapshotCalls& snapshots)
    : snapshots_(snapshots),
      servers_(options.servers),
      fills_(options.fill_bytes) {
  for (size_t s = 0; s < options.places.size(); ++s) {
    servers_[s].peer = options.places[s].home;
  }
}

absl::optional<uint32_t> Servers::ServerAt(uint32_t peer) const {
  if (servers_.empty() || !servers_[0].peer.has_value()) {
    return peer < servers_.size() ? absl::make_optional(peer) : absl::nullopt;
  }
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    if (servers_[s].peer.value_or(s) == peer) return s;
  }
  return absl::nullopt;
}

// ---- what they are to hold --------------------------------------------------

void Servers::TakeOver(const std::vector<ServerRecord>& known, Turn* turn) {
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    servers_[s].generation = known[s].generation;
    servers_[s].restore_directory = known[s].restore_directory;
    servers_[s].filled = known[s].filled;
    servers_[s].restored = false;
  }
  CallAll(turn->now);
  // The first ones of a term are of servers that begin together.
  turn->live->SkipGenerations(servers_.size());
  turn->live->SetServers(servers_);
}

void Servers::RestoreAll(const std::string& checkpoint, Turn* turn) {
  for (ServerRecord& server : servers_) {
    BeginFrom(checkpoint, &server, turn);
    server.restored = false;
  }
  // Slices of another checkpoint are of no use.
  for (uint32_t s = 0; s < servers_.size(); ++s) fills_.End(s);
  CallAll(turn->now);
  turn->live->SetServers(servers_);
}

void Servers::Restore(uint32_t index, const std::string& checkpoint,
                      Turn* turn) {
  BeginFrom(checkpoint, &servers_[index], turn);
  turn->live->SetServer(index, servers_[index]);
  turn->live->NextVersion();
}

bool Servers::Change(const ReplicaChanged& change, Turn* turn) {
  const v1::ServerMember& member = change.member;
  ServerRecord& server = servers_[member.index()];
  // The server may have begun anew while the log was told.
  if (change.takes_over ? !server.backup.has_value() ||
                              server.backup->since() != member.took_over()
                        : server.generation != member.generation()) {
    return false;
  }
  server.backup.reset();
  if (member.has_backup()) server.backup = member.backup();
  if (change.takes_over) {
    server.peer = member.peer();
    server.incarnation = member.incarnation();
    if (IsZero(server.filled)) server.filled = server.generation;
    server.generation = member.generation();
    server.took_over = member.took_over();
    server.last_has_ended = member.last_has_ended();
    server.heard = server.next_call = server.next_keepalive = turn->now;
    server.suspected = server.restored = server.taken_over = false;
    server.ended = server.draining = server.drained = false;
    server.drains_since = Time::Never();
    server.acknowledged.Clear();
    server.told_since.Clear();
    server.drained_by.Clear();
    server.call = Call::kNone;  // Of its last place.
    fills_.End(member.index());
  } else if (std::exchange(server.taken_over, false)) {
    // Nobody is left who could.
    turn->Raise(ServerReborn{member.index(), false});
  }
  CallAll(turn->now);
  turn->live->SetServer(member.index(), server);
  turn->live->NextVersion();
  return true;
}

void Servers::BeginAnew(uint32_t index, Turn* turn) {
  ServerRecord& server = servers_[index];
  // What it drained by is committed, though its last answer may have been lost.
  const bool was_saved = !IsZero(server.drained_by) &&
                         !(snapshots_.numbers().committed < server.drained_by);
  server.drained = server.drained || was_saved;
  server.restored = false;
  server.draining = false;
  server.drains_since = Time::Never();
  server.drained_by.Clear();
  turn->Raise(ServerReborn{index, std::exchange(server.drained, false)});
}

void Servers::PassOver(const std::string& checkpoint) {
  passed_over_.insert(checkpoint);
}

// ---- calls ------------------------------------------------------------------

void Servers::Advance(Turn* turn) {
  for (uint32_t s = 0; s < servers_.size(); ++s) ReadSlices(s, turn);
  for (uint32_t s = 0; s < servers_.size(); ++s) CallIfDue(s, turn);
}

void Servers::AdvanceOne(uint32_t index, Turn* turn) {
  ReadSlices(index, turn);
  CallIfDue(index, turn);
}

void Servers::CallIfDue(uint32_t index, Turn* turn) {
  if (servers_[index].call != Call::kNone) return;
  const Due due = NextCall(index, turn->job);
  if (due.call != Call::kNone && due.at <= turn->now) {
    CallOne(index, due.call, turn);
  }
}

Time Servers::due(uint32_t index, const JobView& job) const {
  return servers_[index].call == Call::kNone ? NextCall(index, job).at
                                             : Time::Never();
}

Servers::Due Servers::NextCall(uint32_t index, const JobView& job) const {
  const ServerRecord& server = servers_[index];
  if (job.phase < JobPhase::kRecalling || job.phase == JobPhase::kDone) {
    return {};
  }
  if (job.phase == JobPhase::kTellingEnd) {
    if (server.end_told >= (everybody_knows_ ? 2 : 1)) return {};
    return {Call::kFinish, server.next_call};
  }
  if (server.taken_over) return {};
  if (server.suspected) return {Call::kRecall, server.next_call};
  if (job.phase < JobPhase::kFilling) return {};
  if (server.acknowledged < job.configuration.version()) {
    return {Call::kConfigure, server.next_call};
  }
  if (!server.restored) {
    if (fills_.NeedsFill(index)) return {Call::kFill, server.next_call};
    return {Call::kConfigure, server.next_call};
  }
  const Call call = snapshots_.CallFor(index);
  // What is due before it may be asked again comes first.
  const bool is_to_hear = server.next_keepalive <= server.next_call;
  if (call != Call::kNone && !is_to_hear) return {call, server.next_call};
  return {Call::kConfigure, std::max(server.next_call, server.next_keepalive)};
}

void Servers::CallOne(uint32_t index, Call call, Turn* turn) {
  ServerRecord& server = servers_[index];
  const SnapshotCalls::Numbers numbers = snapshots_.numbers();
  server.call = call;
  server.told_changes =
      call == Call::kConfigure && turn->live->CanTellSince(server.told_since);
  server.end_asked = everybody_knows_ ? 2 : 1;
  server.told_committed = numbers.committed;
  server.asked = numbers.under_way;
  BufferChain payload;
  Outbox::Head head = MakeCall(index, call, *turn, &payload);
  server.call_id =
      turn->Send(PeerId::Ps(server.peer.value_or(index)), std::move(head),
                 std::move(payload), DeadlineOf(call));
}

Outbox::Head Servers::MakeCall(uint32_t index, Call call, const Turn& turn,
                               BufferChain* payload) const {
  const JobView& job = turn.job;
  const v1::ConfigurationVersion& version = job.configuration.version();
  v1::Header header;
  // Who is there is what a recall asks for, and a configuration says by itself.
  if (call != Call::kRecall && call != Call::kConfigure) {
    header.set_server_incarnation(servers_[index].incarnation);
  }
  header.set_term(version.term());
  *header.mutable_configuration() = version;
  *header.mutable_server_generation() = servers_[index].generation;
  header.mutable_snapshot()->set_term(version.term());
  header.mutable_snapshot()->set_counter(snapshots_.numbers().counter);
  if (IsOfSnapshot(call)) return snapshots_.MakeCall(index, call, header);
  if (call == Call::kRecall) {
    auto recall = WithHeader<v1::RecallRequest>(header);
    recall->set_run_id(job.configuration.run_id());
    recall->set_job_digest(job.options.job_digest);
    return recall;
  }
  if (call == Call::kFill) {
    auto fill =
        std::make_unique<v1::FillRequest>(fills_.FillFor(index, payload));
    *fill->mutable_header() = std::move(header);
    return fill;
  }
  if (call == Call::kFinish) {
    auto finish = WithHeader<v1::FinishRequest>(header);
    finish->set_everybody_knows(everybody_knows_);
    return finish;
  }
  return MakeConfigure(index, header, turn);
}

Outbox::Head Servers::MakeConfigure(uint32_t index, const v1::Header& header,
                                    const Turn& turn) const {
  const ServerRecord& server = servers_[index];
  auto configure = WithHeader<v1::ConfigureRequest>(header);
  *configure->mutable_committed() = server.told_committed;
  *configure->mutable_configuration() =
      turn.live->ForServer(index, server.told_since);
  if (turn.TellsInput(index, server.told_since)) {
    *configure->mutable_input_left() = turn.job.progress.InputLeft({});
  }
  return configure;
}

void Servers::OnSealedToLeave(uint32_t index,
                              const v1::SnapshotNumber& snapshot) {
  if (servers_[index].draining) servers_[index].drained_by = snapshot;
}

void Servers::CallAll(Time now) {
  for (ServerRecord& server : servers_) server.next_call = now;
}

void Servers::KeepAliveAll(Time now) {
  for (ServerRecord& server : servers_) server.next_keepalive = now;
}

void Servers::KeepAliveDraining(Time now) {
  for (ServerRecord& server : servers_) {
    if (server.draining) server.next_keepalive = now;
  }
}

Time Servers::next_tick(const JobView& job) const {
  Time next = Time::Never();
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    next = std::min(next, due(s, job));
  }
  return next;
}

// ---- answers ----------------------------------------------------------------

void Servers::OnReply(uint32_t index, const Message& message, Turn* turn) {
  ServerRecord& server = servers_[index];
  if (server.call == Call::kNone || server.call_id != message.call) return;
  const Call call = std::exchange(server.call, Call::kNone);
  if (server.told_changes && absl::IsInvalidArgument(message.status)) {
    server.told_since.Clear();
    server.heard = server.next_call = turn->now;
    return;
  }
  if (!message.status.ok()) {
    OnFailed(index, call, message.status, turn);
    return;
  }
  server.why.clear();
  server.heard = turn->now;
  if (const auto* recalled =
          DynamicCastToGenerated<v1::RecallReply>(message.head)) {
    OnRecalled(index, *recalled, turn);
  } else if (const auto* configured =
                 DynamicCastToGenerated<v1::ConfigureReply>(message.head)) {
    OnConfigured(index, *configured, turn);
  } else if (const auto* filled =
                 DynamicCastToGenerated<v1::FillReply>(message.head)) {
    fills_.Filled(index, *filled);
  } else if (IsOfSnapshot(call)) {
    turn->Raise(SnapshotAnswered{index, &message});
  } else if (call == Call::kFinish) {
    server.end_told = server.end_asked;
  }
}

void Servers::OnRecalled(uint32_t index, const v1::RecallReply& reply,
                         Turn* turn) {
  ServerRecord& server = servers_[index];
  server.suspected = server.ended = false;
  server.build = reply.build();
  turn->Raise(ServerRecalled{index, &reply});
  if (server.incarnation == reply.incarnation()) return;
  const bool is_new_life = server.incarnation != 0;
  server.incarnation = reply.incarnation();
  server.told_since.Clear();
  // The layout that is being logged names its earlier life.
  if (is_new_life && turn->job.phase >= JobPhase::kLoggingLayout) {
    BeginAnew(index, turn);
  }
}

void Servers::OnConfigured(uint32_t index, const v1::ConfigureReply& reply,
                           Turn* turn) {
  ServerRecord& server = servers_[index];
  if (reply.incarnation() != server.incarnation) {
    server.suspected = true;
    return;
  }
  server.acknowledged = reply.configuration();
  server.told_since.Clear();
  if (reply.takes_changes()) server.told_since = reply.configuration();
  server.restored = reply.restored();
  server.drains_since = reply.draining()
                            ? std::min(server.drains_since, turn->now)
                            : Time::Never();
  server.draining = reply.draining() && !MayHandOver(server, *turn);
  server.drained_by = reply.drained_by();
  server.next_keepalive = turn->now + turn->job.heartbeat();
  fills_.Told(turn->job.configuration, index, reply);
  if (!IsZero(server.drained_by) &&
      !(server.told_committed < server.drained_by)) {
    server.drained = server.suspected = true;
  }
  if (!server.restored) server.next_call = turn->now + kFillingPoll;
  turn->Raise(ServerConfigured{index, &reply});
}

// In the other half of the time it is saved, if that has come to nothing.
bool Servers::MayHandOver(const ServerRecord& server, const Turn& turn) const {
  const absl::Duration own =
      absl::Milliseconds(turn.job.options.job.drain_timeout_ms()) / 2;
  const absl::Duration most = std::min(own, kMostForBackup);
  return server.backup.has_value() && !chief_leaves_ &&
         turn.now < server.drains_since + most;
}

void Servers::OnHeard(uint32_t index, const absl::Status& status, Turn* turn) {
  if (!status.ok()) return OnFailed(index, Call::kNone, status, turn);
  servers_[index].heard = turn->now;
}

void Servers::OnFailed(uint32_t index, Call call, const absl::Status& status,
                       Turn* turn) {
  ServerRecord& server = servers_[index];
  const v1::Refusal refusal = RefusalOf(status);
  if (refusal.reason() != v1::Refusal::REASON_UNSPECIFIED) {
    server.heard = turn->now;
  }
  server.why = std::string(status.message());
  server.next_call = turn->now + kCallRetry;
  const std::string why = absl::StrCat("ps-", index, ": ", server.why);
  switch (FailureOf(call, status, refusal)) {
    case ServerFailure::kNotYet:
      server.next_call =
          turn->now +
          std::max(kFillingPoll, absl::Milliseconds(refusal.retry_after_ms()));
      // It may not know the snapshot's number, or be another process by now:
      // a configuration tells it, and us.
      if (IsOfSnapshot(call) && refusal.reason() == v1::Refusal::NOT_READY) {
        server.next_keepalive = turn->now;
      }
      return;
    case ServerFailure::kReplaced:
    case ServerFailure::kAway:
      // Where somebody can take over, what is known at once is asked at once.
      if (server.backup.has_value() && !server.suspected) {
        server.next_call = turn->now;
      }
      server.suspected = true;
      server.ended = server.ended || HasEnded(status);
      return;
    case ServerFailure::kTermLost:
      return turn->out->Exit(TermLost(server.why));
    case ServerFailure::kOtherJob:
      return turn->out->Exit(RefusesJob(index, server.why));
    case ServerFailure::kJobFinished:
      if (turn->job.phase == JobPhase::kTellingEnd) {
        server.end_told = std::max(server.end_told, 1);
      }
      return;
    case ServerFailure::kNoEnd:
      // One that has heard of the end leaves by itself; another one is asked
      // again, it may be there yet or come.
      if (server.end_told >= 1) server.end_told = 2;
      return;
    case ServerFailure::kOfSnapshot:
      turn->Raise(
          SnapshotCallFailed{server.asked, absl::UnavailableError(why)});
      return;
    case ServerFailure::kOfCheckpoint:
      if (passed_over_.contains(refusal.entity())) return;  // It takes another.
      if (refusal.entity() == server.restore_directory) {
        const bool is_damaged = refusal.reason() == v1::Refusal::DAMAGED;
        turn->Raise(NotRestored{index, is_damaged,
                                is_damaged && refusal.retry_after_ms() > 0,
                                why});
        return;
      }
      [[fallthrough]];
    case ServerFailure::kFatal:
      turn->out->Exit(EndOfJobFor(call, refusal, why));
  }
}

// ---- slices for those that do not see the checkpoint ------------------------

void Servers::ReadSlices(uint32_t index, Turn* turn) {
  if (turn->job.phase < JobPhase::kFilling || !fills_.NeedsRead(index)) return;
  turn->StartIo(fills_.Read(index),
                [this, index, generation = servers_[index].generation](
                    const IoResult& result, Turn* later) {
                  OnSlicesRead(index, generation, result, later);
                });
}

void Servers::OnSlicesRead(uint32_t index, const v1::ServerLife& generation,
                           const IoResult& result, Turn* turn) {
  ServerRecord& server = servers_[index];
  const std::string& path = server.restore_directory;
  if (generation != server.generation || passed_over_.contains(path)) return;
  absl::Status status = result.status;
  if (status.ok()) {
    status = fills_.Done(index, generation, result.head.get(), result.payload);
  }
  if (status.ok()) return;
  fills_.End(index);
  const bool may_pass = absl::IsUnavailable(status);
  const bool is_damaged = absl::IsDataLoss(status) && !path.empty();
  server.why = absl::StrCat(
      "'", path.empty() ? turn->job.configuration.warm_start().path() : path,
      "' can't be read for it: ", status.message());
  turn->Raise(NotRestored{index, may_pass || is_damaged, may_pass,
                          absl::StrCat("ps-", index, ": ", server.why)});
}

// ---- for people -------------------------------------------------------------

std::string Servers::waiting_for(const JobView& job) const {
  if (job.phase >= JobPhase::kTellingEnd) return "";
  std::vector<std::string> missing;
  std::string unfilled;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    const ServerRecord& server = servers_[s];
    if (server.suspected) {
      missing.push_back(Missing(s, server.generation, server.why));
    } else if (unfilled.empty() && job.phase >= JobPhase::kFilling &&
               !server.restored) {
      unfilled = absl::StrCat(job.NameOfServer(s), " to be filled",
                              server.why.empty() ? "" : ": ", server.why);
    }
  }
  if (missing.empty()) return unfilled;
  const size_t named = std::min(missing.size(), kMostNamed);
  return absl::StrCat(
      absl::StrJoin(missing.begin(), missing.begin() + named, ", "),
      named == missing.size()
          ? ""
          : absl::StrCat(" and ", missing.size() - named, " more"));
}

void Servers::FillStatus(Time now, v1::JobStats* status) const {
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    const ServerRecord& server = servers_[s];
    v1::Member* const member = AddMember(v1::PS, s, status);
    if (server.peer.has_value()) member->set_peer(*server.peer);
    if (server.backup.has_value()) {
      member->set_backup_peer(server.backup->peer());
      member->set_backup_is_member(server.backup->member());
    }
    if (server.incarnation == 0) continue;
    member->set_state(server.suspected  ? v1::Member::LOST
                      : server.restored ? v1::Member::ALIVE
                                        : v1::Member::STARTING);
    *member->mutable_generation() = Unnamed(server.generation);
    member->set_incarnation(server.incarnation);
    member->set_silent_ms(
        static_cast<uint64_t>(absl::ToInt64Milliseconds(now - server.heard)));
  }
}

}  // namespace paramd
