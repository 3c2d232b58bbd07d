#include "coordinator/core/dispatcher.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "proto/job_end.h"
#include "proto/refusal.h"
#include "proto/stopped_job.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;
using Event = LookPace::Event;

constexpr absl::Duration kPeriod = absl::Milliseconds(100);
constexpr absl::Duration kLongestTurn = absl::Milliseconds(500);
// Between checkpoints to save steps of sync mode, should one fail.
constexpr absl::Duration kSaveRetry = absl::Seconds(1);

// Of a member that does what it always does.
bool IsUsual(const Message& message) {
  if (message.is_reply) return message.status.ok();
  return DynamicCastToGenerated<v1::HeartbeatRequest>(message.head) !=
             nullptr ||
         DynamicCastToGenerated<v1::PortionRequest>(message.head) != nullptr;
}

}  // namespace

Dispatcher::Dispatcher(const CoordinatorOptions& options)
    : parts_(options, [this] { return report_.waiting_for(); }),
      facts_(&parts_),
      report_(&parts_),
      due_members_(&parts_, &facts_),
      pace_(parts_) {
  for (uint32_t s = 0; s < options.places.size(); ++s) {
    for (const uint32_t peer : AllOf(options.places[s])) server_of_[peer] = s;
  }
}

// ---- events -----------------------------------------------------------------

void Dispatcher::Start(Time now, Outbox* out) {
  Turn turn = parts_.Begin(now, out);
  last_event_ = now;
  next_periodic_ = now + kPeriod;
  parts_.startup.Begin(&turn);
}

// Who only takes its term may take the next one.
void Dispatcher::Completed(IoResult result, Time now, Outbox* out) {
  NoticePause(now);
  PendingWork::Ended ended =
      parts_.work.End(&result, parts_.phase > JobPhase::kTakingTerm, out);
  if (ended.handler == nullptr) return;
  const bool is_patient =
      ended.haste == PendingWork::Haste::kPatient && result.status.ok();
  if (is_patient && !pace_.MayTell(now)) {
    return pace_.Keep({std::move(ended.handler), std::move(result)});
  }
  Turn turn = parts_.Begin(now, out);
  // Its entries have their effects in their order.
  if (ended.haste != PendingWork::Haste::kNone) FollowLog(&turn);
  ended.handler(result, &turn);
  facts_.Deliver(&turn);
  AdvanceSoon(is_patient ? Event::kOther : Event::kUrgent, absl::nullopt,
              &turn);
}

void Dispatcher::FollowLog(Turn* turn) {
  for (const LookPace::Patient& patient : pace_.TakeKept()) {
    patient.handler(patient.result, turn);
    facts_.Deliver(turn);
  }
}

void Dispatcher::Receive(Message message, Time now, Outbox* out) {
  NoticePause(now);
  Turn turn = parts_.Begin(now, out);
  const bool has_failed = message.is_reply && !message.status.ok();
  Route(message, &turn);
  facts_.Deliver(&turn);
  AdvanceSoon(has_failed         ? Event::kUrgent
              : IsUsual(message) ? Event::kUsual
                                 : Event::kOther,
              message.from, &turn);
}

void Dispatcher::Tick(Time now, Outbox* out) {
  NoticePause(now);
  Turn turn = parts_.Begin(now, out);
  next_periodic_ = now + kPeriod;
  parts_.startup.CheckPatience(&turn);
  AdvanceSoon(Event::kUsual, absl::nullopt, &turn);
}

Time Dispatcher::next_tick() const {
  if (parts_.phase == JobPhase::kDone) return Time::Never();
  return std::min({next_periodic_, pace_.next(), due_members_.next()});
}

Time Dispatcher::NextDue() const {
  return std::min({parts_.servers.next_tick(parts_.job),
                   parts_.replicas.next_tick(parts_.job),
                   parts_.watch.next_tick(parts_.job),
                   parts_.input.steps().next_tick(parts_.job),
                   parts_.sessions.next_tick()});
}

