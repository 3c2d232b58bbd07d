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

// A parked join is answered after this at the latest, below the caller's own
// deadline; it then asks again.
constexpr absl::Duration kJoinPatience = absl::Seconds(2);
constexpr absl::Duration kLongestTurn = absl::Milliseconds(500);

// Whether somebody of this job asks, and for itself.
absl::Status CheckJoin(PeerId from, const v1::JoinRequest& request,
                       const CoordinatorOptions& options) {
  const uint32_t index = request.task().index();
  const std::string name = absl::StrCat("worker-", index);
  if (request.task().type() != v1::WORKER || index >= options.workers) {
    return Refuse(v1::Refusal::INVALID, name,
                  absl::StrCat(name, " is not one of the ", options.workers,
                               " workers of this job"));
  }
  if (from != PeerId::Worker(index)) {
    return Refuse(v1::Refusal::NOT_ALLOWED, name,
                  absl::StrCat(PeerName(from), " joins in the name of ", name));
  }
  if (request.job_digest() != options.job_digest) {
    return Refuse(
        v1::Refusal::OTHER_JOB, name,
        absl::StrCat(name, " has job-wide settings with digest ",
                     request.job_digest(), ", the chief ", options.job_digest,
                     ": give both the same job file"));
  }
  const std::string difference = DataDifference(request.data(), options.data);
  if (!difference.empty()) {
    return Refuse(
        v1::Refusal::OTHER_JOB, name,
        absl::StrCat(name, " on ", request.host(),
                     " has read other training data, in '",
                     request.data().directory(), "', than the chief on ",
                     options.data.host(), ", in '", options.data.directory(),
                     "': ", difference, ": give both the same data"));
  }
  return absl::OkStatus();
}

}  // namespace

// Ticks come every 100 ms: where none came for long, this process itself stood
// still (stopped, or the machine asleep), and the silence is not the workers'.
void Dispatcher::NoticePause(Time now) {
  const absl::Duration pause = now - std::exchange(last_event_, now);
  if (pause < std::max(job_.lease() / 2, kLongestTurn)) return;
  for (auto& [index, worker] : workers_) worker.heard = worker.heard + pause;
  for (auto& [index, joining] : joining_) joining.since = joining.since + pause;
  input_.step_times().RestAll();
  steps_.OnPause(now);
  checkpoints_.OnPause(pause);
}

void Dispatcher::OnJoin(const Message& message, const v1::JoinRequest& request,
                        Turn* turn) {
  const uint32_t index = request.task().index();
  const auto refuse = [&](v1::Refusal::Reason reason,
                          const std::string& sentence) {
    turn->out->Refuse(message.call,
                      Refuse(reason, absl::StrCat("worker-", index), sentence));
  };
  const absl::Status ours = CheckJoin(message.from, request, options_);
  if (!ours.ok()) {
    turn->out->Refuse(message.call, ours);
    return;
  }
  if (phase_ >= JobPhase::kTellingEnd) {
    refuse(v1::Refusal::JOB_FINISHED, "the job is finished");
    ending_.OnHeard(index);
    return;
  }
  const auto worker = workers_.find(index);
  const bool is_present = worker != workers_.end() &&
                          worker->second.incarnation == request.incarnation();
  const auto known = joining_.find(index);
  const bool is_known =
      known != joining_.end() &&
      known->second.request.incarnation() == request.incarnation();
  const uint64_t left =
      std::max(is_present ? worker->second.left_sessions : 0,
               is_known ? known->second.request.left_sessions() : 0);
  if (request.left_sessions() < left) {
    refuse(v1::Refusal::SUPERSEDED, "a later join of this process is known");
    return;
  }
  if (is_present && worker->second.left_sessions == left) {
    worker->second.heard = turn->now;
  }
  Joining& joining = joining_[index];
  if (joining.call != 0) {
    // The same process asks again, or a second one: one call is kept.
    turn->out->Refuse(joining.call, RefuseForNow(v1::Refusal::NOT_READY, "",
                                                 absl::Milliseconds(100),
                                                 "asked again meanwhile"));
  }
  if (joining.request.incarnation() != request.incarnation()) {
    joining.since = turn->now;
  }
  joining.call = message.call;
  joining.request = request;
  joining.answer_until = turn->now + kJoinPatience;
}

