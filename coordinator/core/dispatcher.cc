#include "coordinator/core/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/random.h"
#include "config/consistency.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kSlowStep = absl::Seconds(3);
constexpr absl::Duration kPeriod = absl::Milliseconds(100);

// Of servers that can't be reached, in a sentence.
constexpr size_t kMostNamed = 16;

// "ps-0 generation 1.2 at host:1: refused", "ps-0 to be there: did not answer".
std::string Missing(uint32_t server, const v1::Version& generation,
                    absl::string_view why) {
  const std::string name = ServerName(server, generation);
  const bool is_named =
      absl::ConsumePrefix(&why, ServerName(server, v1::Version()) + " ");
  if (is_named && absl::StartsWith(why, "at ")) {
    return absl::StrCat(name, " ", why);
  }
  return absl::StrCat(name, " to be there", why.empty() ? "" : ": ", why);
}

}  // namespace

Dispatcher::Dispatcher(const CoordinatorOptions& options)
    : options_(options),
      job_{options_, phase_, configuration_.get(), servers_, workers_, *this},
      work_(options.job_digest, options.nonce_seed),
      servers_(options.servers),
      input_(options),
      steps_(options),
      checkpoints_(options),
      schedule_(options.job.checkpoint()),
      fills_(options.fill_bytes),
      summary_writer_(options.job.summary().every_steps()),
      record_(options.job, options.job_digest, options.data) {}

// ---- starting ---------------------------------------------------------------

void Dispatcher::Start(Time now, Outbox* out) {
  Turn turn = Begin(now, out);
  started_ = now;
  starting_since_ = now;
  last_event_ = now;
  next_periodic_ = now + kPeriod;
  turn.StartIo(std::make_unique<v1::ReadLog>(),
               Then(this, &Dispatcher::OnLogRead));
}

// Who only takes its term may take the next one.
void Dispatcher::Completed(IoResult result, Time now, Outbox* out) {
  NoticePause(now);
  const IoHandler handler =
      work_.Ended(&result, phase_ > JobPhase::kTakingTerm, out);
  if (handler == nullptr) return;
  Turn turn = Begin(now, out);
  handler(result, &turn);
  Deliver(&turn);
  Advance(&turn);
}

// ---- facts ------------------------------------------------------------------

void Dispatcher::Deliver(Turn* turn) {
  for (std::vector<Fact> facts = turn->TakeFacts(); !facts.empty();
       facts = turn->TakeFacts()) {
    for (const Fact& fact : facts) {
      std::visit([&](const auto& what) { On(what, turn); }, fact);
    }
  }
}

void Dispatcher::On(const Reached& reached, Turn* turn) {
  if (reached.phase == JobPhase::kDone) AnswerParked(turn);
  phase_ = reached.phase;
  if (phase_ == JobPhase::kTellingEnd) {
    joins_.TellEnd(turn);
    joins_ = Joins();
  }
  if (phase_ == JobPhase::kDone) turn->out->Exit(absl::OkStatus());
}

void Dispatcher::On(const SessionOver& over, Turn* turn) {
  Fence(over.worker, turn);
}

void Dispatcher::On(const WorkerHeard& heard, Turn* turn) {
  workers_.at(heard.worker).heard = turn->now;
}

void Dispatcher::On(const HeardOfEnd& heard, Turn*) {
  ending_.OnHeard(heard.worker);
}

void Dispatcher::On(const FenceIsDue& due, Turn* turn) {
  LogFence(due.worker, turn);
}

void Dispatcher::On(const HoldsUpStep& holds_up, Turn* turn) {
  input_.step_times().RestAll();  // That was no step of the others.
  Fence(holds_up.worker, turn);
}

void Dispatcher::On(const ServerHeard& heard, Turn* turn) {
  servers_[heard.server].heard = turn->now;
}

void Dispatcher::On(const ServerFailed& failed, Turn* turn) {
  OnServerFailed(failed.server, ServerCall::kNone, failed.why, turn);
}

void Dispatcher::On(const InputUsed& used, Turn*) {
  checkpoints_.OnInputUsed(used.worker, used.portions);
}

void Dispatcher::On(const SnapshotToLeaveWith&, Turn* turn) {
  leaving_.OnOpened(OpenSnapshot({.stopped = true}, turn));
}

void Dispatcher::On(const WorkerSilent& silent, Turn* turn) {
  Fence(silent.worker, turn);
}

void Dispatcher::On(const CheckpointFailed& failed, Turn* turn) {
  if (failed.final) ending_.OnSaveFailed(failed.why, turn);
}

