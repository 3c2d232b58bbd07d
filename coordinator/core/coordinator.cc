#include "coordinator/core/coordinator.h"

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

SyncSteps::Options SyncOptions(const Coordinator::Options& options) {
  SyncSteps::Options sync;
  sync.servers = options.servers;
  sync.examples = options.examples;
  sync.epochs = options.job.epochs();
  sync.batch = uint64_t{options.job.batch_per_replica()} *
               std::max(uint64_t{options.job.accumulate()}, uint64_t{1});
  sync.backup_workers = options.job.backup_workers();
  return sync;
}

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

Coordinator::Coordinator(const Options& options)
    : options_(options),
      servers_(options.servers),
      portions_(options.examples, options.job.epochs(),
                uint64_t{options.job.batch_per_replica()} *
                    options.job.portion_batches()),
      steps_(SyncOptions(options)),
      contributors_awaited_(options.workers),
      bases_(options.job.checkpoint().incremental()),
      relay_(options.window_bytes),
      fills_(options.fill_bytes),
      summaries_(options.job.summary().every_steps()),
      run_id_(options.run_id),
      record_(options.job, options.job_digest, options.data) {}

absl::Duration Coordinator::lease() const {
  return absl::Milliseconds(options_.job.lease_ms());
}

absl::Duration Coordinator::heartbeat() const {
  return absl::Milliseconds(options_.job.heartbeat_ms());
}

// ---- starting ---------------------------------------------------------------

void Coordinator::Start(Time now, Outbox* out) {
  started_ = now;
  starting_since_ = now;
  last_event_ = now;
  next_periodic_ = now + kPeriod;
  StartIo(std::make_unique<v1::ReadLog>(), &Coordinator::OnLogRead, out);
}

void Coordinator::StartIo(Outbox::Head head, IoHandler handler, Outbox* out,
                          BufferChain payload) {
  ios_[next_io_] = handler;
  out->StartIo(next_io_++, std::move(head), std::move(payload));
}

void Coordinator::Append(v1::LogEntry entry, IoHandler handler, Outbox* out) {
  entry.set_number(next_log_number_++);
  entry.set_nonce(CounterRandom(options_.nonce_seed).Bits(entry.number()));
  entry.set_run_id(run_id_);
  entry.set_job_digest(options_.job_digest);
  if (entry.kind_case() == v1::LogEntry::kTerm || entry.has_configuration()) {
    *entry.mutable_job() = record_.ours();
  }
  ios_[next_io_] = handler;
  appends_.emplace_back(next_io_++, std::move(entry));
  if (appends_.size() == 1) AppendNext(out);
}

void Coordinator::AppendNext(Outbox* out) {
  auto append = std::make_unique<v1::AppendLog>();
  *append->mutable_entry() = appends_.front().second;
  out->StartIo(appends_.front().first, std::move(append));
}

void Coordinator::Completed(IoResult result, Time now, Outbox* out) {
  NoticePause(now);
  const auto io = ios_.find(result.io);
  if (io == ios_.end()) return;
  const IoHandler handler = io->second;
  ios_.erase(io);
  if (!appends_.empty() && appends_.front().first == result.io) {
    appends_.pop_front();
    // Who only takes its term may take the next one.
    if (absl::IsAborted(result.status) && phase_ > Phase::kTakingTerm) {
      result.status = TermLost(result.status.message());
    }
    if (!appends_.empty() && result.status.ok()) AppendNext(out);
  }
  (this->*handler)(result, now, out);
  Advance(now, out);
}

// No code for which a supervisor would start this process again: two that both
// come back would end each other for ever.
absl::Status Coordinator::TermLost(absl::string_view how) {
  return absl::AlreadyExistsError(
      absl::StrCat("another chief has taken over this run, and nothing counts "
                   "that this one still does: ", how));
}