void Dispatcher::Drain(Time now, Outbox* out) {
  Turn turn = parts_.Begin(now, out);
  if (parts_.phase < JobPhase::kAdopting) {
    out->Exit(absl::OkStatus());
    return;
  }
  if (parts_.phase >= JobPhase::kSaving) return;  // The end comes first.
  parts_.leaving.Begin(now);
  parts_.servers.OnChiefLeaves();
  parts_.replicas.OnChiefLeaves();
  out->Note("draining: a checkpoint first");
  // Servers that drain too are to leave with the same one.
  parts_.servers.KeepAliveAll(now);
  Advance(&turn);
}

absl::optional<FailedJob::Options> Dispatcher::ToTell(const absl::Status& why,
                                                      Time now) const {
  const JobView& job = parts_.job;
  const JobPhase first =
      IsStoppedJob(why) ? JobPhase::kRecalling : JobPhase::kFindingCheckpoint;
  if (!EndsTheJob(why) || job.phase < first ||
      job.phase >= JobPhase::kTellingEnd) {
    return absl::nullopt;
  }
  FailedJob::Options telling;
  telling.why = why;
  telling.finish_timeout =
      absl::Milliseconds(job.options.job.finish_timeout_ms());
  for (uint32_t s = 0; s < job.servers.size(); ++s) {
    if (job.servers[s].incarnation == 0) continue;  // It was never here.
    FailedJob::Server server;
    server.index = job.servers[s].peer.value_or(s);
    server.header.set_term(job.configuration.version().term());
    server.header.set_server_incarnation(job.servers[s].incarnation);
    telling.servers.push_back(std::move(server));
  }
  std::vector<std::pair<uint32_t, uint64_t>> others = parts_.replicas.others();
  for (const auto& [peer, incarnation] : parts_.spares.all(job)) {
    if (incarnation != 0) others.emplace_back(peer, incarnation);
  }
  for (const auto& [peer, incarnation] : others) {
    FailedJob::Server server;
    server.index = peer;
    server.header.set_term(job.configuration.version().term());
    server.header.set_server_incarnation(incarnation);
    telling.servers.push_back(std::move(server));
  }
  // The chief's own worker ends with this process.
  for (uint32_t w = 1; w < job.options.workers; ++w) {
    const auto worker = job.workers.find(w);
    if (worker == job.workers.end() || job.IsLive(worker->second, now)) {
      telling.workers.insert(w);
    }
  }
  for (const auto& [index, worker] : job.workers) {
    const bool is_awaited = !job.IsListed(index) && job.IsLive(worker, now);
    if (is_awaited) telling.workers.insert(index);
    if (worker.parked != 0) telling.calls.push_back({index, worker.parked});
  }
  for (const auto& [index, joining] : parts_.joins.all()) {
    if (joining.call != 0) telling.calls.push_back({index, joining.call});
  }
  return telling;
}

// Ticks come every 100 ms: where none came for long, this process itself stood
// still (stopped, or the machine asleep), and the silence is not the workers'.
void Dispatcher::NoticePause(Time now) {
  const absl::Duration pause = now - std::exchange(last_event_, now);
  if (pause < std::max(parts_.job.lease() / 2, kLongestTurn)) return;
  parts_.sessions.OnPause(pause);
  parts_.joins.OnPause(pause);
  parts_.input.OnPause(now);
  parts_.checkpoints.OnPause(pause);
}

// ---- messages ---------------------------------------------------------------

void Dispatcher::RouteReply(const Message& message, Turn* turn) {
  if (message.from.kind != PeerId::Kind::kPs) return;
  const uint32_t peer = message.from.index;
  if (const auto* told =
          DynamicCastToGenerated<v1::ConfigureReply>(message.head)) {
    parts_.balance.OnConfigured(peer, *told, turn->now);
  }
  const PlaceWatch::Answer answer = parts_.watch.OnReply(message, *turn);
  if (answer != PlaceWatch::Answer::kNone) {
    if (answer == PlaceWatch::Answer::kNobody) AskAtOnce(peer, turn->now);
  } else if (const auto server = ServerAt(peer)) {
    if (!parts_.input.steps().OnReply(*server, message, turn)) {
      parts_.servers.OnReply(*server, message, turn);
    }
  } else if (const auto other = OtherAt(peer)) {
    parts_.replicas.OnReply(*other, message, turn);
  } else {
    parts_.spares.OnReply(message, turn);
  }
}

