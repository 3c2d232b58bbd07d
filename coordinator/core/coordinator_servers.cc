// The coordinator's dealings with servers: who is there, what each is told
// next.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "coordinator/core/dispatcher.h"
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

Dispatcher::Due Dispatcher::NextCall(uint32_t index) const {
  const Server& server = servers_[index];
  if (phase_ < JobPhase::kRecalling || phase_ == JobPhase::kDone) return {};
  if (phase_ == JobPhase::kTellingEnd) {
    if (server.end_told >= (ending_.everybody_knows() ? 2 : 1)) return {};
    return {ServerCall::kFinish, server.next_call};
  }
  if (server.suspected) return {ServerCall::kRecall, server.next_call};
  if (phase_ < JobPhase::kFilling) return {};
  if (server.acknowledged < configuration().version()) {
    return {ServerCall::kConfigure, server.next_call};
  }
  if (!server.restored) {
    if (fills_.NeedsFill(index)) return {ServerCall::kFill, server.next_call};
    return {ServerCall::kConfigure, server.next_call};
  }
  const ServerCall call = checkpoints_.CallFor(index);
  if (call != ServerCall::kNone) return {call, server.next_call};
  return {ServerCall::kConfigure,
          std::max(server.next_call, server.next_keepalive)};
}

void Dispatcher::DriveServers(Turn* turn) {
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    if (servers_[s].call != ServerCall::kNone) continue;
    const Due due = NextCall(s);
    if (due.call != ServerCall::kNone && due.at <= turn->now) {
      CallServer(s, due.call, turn);
    }
  }
}

void Dispatcher::CallServer(uint32_t index, ServerCall call, Turn* turn) {
  Server& server = servers_[index];
  server.call = call;
  server.end_asked = ending_.everybody_knows() ? 2 : 1;
  server.told_committed = checkpoints_.newest().number;
  server.asked = checkpoints_.round() != nullptr
                     ? checkpoints_.round()->number()
                     : v1::Version();
  absl::Duration deadline = kServerCallDeadline;
  if (call == ServerCall::kWritten || call == ServerCall::kFetch) {
    deadline = kWrittenDeadline;
  }
  if (call == ServerCall::kFinish) deadline = kFinishDeadline;
  BufferChain payload;
  Outbox::Head head = MakeCall(index, call, &payload);
  server.call_id = turn->Send(PeerId::Ps(index), std::move(head),
                              std::move(payload), deadline);
}

Outbox::Head Dispatcher::MakeCall(uint32_t index, ServerCall call,
                                  BufferChain* payload) const {
  // Who is there is what a recall asks for, and a configuration says by itself.
  const bool is_meant =
      call != ServerCall::kRecall && call != ServerCall::kConfigure;
  const auto fill = [&](v1::Header* header) {
    if (is_meant) header->set_server_incarnation(servers_[index].incarnation);
    header->set_term(configuration().version().term());
    *header->mutable_configuration() = configuration().version();
    *header->mutable_server_generation() = servers_[index].generation;
    header->mutable_snapshot()->set_term(header->term());
    header->mutable_snapshot()->set_counter(checkpoints_.counter());
  };
  if (call == ServerCall::kRecall) {
    auto recall = std::make_unique<v1::RecallRequest>();
    fill(recall->mutable_header());
    recall->set_run_id(configuration().run_id());
    recall->set_job_digest(options_.job_digest);
    return recall;
  }
  if (call == ServerCall::kSeal) {
    auto seal =
        std::make_unique<v1::SealRequest>(checkpoints_.round()->SealFor(index));
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
        std::make_unique<v1::FetchShardRequest>(checkpoints_.FetchFor(index));
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
    finish->set_everybody_knows(ending_.everybody_knows());
    return finish;
  }
  auto configure = std::make_unique<v1::ConfigureRequest>();
  fill(configure->mutable_header());
  *configure->mutable_committed() = checkpoints_.newest().number;
  *configure->mutable_configuration() = configuration();
  if (!job_.IsSync())
    *configure->mutable_input_left() = input_.portions().Save({});
  return configure;
}