void Dispatcher::On(const CheckpointCommitted& committed, Turn* turn) {
  schedule_.StepsSaved();
  for (Server& server : servers_) {
    if (server.draining) server.next_keepalive = turn->now;
  }
  retirement_.Retire(checkpoints_.newest().files.to_retire(), turn);
  if (committed.final) WriteResult(turn);
}

void Dispatcher::OnLogRead(const IoResult& result, Turn* turn) {
  const auto* log =
      DynamicCastToGenerated<v1::ReadLogResult>(result.head.get());
  if (!result.status.ok() || log == nullptr) {
    turn->out->Exit(result.status.ok()
                        ? absl::InternalError("the log has no answer")
                        : result.status);
    return;
  }
  uint64_t term = 0;
  uint64_t next_number = 1;
  std::string run_id = options_.run_id;
  for (const v1::LogEntry& entry : log->entries()) {
    next_number = entry.number() + 1;
    run_id = entry.run_id();
    term =
        std::max({term, entry.term(), entry.configuration().version().term()});
    record_.Read(entry);
    if (entry.has_retired()) retirement_.Read(entry.retired());
    if (entry.has_fence()) {
      v1::Version& newest = logged_fences_[entry.fence().worker()];
      newest = std::max(newest, entry.fence().generation());
    }
    if (entry.configuration().has_consistency() &&
        modes_.Read(entry.configuration())) {
      checkpoints_.accounts().audit.ModeChanged();
    }
  }
  const absl::Status same = record_.Begin(run_id);
  if (!same.ok()) {
    turn->out->Exit(same);
    return;
  }
  work_.LogRead(next_number, run_id, record_.ours());
  configuration_.Begin(term + 1, run_id, options_.job_digest);
  if (record_.finished()) {
    turn->out->Note(absl::StrCat("run ", run_id, " is finished already"));
    phase_ = JobPhase::kTellingEnd;
    ending_.BeginTelling(turn);
    retirement_.DeleteLogged(turn);
    return;
  }
  if (!record_.changes().empty()) {
    turn->out->Note(absl::StrCat(
        "run ", run_id, " goes on with other settings: ", record_.changes()));
  }
  phase_ = JobPhase::kTakingTerm;
  v1::LogEntry entry;
  entry.set_term(term + 1);
  turn->Append(std::move(entry), Then(this, &Dispatcher::OnTermTaken));
}

void Dispatcher::OnTermTaken(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  for (Server& server : servers_) server.next_call = turn->now;
  phase_ = JobPhase::kRecalling;
}

// ---- events -----------------------------------------------------------------

void Dispatcher::Receive(Message message, Time now, Outbox* out) {
  NoticePause(now);
  Turn turn = Begin(now, out);
  Route(message, &turn);
  Deliver(&turn);
  Advance(&turn);
}

void Dispatcher::Route(const Message& message, Turn* turn) {
  if (message.is_reply) {
    const uint32_t index = message.from.index;
    if (message.from.kind == PeerId::Kind::kPs && index < servers_.size()) {
      if (!steps_.OnReply(index, message, turn)) {
        OnServerReply(index, message, turn);
      }
    }
  } else if (const auto* join =
                 DynamicCastToGenerated<v1::JoinRequest>(message.head)) {
    joins_.OnJoin(message, *join, turn);
  } else if (const auto* heartbeat =
                 DynamicCastToGenerated<v1::HeartbeatRequest>(message.head)) {
    OnHeartbeat(message, *heartbeat, turn);
  } else if (const auto* portion =
                 DynamicCastToGenerated<v1::PortionRequest>(message.head)) {
    OnTakePortion(message, *portion, turn);
  } else if (const auto* set =
                 DynamicCastToGenerated<v1::SetRequest>(message.head)) {
    modes_.OnSet(message, *set, Obstacles(waiting_for()), turn);
  } else if (DynamicCastToGenerated<v1::GetConfigurationRequest>(
                 message.head) != nullptr) {
    auto reply = std::make_unique<v1::GetConfigurationReply>();
    *reply->mutable_configuration() = configuration();
    turn->out->Reply(message.call, std::move(reply));
  } else {
    turn->out->Refuse(message.call,
                      Refuse(v1::Refusal::INVALID, "method",
                             "the coordinator does not serve this method"));
  }
}

void Dispatcher::Tick(Time now, Outbox* out) {
  NoticePause(now);
  Turn started = Begin(now, out);
  Turn* const turn = &started;
  next_periodic_ = turn->now + kPeriod;
  const absl::Duration patience =
      absl::Milliseconds(options_.job.start_timeout_ms());
  if (phase_ < JobPhase::kRunning && turn->now - starting_since_ > patience) {
    turn->out->Exit(absl::DeadlineExceededError(
        absl::StrCat("not started within ", absl::FormatDuration(patience),
                     "; waiting for ", waiting_for())));
    return;
  }
  Advance(turn);
}