void Dispatcher::Route(const Message& message, Turn* turn) {
  if (message.is_reply) {
    RouteReply(message, turn);
  } else if (const auto* enlist =
                 DynamicCastToGenerated<v1::EnlistRequest>(message.head)) {
    parts_.enlistments.OnEnlist(
        message, *enlist,
        [this](uint32_t worker) { return parts_.joins.IsJoining(worker); },
        turn);
  } else if (const auto* join =
                 DynamicCastToGenerated<v1::JoinRequest>(message.head)) {
    if (!parts_.joins.OnJoin(message, *join, turn)) {
      parts_.enlistments.GiveUp(join->incarnation());
    }
  } else if (const auto* heartbeat =
                 DynamicCastToGenerated<v1::HeartbeatRequest>(message.head)) {
    OnHeartbeat(message, *heartbeat, turn);
  } else if (const auto* portion =
                 DynamicCastToGenerated<v1::PortionRequest>(message.head)) {
    OnTakePortion(message, *portion, turn);
  } else if (const auto* set =
                 DynamicCastToGenerated<v1::SetRequest>(message.head)) {
    OnSet(message, *set, turn);
  } else if (const auto* asked =
                 DynamicCastToGenerated<v1::CheckpointRequest>(message.head)) {
    parts_.requested.OnRequest(message, *asked, parts_.ForRequests(), turn);
  } else if (const auto* stop =
                 DynamicCastToGenerated<v1::StopJobRequest>(message.head)) {
    parts_.stop.OnRequest(message, *stop, turn);
  } else if (const auto* drain =
                 DynamicCastToGenerated<v1::DrainRequest>(message.head)) {
    OnDrain(message, *drain, turn);
  } else if (const auto* scale =
                 DynamicCastToGenerated<v1::ScaleRequest>(message.head)) {
    parts_.scaling.OnRequest(message, *scale, parts_.ToScaling(), turn);
  } else if (DynamicCastToGenerated<v1::GetConfigurationRequest>(
                 message.head) != nullptr) {
    auto reply = std::make_unique<v1::GetConfigurationReply>();
    *reply->mutable_configuration() = turn->job.configuration;
    turn->out->Reply(message.call, std::move(reply));
  } else {
    turn->out->Refuse(message.call,
                      Refuse(v1::Refusal::INVALID, "method",
                             "the coordinator does not serve this method"));
  }
}

void Dispatcher::OnDrain(const Message& message,
                         const v1::DrainRequest& request, Turn* turn) {
  if (parts_.scaling.IsUnderWay()) {
    return turn->out->Refuse(
        message.call, Refuse(v1::Refusal::INVALID, "job",
                             absl::StrCat("the job is being scaled to ",
                                          parts_.scaling.servers(),
                                          " ps: no ps is drained meanwhile")));
  }
  parts_.drains.OnRequest(message, request, parts_.replicas, parts_.watch,
                          parts_.stop.is_asked() || parts_.leaving.draining(),
                          turn);
}

absl::optional<uint32_t> Dispatcher::ServerAt(uint32_t peer) const {
  const auto found = server_of_.find(peer);
  return found == server_of_.end() ? parts_.servers.ServerAt(peer)
         : parts_.servers.IsAt(found->second, peer)
             ? absl::make_optional(found->second)
             : absl::nullopt;
}

absl::optional<uint32_t> Dispatcher::OtherAt(uint32_t peer) const {
  const auto found = server_of_.find(peer);
  return found != server_of_.end() && parts_.replicas.IsAt(found->second, peer)
             ? absl::make_optional(found->second)
             : absl::nullopt;
}

