// The coordinator's dealings with workers: joining, heartbeats, input, fences.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "coordinator/core/coordinator.h"
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
                       const Coordinator::Options& options) {
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

bool Coordinator::IsLive(const Worker& worker, Time now) const {
  return !worker.fencing && now - worker.heard <= lease();
}

// Ticks come every 100 ms: where none came for long, this process itself stood
// still (stopped, or the machine asleep), and the silence is not the workers'.
void Coordinator::NoticePause(Time now) {
  const absl::Duration pause = now - std::exchange(last_event_, now);
  if (pause < std::max(lease() / 2, kLongestTurn)) return;
  for (auto& [index, worker] : workers_) worker.heard = worker.heard + pause;
  for (auto& [index, joining] : joining_) joining.since = joining.since + pause;
  step_times_.RestAll();
  step_kept_ = now;
  if (snapshot_.has_value()) snapshot_->Pause(pause);
}

void Coordinator::OnJoin(const Message& message, const v1::JoinRequest& request,
                         Time now, Outbox* out) {
  const uint32_t index = request.task().index();
  const auto refuse = [&](v1::Refusal::Reason reason,
                          const std::string& sentence) {
    out->Refuse(message.call,
                Refuse(reason, absl::StrCat("worker-", index), sentence));
  };
  const absl::Status ours = CheckJoin(message.from, request, options_);
  if (!ours.ok()) {
    out->Refuse(message.call, ours);
    return;
  }
  if (phase_ >= Phase::kTellingEnd) {
    refuse(v1::Refusal::JOB_FINISHED, "the job is finished");
    yet_to_hear_.erase(index);
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
    worker->second.heard = now;
  }
  Joining& joining = joining_[index];
  if (joining.call != 0) {
    // The same process asks again, or a second one: one call is kept.
    out->Refuse(joining.call,
                RefuseForNow(v1::Refusal::NOT_READY, "",
                             absl::Milliseconds(100), "asked again meanwhile"));
  }
  if (joining.request.incarnation() != request.incarnation()) {
    joining.since = now;
  }
  joining.call = message.call;
  joining.request = request;
  joining.answer_until = now + kJoinPatience;
}

void Coordinator::RefuseLateJoins(Time now, Outbox* out) {
  for (auto& [index, joining] : joining_) {
    if (joining.call == 0 || now < joining.answer_until) continue;
    std::string whom = waiting_for();
    const auto worker = workers_.find(index);
    if (worker != workers_.end() &&
        worker->second.incarnation != joining.request.incarnation()) {
      whom = absl::StrCat("the lease of the process ", worker->second.pid,
                          " on ", worker->second.host, " that was ",
                          NameOfWorker(index), " before");
    }
    out->Refuse(joining.call, RefuseForNow(v1::Refusal::NOT_READY, whom,
                                           absl::Milliseconds(50),
                                           absl::StrCat("waiting for ", whom)));
    joining.call = 0;
  }
}

void Coordinator::AdmitJoining(Time now, Outbox* out) {
  // While servers seal nobody is admitted: it has no cut. Before, that of a
  // worker that comes is waited for as everybody's. Who was admitted before is
  // always answered: it may not know.
  const bool sealing = snapshot_.has_value() && snapshot_->is_open() &&
                       (snapshot_->phase() == SnapshotRound::Phase::kSealing ||
                        IsSync());
  const bool held =
      sealing || draining_ || IsChangingMode() ||
      phase_ == Phase::kAdopting ||
      (IsSync() && (!steps_.settled() || rewinding_));
  std::vector<uint32_t> answered;
  bool changed = false;
  for (auto& [index, joining] : joining_) {
    const auto worker = workers_.find(index);
    if (worker == workers_.end()) {
      if (held || joining.call == 0) continue;  // It has to ask again.
      Admit(index, joining.request, now);
      changed = true;
    } else if (worker->second.fencing) {
      continue;  // Its successor gets a generation of its own.
    } else if (worker->second.incarnation == joining.request.incarnation() &&
               worker->second.left_sessions < joining.request.left_sessions()) {
      // The process says that it has left that session, whatever told it to.
      Fence(index, now, out);
    } else if (worker->second.incarnation == joining.request.incarnation()) {
      if (joining.call != 0 && EveryServerHas(worker->second.admitted)) {
        answered.push_back(index);
      }
    } else if (joining.request.replaces() == worker->second.incarnation) {
      // Whoever started this one saw the first one end.
      Fence(index, now, out);
    } else if (worker->second.heard > joining.since + 2 * heartbeat()) {
      // Not by what was still under way when it died.
      const Worker& first = worker->second;
      if (joining.call != 0) {
        out->Refuse(
            joining.call,
            Refuse(v1::Refusal::TASK_TAKEN, absl::StrCat("worker-", index),
                   absl::StrCat("worker-", index, " is process ", first.pid,
                                " on ", first.host,
                                ", which is alive: give this one another "
                                "index, or stop that one")));
      }
      joining.call = 0;
      joining.since = now;
    } else if (!IsLive(worker->second, now)) {
      Fence(index, now, out);
    }
  }
  if (changed) {
    NextVersion();
    SetWorkerMembers();
    for (auto& [index, worker] : workers_) {
      if (IsZero(worker.admitted)) worker.admitted = configuration_.version();
    }
  }
  for (const uint32_t index : answered) AnswerJoin(index, out);
}

void Coordinator::Admit(uint32_t index, const v1::JoinRequest& request,
                        Time now) {
  Worker worker;
  worker.incarnation = request.incarnation();
  worker.left_sessions = request.left_sessions();
  worker.generation.set_term(configuration_.version().term());
  worker.generation.set_counter(++generation_counter_);
  worker.host = request.host();
  worker.pid = request.pid();
  worker.heard = now;
  worker.start_clock = StartClock(now);
  workers_[index] = std::move(worker);
  lost_workers_.erase(index);
}

void Coordinator::SetWorkerMembers() {
  configuration_.clear_workers();
  for (const auto& [index, worker] : workers_) {
    v1::WorkerMember* member = configuration_.add_workers();
    member->set_index(index);
    *member->mutable_generation() = worker.generation;
    member->set_incarnation(worker.incarnation);
    member->set_start_clock(worker.start_clock);
    member->set_host(worker.host);
    member->set_pid(worker.pid);
    member->set_left_sessions(worker.left_sessions);
  }
}

void Coordinator::AnswerJoin(uint32_t index, Outbox* out) {
  const Worker& worker = workers_[index];
  auto reply = std::make_unique<v1::JoinReply>();
  *reply->mutable_generation() = worker.generation;
  *reply->mutable_configuration() = configuration_;
  reply->set_start_clock(worker.start_clock);
  out->Reply(joining_[index].call, std::move(reply));
  out->Note(absl::StrCat("worker-", index, " joined as generation ",
                         VersionName(worker.generation)),
            {{"worker", index},
             {"generation", VersionName(worker.generation)}});
  joining_.erase(index);
}

Coordinator::Worker* Coordinator::FindSession(const Message& message,
                                              const v1::Header& header,
                                              Time now, Outbox* out) {
  const auto worker = workers_.find(header.worker());
  const std::string name = absl::StrCat("worker-", header.worker());
  if (message.from != PeerId::Worker(header.worker())) {
    out->Refuse(message.call,
                Refuse(v1::Refusal::NOT_ALLOWED, name,
                       absl::StrCat(PeerName(message.from),
                                    " speaks in the name of ", name)));
    return nullptr;
  }
  if (phase_ < Phase::kFilling) {
    // Which sessions go on is not known yet.
    out->Refuse(message.call,
                RefuseForNow(v1::Refusal::NOT_READY, waiting_for(), heartbeat(),
                             absl::StrCat("a coordinator that has just begun "
                                          "waits for ", waiting_for())));
    return nullptr;
  }
  const bool is_session = worker != workers_.end() &&
                          worker->second.generation == header.generation();
  if (is_session && header.incarnation() != 0 &&
      header.incarnation() != worker->second.incarnation) {
    // Two runs count their generations alike.
    out->Refuse(
        message.call,
        Refuse(v1::Refusal::OTHER_JOB, "session",
               absl::StrCat(WorkerName(header.worker(), header.generation()),
                            " is process ", worker->second.pid, " on ",
                            worker->second.host, " in run ", run_id_,
                            ", which answers here; who calls is of another "
                            "run")));
    return nullptr;
  }
  if (is_session && !worker->second.fencing) {
    worker->second.heard = now;
    return &worker->second;
  }
  if (worker != workers_.end() &&
      header.generation() < worker->second.generation) {
    out->Refuse(
        message.call,
        Refuse(v1::Refusal::FENCED, name,
               absl::StrCat(name, " was replaced by process ",
                            worker->second.pid, " on ", worker->second.host)));
  } else {
    out->Refuse(message.call,
                Refuse(phase_ >= Phase::kTellingEnd ? v1::Refusal::JOB_FINISHED
                                                    : v1::Refusal::NOT_READY,
                       "session",
                       absl::StrCat(name, " has no session here: join again")));
    if (phase_ >= Phase::kTellingEnd) yet_to_hear_.erase(header.worker());
  }
  return nullptr;
}

void Coordinator::OnHeartbeat(const Message& message,
                              const v1::HeartbeatRequest& request, Time now,
                              Outbox* out) {
  Worker* worker = FindSession(message, request.header(), now, out);
  if (worker == nullptr) return;
  if (request.number() <= worker->last.number()) {
    out->Refuse(message.call,
                Refuse(v1::Refusal::SUPERSEDED, "heartbeat",
                       "a later heartbeat of this session is known"));
    return;
  }
  if (AskWhatItHolds(message, request, out)) return;
  if (worker->parked != 0) AnswerHeartbeat(worker, out);
  worker->last = request;
  worker->acknowledged =
      std::max(worker->acknowledged, request.header().sequence());
  worker->parked = message.call;
  worker->parked_until = now + heartbeat();
  const uint32_t index = request.header().worker();
  request.no_input() ? step_times_.Rest(index)
                     : step_times_.Count(index, worker->acknowledged, now);
  if (snapshot_.has_value()) snapshot_->Cut(index, request.cut());
  if (change_.has_value()) change_->Heard(request);
  summaries_.training().Told(
      index, worker->generation,
      worker->generation.term() < configuration_.version().term(),
      request.stats());
  const v1::Evaluation& evaluation = request.evaluation();
  if (index == 0 && evaluation.examples() > 0 &&
      (evaluation.epoch() > epochs_evaluated_ || evaluation.final())) {
    evaluation_ = evaluation;
    metrics_.Evaluated(evaluation, global_step());
    summaries_.Evaluated(evaluation);
    epochs_evaluated_ = evaluation.epoch();
  }
  // What it holds is not leased to it before.
  if (request.leaving() && phase_ >= Phase::kRunning) Fence(index, now, out);
}

// With the next one it tells. Until then it has no configuration of this term,
// and servers take nothing of it.
bool Coordinator::AskWhatItHolds(const Message& message,
                                 const v1::HeartbeatRequest& request,
                                 Outbox* out) {
  const uint32_t index = request.header().worker();
  if (!holders_.IsAwaited(index)) return false;
  const uint64_t term = configuration_.version().term();
  if (request.has_held() && request.held().term() == term) {
    holders_.Told(index, request.held());
    workers_.at(index).portion_number = request.held().answered();
    const std::string generation =
        VersionName(request.header().generation());
    out->Note(
        absl::StrCat("worker-", index, " goes on as generation ", generation),
        {{"worker", index}, {"generation", generation}});
    return false;
  }
  auto reply = std::make_unique<v1::HeartbeatReply>();
  reply->set_term(term);
  reply->set_tell_held(true);
  reply->set_state(configuration_.state());
  out->Reply(message.call, std::move(reply));
  return true;
}

uint32_t Coordinator::EpochToEvaluate() const {
  const uint32_t every = options_.job.evaluate_every_epochs();
  if (phase_ != Phase::kRunning || every == 0) return 0;
  const uint32_t done = EpochsFinished();
  if (done >= options_.job.epochs()) return 0;  // The final one covers it.
  const uint32_t newest = done / every * every;
  return newest > epochs_evaluated_ ? newest : 0;
}

// In sync mode it is enough to decide no step meanwhile.
bool Coordinator::TellsSnapshot() const {
  return snapshot_.has_value() && snapshot_->is_open() && !IsSync();
}

bool Coordinator::StopsWorkers() const {
  return (TellsSnapshot() && snapshot_->stopped()) ||
         (change_.has_value() && change_->stops_workers());
}

uint64_t Coordinator::LeftOutStep(const Worker& worker) const {
  return IsSync() ? steps_.LeftOutStep(worker.last.header().worker()) : 0;
}

v1::HeartbeatReply Coordinator::NewsFor(const Worker& worker) const {
  v1::HeartbeatReply reply;
  if (configuration_.version() > worker.last.header().configuration()) {
    *reply.mutable_configuration() = configuration_;
  }
  reply.set_term(configuration_.version().term());
  reply.set_state(configuration_.state());
  if (TellsSnapshot()) *reply.mutable_snapshot() = snapshot_->number();
  reply.set_stop(StopsWorkers());
  reply.set_left_out_step(LeftOutStep(worker));
  if (worker.last.header().worker() == 0) {
    reply.set_evaluate_epoch(EpochToEvaluate());
    reply.set_evaluate_final(phase_ == Phase::kEvaluating);
  }
  return reply;
}

bool Coordinator::HasNews(const Worker& worker) const {
  const v1::HeartbeatRequest& known = worker.last;
  const bool chief = known.header().worker() == 0;
  const v1::Version snapshot =
      TellsSnapshot() ? snapshot_->number() : v1::Version();
  return configuration_.version() > known.header().configuration() ||
         configuration_.state() != known.state() ||
         snapshot != known.snapshot() || StopsWorkers() != known.stop() ||
         LeftOutStep(worker) != known.left_out_step() ||
         (chief && EpochToEvaluate() != known.evaluate_epoch()) ||
         (chief && (phase_ == Phase::kEvaluating) != known.evaluate_final());
}

void Coordinator::AnswerHeartbeat(Worker* worker, Outbox* out) {
  out->Reply(worker->parked,
             std::make_unique<v1::HeartbeatReply>(NewsFor(*worker)));
  worker->parked = 0;
}

void Coordinator::AnswerParked(Time now, Outbox* out) {
  for (auto& [index, worker] : workers_) {
    if (worker.parked == 0) continue;
    // One that acknowledges the end has nothing more to wait for.
    if (now >= worker.parked_until || HasNews(worker) ||
        worker.last.state() == v1::FINISHED) {
      AnswerHeartbeat(&worker, out);
    }
  }
  RefuseLateJoins(now, out);
}

// What it has used since could not be told from what it had used before.
bool Coordinator::IsBehindUnknownCut(const v1::Header& header) const {
  return TellsSnapshot() && header.snapshot() == snapshot_->number() &&
         !snapshot_->HasCut(header.worker());
}

void Coordinator::OnTakePortion(const Message& message,
                                const v1::PortionRequest& request, Time now,
                                Outbox* out) {
  Worker* worker = FindSession(message, request.header(), now, out);
  if (worker == nullptr) return;
  if (phase_ < Phase::kRunning) {
    out->Refuse(message.call,
                RefuseForNow(v1::Refusal::RETRY, waiting_for(), heartbeat(),
                             absl::StrCat("no input is handed out yet: waiting "
                                          "for ", waiting_for())));
    return;
  }
  if (request.number() < worker->portion_number) {
    out->Refuse(message.call,
                Refuse(v1::Refusal::SUPERSEDED, "portion",
                       "a later portion request of this session is known"));
    return;
  }
  // A worker numbers its next one when it has the answer.
  if (request.number() > worker->portion_number + 1) {
    out->Refuse(
        message.call,
        Refuse(v1::Refusal::INVALID, "portion",
               absl::StrCat("portion request ", request.number(), " of worker-",
                            request.header().worker(), " does not follow ",
                            worker->portion_number)));
    return;
  }
  if (IsBehindUnknownCut(request.header())) {
    out->Refuse(
        message.call,
        RefuseForNow(
            v1::Refusal::RETRY, "portion", heartbeat(),
            absl::StrCat("the cut of worker-", request.header().worker(),
                         " for snapshot ", VersionName(snapshot_->number()),
                         " is not known yet")));
    return;
  }
  // One that is asked again may know of more pushes.
  worker->acknowledged =
      std::max(worker->acknowledged, request.header().sequence());
  if (request.number() > worker->portion_number) {
    const uint32_t index = request.header().worker();
    worker->portion_number = request.number();
    const auto used = portions_.Finish(index, request.finished_id());
    if (snapshot_.has_value()) snapshot_->Used(index, used);
    worker->portion_reply.Clear();
    if (auto portion = portions_.Take(index)) {
      *worker->portion_reply.mutable_portion() = *std::move(portion);
    }
    worker->portion_reply.set_no_more(portions_.finished());
  }
  auto reply = std::make_unique<v1::PortionReply>(worker->portion_reply);
  reply->set_term(configuration_.version().term());
  out->Reply(message.call, std::move(reply));
}

void Coordinator::Fence(uint32_t index, Time /*now*/, Outbox* out) {
  Worker& worker = workers_[index];
  if (worker.fencing) return;
  worker.fencing = true;
  out->Note(absl::StrCat("worker-", index, " (process ", worker.pid, " on ",
                         worker.host, ") is gone after ", worker.acknowledged,
                         " pushes; what it had left of its input is handed "
                         "out again"),
            {{"worker", index},
             {"pid", worker.pid},
             {"host", worker.host},
             {"pushes", worker.acknowledged}});
  // In sync mode it waits until no step is half applied; where all sessions are
  // about to end, so does this one.
  if (!IsSync() && !IsLoggingEndOfSessions()) LogFence(index, out);
}

void Coordinator::LogFence(uint32_t index, Outbox* out) {
  Worker& worker = workers_[index];
  worker.fence_logged = true;
  v1::LogEntry entry;
  entry.mutable_fence()->set_worker(index);
  *entry.mutable_fence()->mutable_generation() = worker.generation;
  fences_[next_io_] = index;
  Append(std::move(entry), &Coordinator::OnFenced, out);
}

void Coordinator::OnFenced(const IoResult& result, Time /*now*/, Outbox* out) {
  const auto fence = fences_.find(result.io);
  const uint32_t index = fence->second;
  fences_.erase(fence);
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  Worker& worker = workers_[index];
  if (worker.parked != 0) {
    out->Refuse(
        worker.parked,
        worker.last.leaving()
            ? Refuse(v1::Refusal::FENCED, absl::StrCat("worker-", index),
                     absl::StrCat("worker-", index, " has left"))
            : Refuse(v1::Refusal::NOT_READY, "session",
                     absl::StrCat("worker-", index,
                                  " has no session any more: join again")));
  }
  step_before_ += worker.acknowledged;
  // In sync mode what a server loses is computed again.
  if (!IsSync()) {
    LossReport::Cut cut;
    if (snapshot_.has_value() && snapshot_->HasCut(index)) {
      cut = {snapshot_->number(), snapshot_->cuts().at(index).sequence()};
    }
    loss_.Ended(index, worker.generation, worker.acknowledged, cut);
  }
  highest_clock_ = std::max(highest_clock_, worker.clock());
  step_times_.Rest(index);
  const v1::WorkerCut* const cut =
      worker.last.leaving() ? &worker.last.cut() : nullptr;
  holders_.Gone(index, cut);
  const auto used = portions_.Return(index, cut);
  if (snapshot_.has_value()) {
    snapshot_->Used(index, used);
    snapshot_->Gone(index, worker.acknowledged);
  }
  if (!worker.last.leaving()) lost_workers_[index] = worker;
  workers_.erase(index);
  SetWorkerMembers();
  NextVersion();
}

}  // namespace paramd
