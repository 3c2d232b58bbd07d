// The coordinator's dealings with servers: who is there, what each is told
// next.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "coordinator/core/coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kServerCallDeadline = absl::Seconds(5);
constexpr absl::Duration kWrittenDeadline = absl::Seconds(10);
// Short, so that a lost one is repeated several times before the end.
constexpr absl::Duration kFinishDeadline = absl::Seconds(1);
constexpr absl::Duration kServerRetry = absl::Milliseconds(200);
constexpr absl::Duration kFillingPoll = absl::Milliseconds(20);

std::string OtherJob(uint32_t server, const std::string& why) {
  if (absl::StartsWith(why, absl::StrCat("ps-", server, " at "))) return why;
  return absl::StrCat("ps-", server, " refuses this job: ", why);
}

bool IsOfSnapshot(ServerSeen::Call call) {
  return call == ServerSeen::Call::kSeal ||
         call == ServerSeen::Call::kWritten || call == ServerSeen::Call::kFetch;
}

bool Restores(ServerSeen::Call call) {
  return call == ServerSeen::Call::kConfigure ||
         call == ServerSeen::Call::kFill;
}

// How the job ends for what a server can't do. A warm start stands for no other
// one: where it may be read later, the job may begin again.
absl::Status EndFor(ServerSeen::Call call, const v1::Refusal& refusal,
                    const std::string& why) {
  const bool may_pass = Restores(call) &&
                        refusal.reason() == v1::Refusal::DAMAGED &&
                        refusal.retry_after_ms() > 0;
  return may_pass ? absl::AbortedError(why)
                  : absl::FailedPreconditionError(why);
}

}  // namespace

Coordinator::Due Coordinator::NextCall(uint32_t index) const {
  const Server& server = servers_[index];
  if (phase_ < Phase::kRecalling || phase_ == Phase::kDone) return {};
  if (phase_ == Phase::kTellingEnd) {
    if (server.end_told >= (everybody_knows_ ? 2 : 1)) return {};
    return {ServerCall::kFinish, server.next_call};
  }
  if (server.suspected) return {ServerCall::kRecall, server.next_call};
  if (phase_ < Phase::kFilling) return {};
  if (server.acknowledged < configuration_.version()) {
    return {ServerCall::kConfigure, server.next_call};
  }
  if (!server.restored) {
    if (fills_.NeedsFill(index)) return {ServerCall::kFill, server.next_call};
    return {ServerCall::kConfigure, server.next_call};
  }
  if (snapshot_.has_value() && snapshot_->NeedsSeal(index)) {
    return {ServerCall::kSeal, server.next_call};
  }
  if (snapshot_.has_value() && snapshot_->NeedsWritten(index)) {
    if (relay_.NeedsFetch(index)) return {ServerCall::kFetch, server.next_call};
    if (!relay_.IsWriting(index)) {
      return {ServerCall::kWritten, server.next_call};
    }
  }
  return {ServerCall::kConfigure,
          std::max(server.next_call, server.next_keepalive)};
}

void Coordinator::DriveServers(Time now, Outbox* out) {
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    if (servers_[s].call != ServerCall::kNone) continue;
    const Due due = NextCall(s);
    if (due.call != ServerCall::kNone && due.at <= now) {
      CallServer(s, due.call, now, out);
    }
  }
}

void Coordinator::CallServer(uint32_t index, ServerCall call, Time /*now*/,
                             Outbox* out) {
  Server& server = servers_[index];
  server.call = call;
  server.call_id = next_call_++;
  server.end_asked = everybody_knows_ ? 2 : 1;
  server.told_committed = checkpoint_number_;
  server.asked = snapshot_.has_value() ? snapshot_->number() : v1::Version();
  absl::Duration deadline = kServerCallDeadline;
  if (call == ServerCall::kWritten || call == ServerCall::kFetch) {
    deadline = kWrittenDeadline;
  }
  if (call == ServerCall::kFinish) deadline = kFinishDeadline;
  BufferChain payload;
  Outbox::Head head = MakeCall(index, call, &payload);
  out->Send(PeerId::Ps(index), server.call_id, std::move(head),
            std::move(payload), deadline);
}