// What has become of who was there the next call finds out.
void Dispatcher::AskAtOnce(uint32_t peer, Time now) {
  if (const auto server = ServerAt(peer)) {
    parts_.servers.KeepAlive(*server, now);
  } else if (const auto other = OtherAt(peer)) {
    parts_.replicas.KeepAlive(*other, now);
  }
}

void Dispatcher::OnHeartbeat(const Message& message,
                             const v1::HeartbeatRequest& request, Turn* turn) {
  if (!parts_.sessions.Accept(message, request, turn) ||
      parts_.input.portions().AskWhatItHolds(message, request, turn)) {
    return;
  }
  const uint32_t index = request.header().worker();
  const WorkerRecord& worker = parts_.sessions.all().at(index);
  parts_.sessions.Keep(
      message, request, [this](uint32_t w) { return parts_.NewsFor(w); }, turn);
  parts_.input.OnHeartbeat(request, worker.acknowledged, turn->now);
  parts_.checkpoints.OnCut(index, request.cut());
  parts_.modes.OnHeartbeat(request);
  Summaries& summaries = parts_.summary_writer.summaries();
  summaries.training().Told(
      index, worker.generation,
      worker.generation.term() < turn->job.configuration.version().term(),
      request.stats());
  parts_.trainings.Told(index, worker.generation, request.stats());
  const v1::Evaluation& evaluation = request.evaluation();
  if (index == 0 && parts_.evaluations.OnHeartbeat(evaluation)) {
    turn->Raise(Evaluated{});
  }
  parts_.evaluations.OnTested(index, request.tested());
  // What it holds is not leased to it before.
  if (request.leaving() && parts_.phase >= JobPhase::kRunning) {
    parts_.sessions.Fence(index, turn);
  }
}

void Dispatcher::OnSet(const Message& message, const v1::SetRequest& request,
                       Turn* turn) {
  if (request.key() == RateScale::kKey) {
    parts_.rate_scale.OnSet(message, request, turn);
  } else if (RunningSettings::Has(request.key())) {
    parts_.settings.OnSet(message, request, turn);
  } else {
    parts_.modes.OnSet(message, request, parts_.ToModeChange(), turn);
  }
}

void Dispatcher::OnTakePortion(const Message& message,
                               const v1::PortionRequest& request, Turn* turn) {
  if (!parts_.sessions.Accept(message, request.header(), turn)) return;
  const JobView& job = turn->job;
  if (job.phase < JobPhase::kRunning) {
    const std::string whom = job.waiting_for();
    turn->out->Refuse(
        message.call,
        RefuseForNow(
            v1::Refusal::RETRY, whom, job.heartbeat(),
            absl::StrCat("no input is handed out yet: waiting for ", whom)));
    return;
  }
  const uint32_t index = request.header().worker();
  const Checkpoints& checkpoints = parts_.checkpoints;
  PortionLedger::Snapshot told;
  const bool tells = checkpoints.TellsWorkers(job);
  if (tells) {
    told = {checkpoints.round()->number(), checkpoints.round()->HasCut(index)};
  }
  if (!parts_.input.portions().OnTake(message, request, tells ? &told : nullptr,
                                      turn)) {
    return;
  }
  // One that is asked again may know of more pushes.
  parts_.sessions.OnPushes(index, request.header().sequence());
}

// ---- what is due ------------------------------------------------------------

void Dispatcher::AdvanceSoon(Event event, absl::optional<PeerId> from,
                             Turn* turn) {
  const bool is_due = pace_.IsDue(event, turn->now);
  if (!pace_.is_quiet()) due_members_.End();
  if (is_due) return Advance(turn);
  if (pace_.is_quiet()) AdvanceFew(from, turn);
}

void Dispatcher::AdvanceFew(absl::optional<PeerId> from, Turn* turn) {
  if (!from.has_value()) {
    due_members_.AdvanceDue(turn);
  } else {
    absl::optional<uint32_t> server;
    if (from->kind == PeerId::Kind::kPs && parts_.watch.HasNews(from->index)) {
      const auto found = server_of_.find(from->index);
      server = found == server_of_.end() ? parts_.servers.ServerAt(from->index)
                                         : absl::make_optional(found->second);
    }
    due_members_.AdvanceOne(*from, server, turn);
  }
  pace_.NoticeNewVersion();
}