void Coordinator::OnLogRead(const IoResult& result, Time now, Outbox* out) {
  const auto* log =
      DynamicCastToGenerated<v1::ReadLogResult>(result.head.get());
  if (!result.status.ok() || log == nullptr) {
    out->Exit(result.status.ok() ? absl::InternalError("the log has no answer")
                                 : result.status);
    return;
  }
  uint64_t term = 0;
  for (const v1::LogEntry& entry : log->entries()) {
    next_log_number_ = entry.number() + 1;
    run_id_ = entry.run_id();
    term =
        std::max({term, entry.term(), entry.configuration().version().term()});
    record_.Read(entry);
    if (entry.has_retired()) retired_.Read(entry.retired());
    if (entry.has_fence()) {
      v1::Version& newest = logged_fences_[entry.fence().worker()];
      newest = std::max(newest, entry.fence().generation());
    }
    if (entry.configuration().has_consistency()) {
      NoteLoggedMode(entry.configuration());
    }
  }
  const absl::Status same = record_.Begin(run_id_);
  if (!same.ok()) {
    out->Exit(same);
    return;
  }
  configuration_.mutable_version()->set_term(term + 1);
  configuration_.set_run_id(run_id_);
  configuration_.set_job_digest(options_.job_digest);
  if (record_.finished()) {
    out->Note(absl::StrCat("run ", run_id_, " is finished already"));
    phase_ = Phase::kTellingEnd;
    for (uint32_t w = 0; w < options_.workers; ++w) yet_to_hear_.insert(w);
    end_deadline_ = now + absl::Milliseconds(options_.job.finish_timeout_ms());
    if (!retired_.logged().empty()) DeleteCheckpoints(retired_.logged(), out);
    return;
  }
  if (!record_.changes().empty()) {
    out->Note(absl::StrCat("run ", run_id_, " goes on with other settings: ",
                           record_.changes()));
  }
  phase_ = Phase::kTakingTerm;
  v1::LogEntry entry;
  entry.set_term(term + 1);
  Append(std::move(entry), &Coordinator::OnTermTaken, out);
}

void Coordinator::OnTermTaken(const IoResult& result, Time now, Outbox* out) {
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  for (Server& server : servers_) server.next_call = now;
  phase_ = Phase::kRecalling;
}

void Coordinator::NextVersion() {
  v1::Version* version = configuration_.mutable_version();
  version->set_counter(version->counter() + 1);
}

void Coordinator::ChangeState(v1::JobState state) {
  configuration_.set_state(state);
  NextVersion();
}

// ---- events -----------------------------------------------------------------

void Coordinator::Receive(Message message, Time now, Outbox* out) {
  NoticePause(now);
  if (message.is_reply) {
    const uint32_t index = message.from.index;
    if (message.from.kind == PeerId::Kind::kPs && index < servers_.size()) {
      servers_[index].decide_id == message.call
          ? OnDecideReply(index, message, now, out)
          : OnServerReply(index, message, now, out);
    }
  } else if (const auto* join =
                 DynamicCastToGenerated<v1::JoinRequest>(message.head)) {
    OnJoin(message, *join, now, out);
  } else if (const auto* heartbeat =
                 DynamicCastToGenerated<v1::HeartbeatRequest>(message.head)) {
    OnHeartbeat(message, *heartbeat, now, out);
  } else if (const auto* portion =
                 DynamicCastToGenerated<v1::PortionRequest>(message.head)) {
    OnTakePortion(message, *portion, now, out);
  } else if (const auto* set =
                 DynamicCastToGenerated<v1::SetRequest>(message.head)) {
    OnSet(message, *set, out);
  } else if (DynamicCastToGenerated<v1::GetConfigurationRequest>(
                 message.head) != nullptr) {
    auto reply = std::make_unique<v1::GetConfigurationReply>();
    *reply->mutable_configuration() = configuration_;
    out->Reply(message.call, std::move(reply));
  } else {
    out->Refuse(message.call,
                Refuse(v1::Refusal::INVALID, "method",
                       "the coordinator does not serve this method"));
  }
  Advance(now, out);
}

void Coordinator::Tick(Time now, Outbox* out) {
  NoticePause(now);
  next_periodic_ = now + kPeriod;
  const absl::Duration patience =
      absl::Milliseconds(options_.job.start_timeout_ms());
  if (phase_ < Phase::kRunning && now - starting_since_ > patience) {
    out->Exit(absl::DeadlineExceededError(
        absl::StrCat("not started within ", absl::FormatDuration(patience),
                     "; waiting for ", waiting_for())));
    return;
  }
  Advance(now, out);
}

Time Coordinator::next_tick() const {
  if (phase_ == Phase::kDone) return Time::Never();
  Time next = next_periodic_;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    if (servers_[s].call == ServerCall::kNone) {
      next = std::min(next, NextCall(s).at);
    }
    if (MayDecide(s)) next = std::min(next, servers_[s].next_decide);
  }
  for (const auto& [index, worker] : workers_) {
    if (worker.parked != 0) next = std::min(next, worker.parked_until);
  }
  return next;
}

// ---- for people -------------------------------------------------------------