Time Dispatcher::next_tick() const {
  if (phase_ == JobPhase::kDone) return Time::Never();
  Time next = std::min(next_periodic_, steps_.next_tick(job_));
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    if (servers_[s].call == ServerCall::kNone) {
      next = std::min(next, NextCall(s).at);
    }
  }
  for (const auto& [index, worker] : workers_) {
    if (worker.parked != 0) next = std::min(next, worker.parked_until);
  }
  return next;
}

// ---- for people -------------------------------------------------------------

std::string Dispatcher::ServersAwaited() const {
  if (phase_ >= JobPhase::kTellingEnd) return "";
  std::vector<std::string> missing;
  std::string unfilled;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    const Server& server = servers_[s];
    if (server.suspected) {
      missing.push_back(Missing(s, server.generation, server.why));
    } else if (unfilled.empty() && phase_ >= JobPhase::kFilling &&
               !server.restored) {
      unfilled = absl::StrCat(job_.NameOfServer(s), " to be filled",
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

std::string Dispatcher::waiting_for() const {
  if (phase_ < JobPhase::kRecalling || phase_ == JobPhase::kLoggingLayout) {
    return "the configuration log";
  }
  if (steps_.going_back() && !steps_.MayGoBack(StepObstacles(), job_) &&
      checkpoints_.round() != nullptr) {
    return checkpoints_.waiting_for(job_);
  }
  const std::string servers = ServersAwaited();
  if (!servers.empty()) return servers;
  if (modes_.IsUnderWay()) {
    return absl::StrCat(modes_.waiting_for(job_), ", to change staleness ",
                        modes_.change()->Name());
  }
  if (phase_ == JobPhase::kAdopting) {
    return absl::StrCat(job_.NameOfWorker(input_.holders().awaited()),
                        " to say what it holds of the input");
  }
  if (checkpoints_.round() != nullptr) {
    const std::string whom = checkpoints_.waiting_for(job_);
    if (!whom.empty()) return whom;
  }
  if (phase_ == JobPhase::kRunning && !leaving_.draining() &&
      workers_.size() < options_.workers) {
    for (uint32_t w = 0; w < options_.workers; ++w) {
      if (workers_.contains(w)) continue;
      return absl::StrCat("worker-", w, " to join");
    }
  }
  if (leaving_.draining() && phase_ < JobPhase::kSaving) {
    if (SomebodyLeavesWithASnapshot()) return "a checkpoint to leave with";
    return absl::StrCat(job_.NameOfWorker(0), " and the servers to leave");
  }
  if (job_.IsSync() && phase_ == JobPhase::kRunning) return StepWaitsFor();
  if (phase_ == JobPhase::kEvaluating) {
    return absl::StrCat(job_.NameOfWorker(0), " to evaluate");
  }
  if (phase_ == JobPhase::kSaving && ending_.failures() > 0) {
    return absl::StrCat("the last checkpoint, which is tried again: ",
                        checkpoints_.failure());
  }
  if (phase_ == JobPhase::kTellingEnd)
    return "all processes to hear of the end";
  if (phase_ == JobPhase::kFindingCheckpoint) return "the newest checkpoint";
  return "";
}

std::string Dispatcher::overdue(Time now) const {
  // A step takes its time.
  const bool steps = job_.IsSync() && phase_ == JobPhase::kRunning &&
                     now - steps_.steps().decided_at() < kSlowStep;
  const std::string whom = waiting_for();
  return steps && whom == StepWaitsFor() ? "" : whom;
}

void Dispatcher::FillStatus(v1::StatusReply* status) const {
  *status->mutable_configuration() = configuration().version();
  v1::JobStats* job = status->mutable_job();
  job->set_name(options_.job.name());
  job->set_state(StateForPeople());
  job->set_epochs(options_.job.epochs());
  job->set_epochs_done(job_.IsSync() ? steps_.steps().input().epochs_done()
                                     : input_.portions().epochs_done());
  job->set_global_step(global_step());
  job->set_pushes(global_step() -
                  std::min(global_step(), input_.pushes_before()));
  job->set_servers(options_.servers);
  job->set_workers(options_.workers);
  uint64_t given_up = 0;
  for (const auto& [index, worker] : workers_) {
    given_up += worker.last.stats().given_up();
  }
  job->set_given_up(given_up);
  checkpoints_.FillStatus(job);
  if (evaluations_.newest().examples() > 0) {
    *job->mutable_evaluation() = evaluations_.newest();
  }
  job->set_waiting_for(waiting_for());
  job->set_staleness(StalenessText(configuration().consistency()));
  FillServers(job);
  FillWorkers(job);
}

}  // namespace paramd