void Dispatcher::Advance(Turn* turn) {
  if (pace_.MayTell(turn->now)) FollowLog(turn);
  pace_.Begin();
  AdvanceParts(turn);
  pace_.End(NextDue(), turn->now);
  pace_.is_quiet() ? due_members_.Begin() : due_members_.End();
}

void Dispatcher::AdvanceParts(Turn* turn) {
  if (turn->out->exited) return;
  AdvanceStart(turn);
  AdvanceJoins(turn);
  parts_.modes.Advance(parts_.ToModeChange(), turn);
  parts_.rate_scale.Advance(turn);
  parts_.settings.Advance(turn);
  parts_.input.steps().Advance(parts_.ToSteps(), turn);
  if (!parts_.leaving.draining()) {
    parts_.input.portions().growing().Advance(turn);
  }
  facts_.Deliver(turn);
  AdvanceStop(turn);
  AdvanceRunning(turn);
  AdvanceEvaluation(turn);
  AdvanceLeaving(turn);
  if (IsStoppedJob(turn->out->exit_status)) return;
  AdvanceRequested(turn);
  parts_.checkpoints.Advance(turn);
  facts_.Deliver(turn);
  const bool ending =
      parts_.leaving.draining() || parts_.phase >= JobPhase::kEvaluating;
  parts_.summary_writer.Advance(parts_.input.ToldStep(), ending, turn);
  if (parts_.phase >= JobPhase::kRunning) {
    parts_.trainings.Advance(parts_.input.EpochsFinished(),
                             parts_.phase >= JobPhase::kEvaluating, turn);
  }
  AdvanceTelling(turn);
  parts_.AnswerKept(turn);
  parts_.scaling.Advance(
      /*may_move=*/!parts_.leaving.draining() && !parts_.stop.is_asked(), turn);
  parts_.balance.Advance(parts_.ToBalance(), turn);
  if (parts_.replicas.active()) {
    parts_.drains.Advance(&parts_.watch, turn);
    parts_.replicas.Advance(parts_.ending.everybody_knows(), turn);
    facts_.Deliver(turn);
  }
  parts_.servers.Advance(turn);
  parts_.watch.Advance(turn);
  parts_.input.steps().DriveServers(turn);
}

void Dispatcher::AdvanceStart(Turn* turn) {
  parts_.startup.Advance(parts_.retirement.logged(), turn);
  facts_.Deliver(turn);
  if (parts_.phase != JobPhase::kAdopting) return;
  // Nothing is handed out before each session has said what it holds or is
  // gone.
  parts_.sessions.FenceSilent(turn);
  facts_.Deliver(turn);
  PortionLedger& portions = parts_.input.portions();
  if (!portions.holders().complete()) return;
  parts_.phase = JobPhase::kRunning;
  if (turn->job.configuration.state() == v1::RUNNING) {
    portions.HandOver();
  } else {
    turn->live->ChangeState(v1::RUNNING);
  }
  parts_.schedule.Begin(parts_.input.global_step(),
                        parts_.input.EpochsFinished(), turn->now);
}

void Dispatcher::AdvanceJoins(Turn* turn) {
  if (parts_.phase < JobPhase::kAdopting ||
      parts_.phase >= JobPhase::kTellingEnd) {
    return;
  }
  parts_.joins.Advance(parts_.HoldsJoins() || !pace_.MayTell(turn->now), turn);
  facts_.Deliver(turn);
  parts_.sessions.Announce(turn);
  parts_.joins.Answer(turn);
}

bool Dispatcher::AllInputUsed() const {
  const Sessions::Map& sessions = parts_.sessions.all();
  return !sessions.empty() && parts_.input.InputFinished() &&
         std::all_of(sessions.begin(), sessions.end(), [](const auto& s) {
           return s.second.last.no_input() && !s.second.fencing;
         });
}

