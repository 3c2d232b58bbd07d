// The coordinator's dealings with workers: joining, heartbeats, input, fences.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "coordinator/core/dispatcher.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kLongestTurn = absl::Milliseconds(500);

}  // namespace

// Ticks come every 100 ms: where none came for long, this process itself stood
// still (stopped, or the machine asleep), and the silence is not the workers'.
void Dispatcher::NoticePause(Time now) {
  const absl::Duration pause = now - std::exchange(last_event_, now);
  if (pause < std::max(job_.lease() / 2, kLongestTurn)) return;
  for (auto& [index, worker] : workers_) worker.heard = worker.heard + pause;
  joins_.OnPause(pause);
  input_.step_times().RestAll();
  steps_.OnPause(now);
  checkpoints_.OnPause(pause);
}

// While servers seal nobody is admitted: it has no cut. Before, that of a
// worker that comes is waited for as everybody's.
bool Dispatcher::HoldsJoins() const {
  const SnapshotRound* const round = checkpoints_.round();
  const bool sealing =
      round != nullptr && round->is_open() &&
      (round->phase() == SnapshotRound::Phase::kSealing || job_.IsSync());
  return sealing || leaving_.draining() || modes_.IsUnderWay() ||
         phase_ == JobPhase::kAdopting || (job_.IsSync() && !IsBetweenSteps());
}

void Dispatcher::AdvanceJoins(Turn* turn) {
  joins_.Advance(HoldsJoins(), turn);
  Deliver(turn);
  const bool admitted =
      std::any_of(workers_.begin(), workers_.end(),
                  [](const auto& w) { return IsZero(w.second.admitted); });
  if (admitted) {
    configuration_.NextVersion();
    configuration_.SetWorkers(workers_);
    for (auto& [index, worker] : workers_) {
      if (IsZero(worker.admitted)) worker.admitted = configuration().version();
    }
  }
  joins_.Answer(turn);
}

void Dispatcher::On(const Admitted& admitted, Turn* turn) {
  const v1::JoinRequest& request = admitted.request;
  Worker worker;
  worker.incarnation = request.incarnation();
  worker.left_sessions = request.left_sessions();
  worker.generation = configuration_.NewGeneration();
  worker.host = request.host();
  worker.pid = request.pid();
  worker.heard = turn->now;
  worker.start_clock = StartClock(turn->now);
  workers_[admitted.worker] = std::move(worker);
  lost_workers_.erase(admitted.worker);
}

Dispatcher::Worker* Dispatcher::FindSession(const Message& message,
                                            const v1::Header& header,
                                            Turn* turn) {
  const auto worker = workers_.find(header.worker());
  const std::string name = absl::StrCat("worker-", header.worker());
  if (message.from != PeerId::Worker(header.worker())) {
    turn->out->Refuse(message.call,
                      Refuse(v1::Refusal::NOT_ALLOWED, name,
                             absl::StrCat(PeerName(message.from),
                                          " speaks in the name of ", name)));
    return nullptr;
  }
  if (phase_ < JobPhase::kFilling) {
    // Which sessions go on is not known yet.
    turn->out->Refuse(
        message.call,
        RefuseForNow(v1::Refusal::NOT_READY, waiting_for(), job_.heartbeat(),
                     absl::StrCat("a coordinator that has just begun "
                                  "waits for ",
                                  waiting_for())));
    return nullptr;
  }
  const bool is_session = worker != workers_.end() &&
                          worker->second.generation == header.generation();
  if (is_session && header.incarnation() != 0 &&
      header.incarnation() != worker->second.incarnation) {
    // Two runs count their generations alike.
    turn->out->Refuse(
        message.call,
        Refuse(v1::Refusal::OTHER_JOB, "session",
               absl::StrCat(WorkerName(header.worker(), header.generation()),
                            " is process ", worker->second.pid, " on ",
                            worker->second.host, " in run ",
                            configuration().run_id(),
                            ", which answers here; who calls is of another "
                            "run")));
    return nullptr;
  }
  if (is_session && !worker->second.fencing) {
    worker->second.heard = turn->now;
    return &worker->second;
  }
  if (worker != workers_.end() &&
      header.generation() < worker->second.generation) {
    turn->out->Refuse(
        message.call,
        Refuse(v1::Refusal::FENCED, name,
               absl::StrCat(name, " was replaced by process ",
                            worker->second.pid, " on ", worker->second.host)));
  } else {
    turn->out->Refuse(
        message.call,
        Refuse(phase_ >= JobPhase::kTellingEnd ? v1::Refusal::JOB_FINISHED
                                               : v1::Refusal::NOT_READY,
               "session",
               absl::StrCat(name, " has no session here: join again")));
    if (phase_ >= JobPhase::kTellingEnd) ending_.OnHeard(header.worker());
  }
  return nullptr;
}