Outbox::Head Coordinator::MakeCall(uint32_t index, ServerCall call,
                                   BufferChain* payload) const {
  // Who is there is what a recall asks for, and a configuration says by itself.
  const bool is_meant =
      call != ServerCall::kRecall && call != ServerCall::kConfigure;
  const auto fill = [&](v1::Header* header) {
    if (is_meant) header->set_server_incarnation(servers_[index].incarnation);
    header->set_term(configuration_.version().term());
    *header->mutable_configuration() = configuration_.version();
    *header->mutable_server_generation() = servers_[index].generation;
    header->mutable_snapshot()->set_term(header->term());
    header->mutable_snapshot()->set_counter(snapshot_counter_);
  };
  if (call == ServerCall::kRecall) {
    auto recall = std::make_unique<v1::RecallRequest>();
    fill(recall->mutable_header());
    recall->set_run_id(run_id_);
    recall->set_job_digest(options_.job_digest);
    return recall;
  }
  if (call == ServerCall::kSeal) {
    auto seal = std::make_unique<v1::SealRequest>(snapshot_->SealFor(index));
    fill(seal->mutable_header());
    return seal;
  }
  if (call == ServerCall::kWritten) {
    auto written = std::make_unique<v1::WrittenRequest>();
    fill(written->mutable_header());
    return written;
  }
  if (call == ServerCall::kFetch) {
    auto fetch =
        std::make_unique<v1::FetchShardRequest>(relay_.FetchFor(index));
    fill(fetch->mutable_header());
    return fetch;
  }
  if (call == ServerCall::kFill) {
    auto filling =
        std::make_unique<v1::FillRequest>(fills_.FillFor(index, payload));
    fill(filling->mutable_header());
    return filling;
  }
  if (call == ServerCall::kFinish) {
    auto finish = std::make_unique<v1::FinishRequest>();
    fill(finish->mutable_header());
    finish->set_everybody_knows(everybody_knows_);
    return finish;
  }
  auto configure = std::make_unique<v1::ConfigureRequest>();
  fill(configure->mutable_header());
  *configure->mutable_committed() = checkpoint_number_;
  *configure->mutable_configuration() = configuration_;
  if (!IsSync()) *configure->mutable_input_left() = portions_.Save({});
  return configure;
}

void Coordinator::OnServerReply(uint32_t index, const Message& message,
                                Time now, Outbox* out) {
  Server& server = servers_[index];
  if (server.call == ServerCall::kNone || server.call_id != message.call) {
    return;
  }
  const ServerCall call = std::exchange(server.call, ServerCall::kNone);
  if (!message.status.ok()) {
    OnServerFailed(index, call, message.status, now, out);
    return;
  }
  server.why.clear();
  server.heard = now;
  if (const auto* recalled =
          DynamicCastToGenerated<v1::RecallReply>(message.head)) {
    OnRecalled(index, *recalled, now, out);
  } else if (const auto* configured =
                 DynamicCastToGenerated<v1::ConfigureReply>(message.head)) {
    if (configured->incarnation() != server.incarnation) {
      server.suspected = true;
      return;
    }
    server.acknowledged = configured->configuration();
    server.restored = configured->restored();
    summaries_.Told(index, *configured);
    server.draining = configured->draining();
    server.drained_by = configured->drained_by();
    // Behind the last checkpoint nothing can be lost.
    if (server.restored && phase_ < Phase::kWritingResult) {
      loss_.Told(index, server.generation, configured->lost());
    }
    server.next_keepalive = now + heartbeat();
    fills_.Told(configuration_, index, *configured);
    if (!IsZero(server.drained_by) &&
        !(server.told_committed < server.drained_by)) {
      server.drained = server.suspected = true;
    }
    if (!server.restored) server.next_call = now + kFillingPoll;
  } else if (const auto* sealed =
                 DynamicCastToGenerated<v1::SealReply>(message.head)) {
    if (snapshot_.has_value() && sealed->snapshot() == snapshot_->number()) {
      snapshot_->Sealed(index);
      if (server.draining && snapshot_->stopped()) {
        server.drained_by = sealed->snapshot();
      }
    }
  } else if (const auto* written =
                 DynamicCastToGenerated<v1::WrittenReply>(message.head)) {
    OnWritten(index, *written, now, out);
  } else if (const auto* fetched =
                 DynamicCastToGenerated<v1::FetchShardReply>(message.head)) {
    OnFetched(index, *fetched, message.payload, now, out);
  } else if (const auto* filled =
                 DynamicCastToGenerated<v1::FillReply>(message.head)) {
    fills_.Filled(index, *filled);
  } else if (call == ServerCall::kFinish) {
    server.end_told = server.end_asked;
  }
}

void Coordinator::OnRecalled(uint32_t index, const v1::RecallReply& reply,
                             Time now, Outbox* out) {
  Server& server = servers_[index];
  server.suspected = false;
  if (phase_ == Phase::kRecalling) take_over_.Recalled(index, reply);
  if (server.incarnation == reply.incarnation()) return;
  const bool is_new_life = server.incarnation != 0;
  server.incarnation = reply.incarnation();
  // The layout that is being logged names its earlier life.
  if (is_new_life && phase_ >= Phase::kLoggingLayout) {
    OnNewServer(index, now, out);
  }
}