std::string Coordinator::ServersAwaited() const {
  if (phase_ >= Phase::kTellingEnd) return "";
  std::vector<std::string> missing;
  std::string unfilled;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    const Server& server = servers_[s];
    if (server.suspected) {
      missing.push_back(Missing(s, server.generation, server.why));
    } else if (unfilled.empty() && phase_ >= Phase::kFilling &&
               !server.restored) {
      unfilled = absl::StrCat(NameOfServer(s), " to be filled",
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

std::string Coordinator::waiting_for() const {
  if (phase_ < Phase::kRecalling || phase_ == Phase::kLoggingLayout) {
    return "the configuration log";
  }
  if (rewinding_ && !MayRewind() && snapshot_.has_value()) {
    return SnapshotWaitsFor();
  }
  const std::string servers = ServersAwaited();
  if (!servers.empty()) return servers;
  if (IsChangingMode()) {
    return absl::StrCat(ModeChangeWaitsFor(), ", to change staleness ",
                        change_->Name());
  }
  if (phase_ == Phase::kAdopting) {
    return absl::StrCat(NameOfWorker(holders_.awaited()),
                        " to say what it holds of the input");
  }
  if (snapshot_.has_value()) {
    const std::string whom = SnapshotWaitsFor();
    if (!whom.empty()) return whom;
  }
  if (phase_ == Phase::kRunning && !draining_ &&
      workers_.size() < options_.workers) {
    for (uint32_t w = 0; w < options_.workers; ++w) {
      if (workers_.contains(w)) continue;
      return absl::StrCat("worker-", w, " to join");
    }
  }
  if (draining_ && phase_ < Phase::kSaving) {
    if (DrainNeedsSnapshot()) return "a checkpoint to leave with";
    return absl::StrCat(NameOfWorker(0), " and the servers to leave");
  }
  if (IsSync() && phase_ == Phase::kRunning) return StepWaitsFor();
  if (phase_ == Phase::kEvaluating) {
    return absl::StrCat(NameOfWorker(0), " to evaluate");
  }
  if (phase_ == Phase::kSaving && final_failures_ > 0) {
    return absl::StrCat("the last checkpoint, which is tried again: ",
                        checkpoint_failure_);
  }
  if (phase_ == Phase::kTellingEnd) return "all processes to hear of the end";
  if (phase_ == Phase::kFindingCheckpoint) return "the newest checkpoint";
  return "";
}

std::string Coordinator::SnapshotWaitsFor() const {
  if (IsSync() && snapshot_->phase() == SnapshotRound::Phase::kCutting) {
    return StepWaitsFor();
  }
  std::map<uint32_t, v1::Version> live;
  for (const auto& [index, worker] : workers_) {
    if (!worker.fencing) live[index] = worker.generation;
  }
  return snapshot_->waiting_for(live);
}

std::string Coordinator::StepWaitsFor() const {
  return steps_.waiting_for(contributing_, ServerGenerations());
}

std::string Coordinator::NameOfWorker(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return WorkerName(worker, found == workers_.end()
                                ? v1::Version()
                                : found->second.generation);
}

std::string Coordinator::NameOfServer(uint32_t server) const {
  return ServerName(server, servers_[server].generation);
}

std::vector<v1::Version> Coordinator::ServerGenerations() const {
  std::vector<v1::Version> generations;
  for (const Server& server : servers_) {
    generations.push_back(server.generation);
  }
  return generations;
}

std::string Coordinator::overdue(Time now) const {
  // A step takes its time.
  const bool steps = IsSync() && phase_ == Phase::kRunning &&
                     now - steps_.decided_at() < kSlowStep;
  const std::string whom = waiting_for();
  return steps && whom == StepWaitsFor() ? "" : whom;
}

void Coordinator::FillStatus(v1::StatusReply* status) const {
  *status->mutable_configuration() = configuration_.version();
  v1::JobStats* job = status->mutable_job();
  job->set_name(options_.job.name());
  job->set_state(StateForPeople());
  job->set_epochs(options_.job.epochs());
  job->set_epochs_done(IsSync() ? steps_.input().epochs_done()
                                : portions_.epochs_done());
  job->set_global_step(global_step());
  job->set_pushes(global_step() - std::min(global_step(), step_before_));
  job->set_servers(options_.servers);
  job->set_workers(options_.workers);
  uint64_t given_up = 0;
  for (const auto& [index, worker] : workers_) {
    given_up += worker.last.stats().given_up();
  }
  job->set_given_up(given_up);
  if (!checkpoint_.path().empty()) {
    *job->mutable_checkpoint() = checkpoint_number_;
    job->set_checkpoint_path(checkpoint_.path());
    job->set_checkpoint_step(checkpoint_step_);
    job->set_checkpoint_bytes(checkpoint_.bytes());
    job->set_checkpoint_ms(checkpoint_ms_);
  }
  job->set_checkpoints_failed(checkpoints_failed_);
  job->set_checkpoint_failure(checkpoint_failure_);
  job->set_pushes_lost(loss_.pushes() + audit_.missing());
  job->set_pushes_doubled(audit_.doubled());
  if (evaluation_.examples() > 0) *job->mutable_evaluation() = evaluation_;
  job->set_waiting_for(waiting_for());
  job->set_staleness(StalenessText(configuration_.consistency()));
  FillServers(job);
  FillWorkers(job);
}

}  // namespace paramd