void Dispatcher::OnHeartbeat(const Message& message,
                             const v1::HeartbeatRequest& request, Turn* turn) {
  Worker* worker = FindSession(message, request.header(), turn);
  if (worker == nullptr) return;
  if (request.number() <= worker->last.number()) {
    turn->out->Refuse(message.call,
                      Refuse(v1::Refusal::SUPERSEDED, "heartbeat",
                             "a later heartbeat of this session is known"));
    return;
  }
  if (AskWhatItHolds(message, request, turn)) return;
  if (worker->parked != 0) AnswerHeartbeat(worker, turn);
  worker->last = request;
  worker->acknowledged =
      std::max(worker->acknowledged, request.header().sequence());
  worker->parked = message.call;
  worker->parked_until = turn->now + job_.heartbeat();
  const uint32_t index = request.header().worker();
  request.no_input()
      ? input_.step_times().Rest(index)
      : input_.step_times().Count(index, worker->acknowledged, turn->now);
  checkpoints_.OnCut(index, request.cut());
  modes_.OnHeartbeat(request);
  summary_writer_.summaries().training().Told(
      index, worker->generation,
      worker->generation.term() < configuration().version().term(),
      request.stats());
  const v1::Evaluation& evaluation = request.evaluation();
  if (index == 0 && evaluations_.OnHeartbeat(evaluation)) {
    checkpoints_.accounts().metrics.Evaluated(evaluation, global_step());
    summary_writer_.summaries().Evaluated(evaluation);
  }
  // What it holds is not leased to it before.
  if (request.leaving() && phase_ >= JobPhase::kRunning) Fence(index, turn);
}

// With the next one it tells. Until then it has no configuration of this term,
// and servers take nothing of it.
bool Dispatcher::AskWhatItHolds(const Message& message,
                                const v1::HeartbeatRequest& request,
                                Turn* turn) {
  const uint32_t index = request.header().worker();
  if (!input_.holders().IsAwaited(index)) return false;
  const uint64_t term = configuration().version().term();
  if (request.has_held() && request.held().term() == term) {
    input_.OnHeld(index, request.held());
    const std::string generation = VersionName(request.header().generation());
    turn->out->Note(
        absl::StrCat("worker-", index, " goes on as generation ", generation),
        {{"worker", index}, {"generation", generation}});
    return false;
  }
  auto reply = std::make_unique<v1::HeartbeatReply>();
  reply->set_term(term);
  reply->set_tell_held(true);
  reply->set_state(configuration().state());
  turn->out->Reply(message.call, std::move(reply));
  return true;
}

bool Dispatcher::StopsWorkers() const {
  return (checkpoints_.TellsWorkers(job_) && checkpoints_.round()->stopped()) ||
         modes_.StopsWorkers();
}

uint64_t Dispatcher::LeftOutStep(const Worker& worker) const {
  return job_.IsSync()
             ? steps_.steps().LeftOutStep(worker.last.header().worker())
             : 0;
}

v1::HeartbeatReply Dispatcher::NewsFor(const Worker& worker) const {
  v1::HeartbeatReply reply;
  if (configuration().version() > worker.last.header().configuration()) {
    *reply.mutable_configuration() = configuration();
  }
  reply.set_term(configuration().version().term());
  reply.set_state(configuration().state());
  if (checkpoints_.TellsWorkers(job_))
    *reply.mutable_snapshot() = checkpoints_.round()->number();
  reply.set_stop(StopsWorkers());
  reply.set_left_out_step(LeftOutStep(worker));
  if (worker.last.header().worker() == 0) {
    reply.set_evaluate_epoch(evaluations_.EpochToEvaluate(job_));
    reply.set_evaluate_final(phase_ == JobPhase::kEvaluating);
  }
  return reply;
}

bool Dispatcher::HasNews(const Worker& worker) const {
  const v1::HeartbeatRequest& known = worker.last;
  const bool chief = known.header().worker() == 0;
  const v1::Version snapshot = checkpoints_.TellsWorkers(job_)
                                   ? checkpoints_.round()->number()
                                   : v1::Version();
  return configuration().version() > known.header().configuration() ||
         configuration().state() != known.state() ||
         snapshot != known.snapshot() || StopsWorkers() != known.stop() ||
         LeftOutStep(worker) != known.left_out_step() ||
         (chief &&
          evaluations_.EpochToEvaluate(job_) != known.evaluate_epoch()) ||
         (chief && (phase_ == JobPhase::kEvaluating) != known.evaluate_final());
}