void Coordinator::OnNewServer(uint32_t index, Time now, Outbox* out) {
  Server& server = servers_[index];
  server.restored = false;
  const bool drained = std::exchange(server.drained, false);
  server.draining = false;
  server.drained_by.Clear();
  out->Note(absl::StrCat(
      "ps-", index,
      drained ? " is back after it was stopped"
              : " came back without its shard",
      "; it takes ",
      checkpoint_.path().empty() ? "initial values" : checkpoint_.path(),
      drained ? ", which is all it had" : ", what came after is lost"));
  GiveUpSnapshot(absl::StrCat("ps-", index, " was lost"), now, out);
  // Of steps of sync mode that no checkpoint has nobody could say what is lost.
  const bool of_steps = IsSync() || next_save_of_steps_ != Time::Never();
  if (of_steps && phase_ >= Phase::kRunning && phase_ < Phase::kWritingResult) {
    rewinding_ = true;  // It gets its generation with all the others.
    return;
  }
  RestoreFromNewest(&server);
  NoteLost(loss_.Restoring(index, server.generation), out);
  SetServerMembers();
  NextVersion();
}

void Coordinator::RestoreFromNewest(Server* server) {
  server->generation.set_term(configuration_.version().term());
  server->generation.set_counter(++generation_counter_);
  server->restore_directory = checkpoint_.path();
  server->restored = false;
}

void Coordinator::OnServerFailed(uint32_t index, ServerCall call,
                                 const absl::Status& status, Time now,
                                 Outbox* out) {
  Server& server = servers_[index];
  const v1::Refusal refusal = RefusalOf(status);
  if (refusal.reason() != v1::Refusal::REASON_UNSPECIFIED) server.heard = now;
  server.why = std::string(status.message());
  server.next_call = now + kServerRetry;
  switch (refusal.reason()) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::WAIT:
    case v1::Refusal::RETRY:
      server.next_call =
          now +
          std::max(kFillingPoll, absl::Milliseconds(refusal.retry_after_ms()));
      return;
    case v1::Refusal::FENCED:
      // The process that was there before, which ends now.
      server.suspected = true;
      return;
    case v1::Refusal::OLD_TERM:
      out->Exit(TermLost(server.why));
      return;
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
      out->Exit(absl::InvalidArgumentError(OtherJob(index, server.why)));
      return;
    case v1::Refusal::JOB_FINISHED:
      // Before the end it is a server that is left over from another run.
      if (phase_ == Phase::kTellingEnd) {
        server.end_told = std::max(server.end_told, 1);
      }
      return;
    default:
      break;
  }
  if (IsPassedOver(refusal.entity())) return;  // It takes another one.
  if (call == ServerCall::kFinish) {
    // A server that has heard of the end leaves by itself; another one is asked
    // again, it may be there yet or come.
    if (server.end_told >= 1) server.end_told = 2;
  } else if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
             absl::IsResourceExhausted(status)) {
    server.suspected = true;
  } else if (IsOfSnapshot(call)) {
    // An earlier one is given up already.
    if (snapshot_.has_value() && server.asked == snapshot_->number()) {
      FailSnapshot(absl::StrCat("ps-", index, ": ", server.why), now, out);
    }
  } else if (Restores(call) && !server.restore_directory.empty() &&
             refusal.entity() == server.restore_directory) {
    const bool is_damaged = refusal.reason() == v1::Refusal::DAMAGED;
    damage_may_pass_ |= is_damaged && refusal.retry_after_ms() > 0;
    OnNotRestored(index, is_damaged, now, out);
  } else {
    out->Exit(
        EndFor(call, refusal, absl::StrCat("ps-", index, ": ", server.why)));
  }
}

void Coordinator::SetServerMembers() {
  configuration_.clear_servers();
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    v1::ServerMember* member = configuration_.add_servers();
    member->set_index(s);
    *member->mutable_generation() = servers_[s].generation;
    member->set_incarnation(servers_[s].incarnation);
    member->set_restore_directory(servers_[s].restore_directory);
  }
}

bool Coordinator::EveryServerIsThere() const {
  return std::all_of(servers_.begin(), servers_.end(), [](const Server& s) {
    return !s.suspected && s.restored;
  });
}

bool Coordinator::EveryServerHas(const v1::Version& version) const {
  return std::all_of(servers_.begin(), servers_.end(), [&](const Server& s) {
    return s.restored && !(s.acknowledged < version);
  });
}

}  // namespace paramd