void Dispatcher::AdvanceRunning(Turn* turn) {
  if (parts_.phase != JobPhase::kRunning) return;
  // Input that a silent worker holds is what everybody else waits for.
  parts_.sessions.FenceSilent(turn);
  facts_.Deliver(turn);
  if (parts_.checkpoints.round() != nullptr ||
      parts_.modes.change() != nullptr || parts_.leaving.draining()) {
    return;
  }
  if (AllInputUsed()) {
    parts_.phase = JobPhase::kEvaluating;
    turn->live->ChangeState(v1::FINISHING);
    return;
  }
  CheckpointSchedule& schedule = parts_.schedule;
  const bool unsaved =
      schedule.MustSaveSteps(turn->now) && turn->job.EveryServerIsThere();
  if (unsaved) schedule.SaveSteps(turn->now + kSaveRetry);
  const bool due =
      schedule.IsDue(parts_.input.global_step(), parts_.input.EpochsFinished(),
                     parts_.checkpoints.newest().step, turn->now);
  if (unsaved || (due && !parts_.input.InputFinished())) {
    parts_.OpenSnapshot({}, turn);
  }
}

void Dispatcher::AdvanceEvaluation(Turn* turn) {
  if (parts_.phase == JobPhase::kEvaluating) {
    parts_.evaluations.AdvanceShared(parts_.LastEpoch(), turn);
  }
  if (parts_.phase == JobPhase::kEvaluating &&
      parts_.evaluations.newest().final()) {
    parts_.phase = JobPhase::kSaving;
  }
  if (parts_.phase == JobPhase::kSaving &&
      parts_.checkpoints.round() == nullptr &&
      parts_.ending.MaySave(turn->now) && turn->job.EveryServerIsThere()) {
    parts_.OpenSnapshot({.final = true}, turn);
  }
}

// The end of the job comes first, if that is near.
void Dispatcher::AdvanceStop(Turn* turn) {
  if (!parts_.stop.is_asked()) return;
  parts_.stop.Advance(parts_.ForStop(), turn);
  const bool is_under_way = parts_.phase == JobPhase::kRunning ||
                            parts_.phase == JobPhase::kEvaluating;
  if (turn->out->exited || !is_under_way || parts_.leaving.stopping()) return;
  parts_.leaving.BeginStop(turn->now);
  parts_.servers.KeepAliveAll(turn->now);
}

void Dispatcher::AdvanceLeaving(Turn* turn) {
  const bool may_leave = parts_.phase == JobPhase::kRunning ||
                         parts_.phase == JobPhase::kEvaluating;
  if (!may_leave || parts_.checkpoints.round() != nullptr ||
      parts_.modes.IsUnderWay()) {
    return;
  }
  parts_.leaving.Advance(parts_.checkpoints.newest().number, turn);
  facts_.Deliver(turn);
}

// After all else that a snapshot is opened for: whoever asks again and again
// keeps nobody from leaving, and the job from no end.
void Dispatcher::AdvanceRequested(Turn* turn) {
  parts_.requested.Advance(parts_.ForRequests(), turn);
  if (!parts_.requested.WantsOne() || !parts_.MayOpenRequested()) return;
  turn->out->Note("a checkpoint is asked for");
  parts_.OpenSnapshot({}, turn);
}

void Dispatcher::AdvanceTelling(Turn* turn) {
  if (parts_.phase != JobPhase::kTellingEnd) return;
  parts_.joins.TellEnd(turn);
  facts_.Deliver(turn);
  parts_.spares.Advance(parts_.ending.everybody_knows(), turn);
  parts_.ending.Advance(parts_.retirement.idle() &&
                            parts_.replicas.all_know() &&
                            parts_.spares.all_know(),
                        turn);
  if (parts_.ending.everybody_knows()) parts_.servers.OnEverybodyKnows();
  facts_.Deliver(turn);
}

}  // namespace paramd