void Dispatcher::AnswerHeartbeat(Worker* worker, Turn* turn) {
  turn->out->Reply(worker->parked,
                   std::make_unique<v1::HeartbeatReply>(NewsFor(*worker)));
  worker->parked = 0;
}

void Dispatcher::AnswerParked(Turn* turn) {
  for (auto& [index, worker] : workers_) {
    if (worker.parked == 0) continue;
    // One that acknowledges the end has nothing more to wait for.
    if (turn->now >= worker.parked_until || HasNews(worker) ||
        worker.last.state() == v1::FINISHED) {
      AnswerHeartbeat(&worker, turn);
    }
  }
  if (joins_.HasLate(turn->now)) joins_.RefuseLate(waiting_for(), turn);
}

void Dispatcher::OnTakePortion(const Message& message,
                               const v1::PortionRequest& request, Turn* turn) {
  Worker* worker = FindSession(message, request.header(), turn);
  if (worker == nullptr) return;
  if (phase_ < JobPhase::kRunning) {
    turn->out->Refuse(
        message.call,
        RefuseForNow(v1::Refusal::RETRY, waiting_for(), job_.heartbeat(),
                     absl::StrCat("no input is handed out yet: waiting "
                                  "for ",
                                  waiting_for())));
    return;
  }
  const SnapshotRound* const round =
      checkpoints_.TellsWorkers(job_) ? checkpoints_.round() : nullptr;
  PortionLedger::Snapshot told;
  if (round != nullptr) {
    told = {round->number(), round->HasCut(request.header().worker())};
  }
  if (!input_.OnTake(message, request, round != nullptr ? &told : nullptr,
                     turn)) {
    return;
  }
  // One that is asked again may know of more pushes.
  worker->acknowledged =
      std::max(worker->acknowledged, request.header().sequence());
}

void Dispatcher::Fence(uint32_t index, Turn* turn) {
  Worker& worker = workers_[index];
  if (worker.fencing) return;
  worker.fencing = true;
  turn->out->Note(
      absl::StrCat("worker-", index, " (process ", worker.pid, " on ",
                   worker.host, ") is gone after ", worker.acknowledged,
                   " pushes; what it had left of its input is handed "
                   "out again"),
      {{"worker", index},
       {"pid", worker.pid},
       {"host", worker.host},
       {"pushes", worker.acknowledged}});
  // In sync mode it waits until no step is half applied; where all sessions are
  // about to end, so does this one.
  if (!job_.IsSync() && !modes_.IsLoggingEndOfSessions()) LogFence(index, turn);
}

void Dispatcher::LogFence(uint32_t index, Turn* turn) {
  Worker& worker = workers_[index];
  worker.fence_logged = true;
  v1::LogEntry entry;
  entry.mutable_fence()->set_worker(index);
  *entry.mutable_fence()->mutable_generation() = worker.generation;
  turn->Append(std::move(entry),
               [this, index](const IoResult& result, Turn* later) {
                 OnFenced(index, result, later);
               });
}

void Dispatcher::OnFenced(uint32_t index, const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  Worker& worker = workers_[index];
  if (worker.parked != 0) {
    turn->out->Refuse(
        worker.parked,
        worker.last.leaving()
            ? Refuse(v1::Refusal::FENCED, absl::StrCat("worker-", index),
                     absl::StrCat("worker-", index, " has left"))
            : Refuse(v1::Refusal::NOT_READY, "session",
                     absl::StrCat("worker-", index,
                                  " has no session any more: join again")));
  }
  // In sync mode what a server loses is computed again.
  if (!job_.IsSync()) {
    LossReport::Cut cut;
    const SnapshotRound* const round = checkpoints_.round();
    if (round != nullptr && round->HasCut(index)) {
      cut = {round->number(), round->cuts().at(index).sequence()};
    }
    checkpoints_.accounts().loss.Ended(index, worker.generation,
                                       worker.acknowledged, cut);
  }
  highest_clock_ = std::max(highest_clock_, worker.clock());
  checkpoints_.OnWorkerGone(index, worker.acknowledged,
                            input_.OnWorkerGone(index, worker));
  if (!worker.last.leaving()) lost_workers_[index] = worker;
  workers_.erase(index);
  configuration_.SetWorkers(workers_);
  configuration_.NextVersion();
}

}  // namespace paramd