void Dispatcher::OnServerReply(uint32_t index, const Message& message,
                               Turn* turn) {
  Server& server = servers_[index];
  if (server.call == ServerCall::kNone || server.call_id != message.call) {
    return;
  }
  const ServerCall call = std::exchange(server.call, ServerCall::kNone);
  if (!message.status.ok()) {
    OnServerFailed(index, call, message.status, turn);
    return;
  }
  server.why.clear();
  server.heard = turn->now;
  if (const auto* recalled =
          DynamicCastToGenerated<v1::RecallReply>(message.head)) {
    OnRecalled(index, *recalled, turn);
  } else if (const auto* configured =
                 DynamicCastToGenerated<v1::ConfigureReply>(message.head)) {
    if (configured->incarnation() != server.incarnation) {
      server.suspected = true;
      return;
    }
    server.acknowledged = configured->configuration();
    server.restored = configured->restored();
    summary_writer_.summaries().Told(index, *configured);
    server.draining = configured->draining();
    server.drained_by = configured->drained_by();
    // Behind the last checkpoint nothing can be lost.
    if (server.restored && phase_ < JobPhase::kWritingResult) {
      checkpoints_.accounts().loss.Told(index, server.generation,
                                        configured->lost());
    }
    server.next_keepalive = turn->now + job_.heartbeat();
    fills_.Told(configuration(), index, *configured);
    if (!IsZero(server.drained_by) &&
        !(server.told_committed < server.drained_by)) {
      server.drained = server.suspected = true;
    }
    if (!server.restored) server.next_call = turn->now + kFillingPoll;
  } else if (const auto* sealed =
                 DynamicCastToGenerated<v1::SealReply>(message.head)) {
    if (checkpoints_.OnSealed(index, *sealed) && server.draining) {
      server.drained_by = sealed->snapshot();
    }
  } else if (const auto* written =
                 DynamicCastToGenerated<v1::WrittenReply>(message.head)) {
    checkpoints_.OnWritten(index, *written, turn);
  } else if (const auto* fetched =
                 DynamicCastToGenerated<v1::FetchShardReply>(message.head)) {
    checkpoints_.OnFetched(index, *fetched, message.payload, turn);
  } else if (const auto* filled =
                 DynamicCastToGenerated<v1::FillReply>(message.head)) {
    fills_.Filled(index, *filled);
  } else if (call == ServerCall::kFinish) {
    server.end_told = server.end_asked;
  }
}

void Dispatcher::OnRecalled(uint32_t index, const v1::RecallReply& reply,
                            Turn* turn) {
  Server& server = servers_[index];
  server.suspected = false;
  if (phase_ == JobPhase::kRecalling) take_over_.Recalled(index, reply);
  if (server.incarnation == reply.incarnation()) return;
  const bool is_new_life = server.incarnation != 0;
  server.incarnation = reply.incarnation();
  // The layout that is being logged names its earlier life.
  if (is_new_life && phase_ >= JobPhase::kLoggingLayout) {
    OnNewServer(index, turn);
  }
}

void Dispatcher::OnNewServer(uint32_t index, Turn* turn) {
  Server& server = servers_[index];
  server.restored = false;
  const bool drained = std::exchange(server.drained, false);
  server.draining = false;
  server.drained_by.Clear();
  turn->out->Note(absl::StrCat(
      "ps-", index,
      drained ? " is back after it was stopped"
              : " came back without its shard",
      "; it takes ",
      checkpoints_.newest().path().empty() ? "initial values"
                                           : checkpoints_.newest().path(),
      drained ? ", which is all it had" : ", what came after is lost"));
  checkpoints_.GiveUp(absl::StrCat("ps-", index, " was lost"), turn);
  // Of steps of sync mode that no checkpoint has nobody could say what is lost.
  const bool of_steps = job_.IsSync() || schedule_.HasStepsToSave();
  if (of_steps && phase_ >= JobPhase::kRunning &&
      phase_ < JobPhase::kWritingResult) {
    steps_.GoBack();  // It gets its generation with all the others.
    return;
  }
  RestoreFromNewest(&server);
  CheckpointAccounts::NoteLost(
      checkpoints_.accounts().loss.Restoring(index, server.generation),
      turn->out);
  configuration_.SetServers(servers_);
  configuration_.NextVersion();
}

void Dispatcher::RestoreFromNewest(Server* server) {
  server->generation = configuration_.NewGeneration();
  server->restore_directory = checkpoints_.newest().path();
  server->restored = false;
}

void Dispatcher::OnServerFailed(uint32_t index, ServerCall call,
                                const absl::Status& status, Turn* turn) {
  Server& server = servers_[index];
  const v1::Refusal refusal = RefusalOf(status);
  if (refusal.reason() != v1::Refusal::REASON_UNSPECIFIED)
    server.heard = turn->now;
  server.why = std::string(status.message());
  server.next_call = turn->now + kServerRetry;
  switch (refusal.reason()) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::WAIT:
    case v1::Refusal::RETRY:
      server.next_call =
          turn->now +
          std::max(kFillingPoll, absl::Milliseconds(refusal.retry_after_ms()));
      return;
    case v1::Refusal::FENCED:
      // The process that was there before, which ends turn->now.
      server.suspected = true;
      return;
    case v1::Refusal::OLD_TERM:
      turn->out->Exit(TermLost(server.why));
      return;
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
      turn->out->Exit(absl::InvalidArgumentError(OtherJob(index, server.why)));
      return;
    case v1::Refusal::JOB_FINISHED:
      // Before the end it is a server that is left over from another run.
      if (phase_ == JobPhase::kTellingEnd) {
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
    if (checkpoints_.round() != nullptr &&
        server.asked == checkpoints_.round()->number()) {
      checkpoints_.Fail(
          absl::UnavailableError(absl::StrCat("ps-", index, ": ", server.why)),
          turn);
    }
  } else if (Restores(call) && !server.restore_directory.empty() &&
             refusal.entity() == server.restore_directory) {
    const bool is_damaged = refusal.reason() == v1::Refusal::DAMAGED;
    damage_may_pass_ |= is_damaged && refusal.retry_after_ms() > 0;
    OnNotRestored(index, is_damaged, turn);
  } else {
    turn->out->Exit(
        EndFor(call, refusal, absl::StrCat("ps-", index, ": ", server.why)));
  }
}

}  // namespace paramd