void Dispatcher::RefuseLateJoins(Turn* turn) {
  for (auto& [index, joining] : joining_) {
    if (joining.call == 0 || turn->now < joining.answer_until) continue;
    std::string whom = waiting_for();
    const auto worker = workers_.find(index);
    if (worker != workers_.end() &&
        worker->second.incarnation != joining.request.incarnation()) {
      whom = absl::StrCat("the lease of the process ", worker->second.pid,
                          " on ", worker->second.host, " that was ",
                          job_.NameOfWorker(index), " before");
    }
    turn->out->Refuse(
        joining.call,
        RefuseForNow(v1::Refusal::NOT_READY, whom, absl::Milliseconds(50),
                     absl::StrCat("waiting for ", whom)));
    joining.call = 0;
  }
}

void Dispatcher::AdmitJoining(Turn* turn) {
  // While servers seal nobody is admitted: it has no cut. Before, that of a
  // worker that comes is waited for as everybody's. Who was admitted before is
  // always answered: it may not know.
  const bool sealing =
      checkpoints_.round() != nullptr && checkpoints_.round()->is_open() &&
      (checkpoints_.round()->phase() == SnapshotRound::Phase::kSealing ||
       job_.IsSync());
  const bool held = sealing || leaving_.draining() || modes_.IsUnderWay() ||
                    phase_ == JobPhase::kAdopting ||
                    (job_.IsSync() && !IsBetweenSteps());
  std::vector<uint32_t> answered;
  bool changed = false;
  for (auto& [index, joining] : joining_) {
    const auto worker = workers_.find(index);
    if (worker == workers_.end()) {
      if (held || joining.call == 0) continue;  // It has to ask again.
      Admit(index, joining.request, turn->now);
      changed = true;
    } else if (worker->second.fencing) {
      continue;  // Its successor gets a generation of its own.
    } else if (worker->second.incarnation == joining.request.incarnation() &&
               worker->second.left_sessions < joining.request.left_sessions()) {
      // The process says that it has left that session, whatever told it to.
      Fence(index, turn);
    } else if (worker->second.incarnation == joining.request.incarnation()) {
      if (joining.call != 0 && job_.EveryServerHas(worker->second.admitted)) {
        answered.push_back(index);
      }
    } else if (joining.request.replaces() == worker->second.incarnation) {
      // Whoever started this one saw the first one end.
      Fence(index, turn);
    } else if (worker->second.heard > joining.since + 2 * job_.heartbeat()) {
      // Not by what was still under way when it died.
      const Worker& first = worker->second;
      if (joining.call != 0) {
        turn->out->Refuse(
            joining.call,
            Refuse(v1::Refusal::TASK_TAKEN, absl::StrCat("worker-", index),
                   absl::StrCat("worker-", index, " is process ", first.pid,
                                " on ", first.host,
                                ", which is alive: give this one another "
                                "index, or stop that one")));
      }
      joining.call = 0;
      joining.since = turn->now;
    } else if (!job_.IsLive(worker->second, turn->now)) {
      Fence(index, turn);
    }
  }
  if (changed) {
    configuration_.NextVersion();
    configuration_.SetWorkers(workers_);
    for (auto& [index, worker] : workers_) {
      if (IsZero(worker.admitted)) worker.admitted = configuration().version();
    }
  }
  for (const uint32_t index : answered) AnswerJoin(index, turn);
}

void Dispatcher::Admit(uint32_t index, const v1::JoinRequest& request,
                       Time now) {
  Worker worker;
  worker.incarnation = request.incarnation();
  worker.left_sessions = request.left_sessions();
  worker.generation = configuration_.NewGeneration();
  worker.host = request.host();
  worker.pid = request.pid();
  worker.heard = now;
  worker.start_clock = StartClock(now);
  workers_[index] = std::move(worker);
  lost_workers_.erase(index);
}

void Dispatcher::AnswerJoin(uint32_t index, Turn* turn) {
  const Worker& worker = workers_[index];
  auto reply = std::make_unique<v1::JoinReply>();
  *reply->mutable_generation() = worker.generation;
  *reply->mutable_configuration() = configuration();
  reply->set_start_clock(worker.start_clock);
  turn->out->Reply(joining_[index].call, std::move(reply));
  turn->out->Note(
      absl::StrCat("worker-", index, " joined as generation ",
                   VersionName(worker.generation)),
      {{"worker", index}, {"generation", VersionName(worker.generation)}});
  joining_.erase(index);
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
  RefuseLateJoins(turn);
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
