#include "coordinator/core/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/check.h"
#include "base/random.h"
#include "config/consistency.h"
#include "coordinator/core/layout.h"
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
constexpr absl::Duration kSlowStep = absl::Seconds(3);
constexpr absl::Duration kPeriod = absl::Milliseconds(100);

// Pushes of an epoch, or in sync mode steps.
uint64_t StepsPerEpoch(const v1::JobConfig& job, bool sync, uint32_t workers,
                       uint64_t examples) {
  uint64_t batch = job.batch_per_replica();
  if (sync) batch *= std::max(uint64_t{job.accumulate()}, uint64_t{1}) * workers;
  return (examples + batch - 1) / batch;
}

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

// Whether `why` begins with whom it is about and where: "ps-0 at host:1: why".
bool NamesPlace(const std::string& name, absl::string_view why) {
  return absl::StartsWith(why, absl::StrCat(name, " at "));
}

// "ps-0 at host:1: refused", "ps-0 to be there: did not answer".
std::string Missing(const std::string& name, absl::string_view why) {
  if (NamesPlace(name, why)) return std::string(why);
  absl::ConsumePrefix(&why, absl::StrCat(name, " "));
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
      run_id_(options.run_id) {}

absl::Duration Coordinator::lease() const {
  return absl::Milliseconds(options_.job.lease_ms());
}

absl::Duration Coordinator::heartbeat() const {
  return absl::Milliseconds(options_.job.heartbeat_ms());
}

// ---- starting ---------------------------------------------------------------

void Coordinator::Start(Time now, Outbox* out) {
  started_ = now;
  last_event_ = now;
  next_periodic_ = now + kPeriod;
  StartIo(std::make_unique<v1::ReadLog>(), &Coordinator::OnLogRead, out);
}

void Coordinator::StartIo(Outbox::Head head, IoHandler handler, Outbox* out) {
  ios_[next_io_] = handler;
  out->StartIo(next_io_++, std::move(head));
}

void Coordinator::Append(v1::LogEntry entry, IoHandler handler, Outbox* out) {
  entry.set_number(next_log_number_++);
  entry.set_nonce(CounterRandom(options_.nonce_seed).Bits(entry.number()));
  entry.set_run_id(run_id_);
  entry.set_job_digest(options_.job_digest);
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
    if (!appends_.empty() && result.status.ok()) AppendNext(out);
  }
  (this->*handler)(result, now, out);
  Advance(now, out);
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
  bool finished = false;
  for (const v1::LogEntry& entry : log->entries()) {
    next_log_number_ = entry.number() + 1;
    run_id_ = entry.run_id();
    term =
        std::max({term, entry.term(), entry.configuration().version().term()});
    finished |= entry.has_finished();
    if (entry.has_retired()) retired_.push_back(entry.retired());
    if (entry.configuration().has_consistency()) {
      logged_mode_ = entry.configuration().consistency();
    }
    if (entry.job_digest() != options_.job_digest) {
      out->Exit(absl::InvalidArgumentError(absl::StrCat(
          "run ", run_id_, " was started with other job-wide settings (digest ",
          entry.job_digest(), ", now ", options_.job_digest,
          "): give the job file it was started with, or start a new run")));
      return;
    }
  }
  configuration_.mutable_version()->set_term(term + 1);
  configuration_.set_run_id(run_id_);
  configuration_.set_job_digest(options_.job_digest);
  if (finished) {
    out->Note(absl::StrCat("run ", run_id_, " is finished already"));
    phase_ = Phase::kTellingEnd;
    for (uint32_t w = 0; w < options_.workers; ++w) yet_to_hear_.insert(w);
    end_deadline_ = now + absl::Milliseconds(options_.job.finish_timeout_ms());
    return;
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

void Coordinator::OnCheckpointFound(const IoResult& result, Time now,
                                    Outbox* out) {
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  const auto* found =
      DynamicCastToGenerated<v1::FindCheckpointResult>(result.head.get());
  if (found != nullptr && found->has_manifest()) {
    const v1::Manifest& manifest = found->manifest();
    portions_.Restore(manifest.input());
    steps_.Restore(manifest.global_step(), manifest.input());
    step_before_ = manifest.global_step();
    epochs_evaluated_ = portions_.epochs_finished();
    checkpoint_input_ = manifest.input();
    checkpoint_.set_path(found->path());
    checkpoint_step_ = step_before_;
    checkpoint_number_ = manifest.snapshot();
    for (Server& server : servers_) server.restore_directory = found->path();
    out->Note(absl::StrCat("going on from checkpoint ", found->path()));
  }
  PlanConfiguration(now, out);
}

void Coordinator::PlanConfiguration(Time now, Outbox* out) {
  auto layout = PlanLayout(options_.variables, options_.servers);
  if (!layout.ok()) {
    out->Exit(layout.status());
    return;
  }
  const v1::JobConfig& job = options_.job;
  *configuration_.mutable_layout() = *std::move(layout);
  *configuration_.mutable_optimizer() = job.optimizer();
  const auto consistency = ParseStaleness(job.staleness());
  CHECK(consistency.ok(), "the job's settings were checked");
  *configuration_.mutable_consistency() = logged_mode_.value_or(*consistency);
  if (IsSync()) {
    configuration_.mutable_consistency()->set_backup_workers(
        job.backup_workers());
    if (job.backup_workers() >= options_.workers) {
      out->Exit(absl::InvalidArgumentError(absl::StrCat(
          "backup_workers is ", job.backup_workers(), " of ", options_.workers,
          " workers: at least one must be left to contribute")));
      return;
    }
  }
  configuration_.set_decay_steps(
      job.optimizer().decay_steps() > 0
          ? job.optimizer().decay_steps()
          : StepsPerEpoch(job, IsSync(), options_.workers, options_.examples) *
                job.epochs());
  configuration_.set_seed(job.seed());
  configuration_.set_state(v1::STARTING);
  for (Server& server : servers_) {
    server.generation.set_term(configuration_.version().term());
    server.generation.set_counter(++generation_counter_);
    server.next_call = now;
  }
  if (job.checkpoint().every_steps() > 0) {
    const uint64_t every = job.checkpoint().every_steps();
    next_checkpoint_step_ = (step_before_ / every + 1) * every;
  }
  SetServerMembers();
  NextVersion();
  phase_ = Phase::kLoggingLayout;
  v1::LogEntry entry;
  *entry.mutable_configuration() = configuration_;
  Append(std::move(entry), &Coordinator::OnLayoutLogged, out);
}

void Coordinator::OnLayoutLogged(const IoResult& result, Time /*now*/,
                                 Outbox* out) {
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  phase_ = Phase::kFilling;
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
  if (phase_ < Phase::kRunning && now - started_ > patience) {
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

// ---- servers ----------------------------------------------------------------

Coordinator::Due Coordinator::NextCall(uint32_t index) const {
  const Server& server = servers_[index];
  if (phase_ < Phase::kRecalling || phase_ == Phase::kDone) return {};
  if (phase_ == Phase::kTellingEnd) {
    if (server.end_told >= (everybody_knows_ ? 2 : 1)) return {};
    return {ServerCall::kFinish, server.next_call};
  }
  if (server.suspected) return {ServerCall::kRecall, server.next_call};
  if (phase_ < Phase::kFilling) return {};
  if (server.acknowledged < configuration_.version() || !server.restored) {
    return {ServerCall::kConfigure, server.next_call};
  }
  if (snapshot_.has_value() && snapshot_->NeedsSeal(index)) {
    return {ServerCall::kSeal, server.next_call};
  }
  if (snapshot_.has_value() && snapshot_->NeedsWritten(index)) {
    return {ServerCall::kWritten, server.next_call};
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
  absl::Duration deadline = kServerCallDeadline;
  if (call == ServerCall::kWritten) deadline = kWrittenDeadline;
  if (call == ServerCall::kFinish) deadline = kFinishDeadline;
  out->Send(PeerId::Ps(index), server.call_id, MakeCall(index, call), {},
            deadline);
}

Outbox::Head Coordinator::MakeCall(uint32_t index, ServerCall call) const {
  const auto fill = [&](v1::Header* header) {
    header->set_term(configuration_.version().term());
    *header->mutable_configuration() = configuration_.version();
    *header->mutable_server_generation() = servers_[index].generation;
    if (snapshot_.has_value()) {
      *header->mutable_snapshot() = snapshot_->number();
    }
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
    server.draining = configured->draining();
    server.drained_by = configured->drained_by();
    server.next_keepalive = now + heartbeat();
    if (!IsZero(server.drained_by) &&
        !(server.told_committed < server.drained_by)) {
      server.drained = server.suspected = true;
    }
    if (!server.restored) server.next_call = now + kFillingPoll;
  } else if (const auto* sealed =
                 DynamicCastToGenerated<v1::SealReply>(message.head)) {
    if (snapshot_.has_value() && sealed->snapshot() == snapshot_->number()) {
      snapshot_->Sealed(index);
      if (server.draining) server.drained_by = sealed->snapshot();
    }
  } else if (const auto* written =
                 DynamicCastToGenerated<v1::WrittenReply>(message.head)) {
    if (snapshot_.has_value() && written->snapshot() == snapshot_->number()) {
      snapshot_->Written(index, written->file());
    }
  } else if (call == ServerCall::kFinish) {
    server.end_told = server.end_asked;
  }
}

void Coordinator::OnRecalled(uint32_t index, const v1::RecallReply& reply,
                             Time now, Outbox* out) {
  Server& server = servers_[index];
  server.suspected = false;
  if (server.incarnation == reply.incarnation()) return;
  const bool is_new_life = server.incarnation != 0;
  server.incarnation = reply.incarnation();
  if (is_new_life && phase_ >= Phase::kFilling) OnNewServer(index, now, out);
}

void Coordinator::OnNewServer(uint32_t index, Time now, Outbox* out) {
  Server& server = servers_[index];
  server.restored = false;
  const bool drained = std::exchange(server.drained, false);
  server.draining = false;
  server.drained_by.Clear();
  out->Note(absl::StrCat(
      "ps-", index, drained ? " is back after it was stopped"
                            : " came back without its shard",
      "; it takes ",
      checkpoint_.path().empty() ? "initial values" : checkpoint_.path(),
      drained ? ", which is all it had" : ", what came after is lost"));
  GiveUpSnapshot(absl::StrCat("ps-", index, " was lost"), now, out);
  if (IsSync() && phase_ >= Phase::kRunning && phase_ < Phase::kWritingResult) {
    rewinding_ = true;  // It gets its generation with all the others.
    return;
  }
  RestoreFromNewest(&server);
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
      out->Exit(absl::AbortedError(
          absl::StrCat("another coordinator has taken over: ", server.why)));
      return;
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
      out->Exit(absl::InvalidArgumentError(
          NamesPlace(absl::StrCat("ps-", index), server.why)
              ? server.why
              : absl::StrCat("ps-", index, " refuses this job: ", server.why)));
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
  if (call == ServerCall::kFinish) {
    // A server that has heard of the end leaves by itself; another one is asked
    // again, it may be there yet or come.
    if (server.end_told >= 1) server.end_told = 2;
  } else if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
             absl::IsResourceExhausted(status)) {
    server.suspected = true;
  } else if (call == ServerCall::kSeal || call == ServerCall::kWritten) {
    GiveUpSnapshot(absl::StrCat("ps-", index, ": ", server.why), now, out);
  } else if (call == ServerCall::kConfigure &&
             !server.restore_directory.empty() &&
             refusal.entity() == server.restore_directory) {
    OnNotRestored(index, now, out);
  } else {
    out->Exit(absl::FailedPreconditionError(
        absl::StrCat("ps-", index, ": ", server.why)));
  }
}

// A checkpoint is deleted when a later one is committed, which may be known only
// after the server failed; or never, if the answer was lost.
void Coordinator::OnNotRestored(uint32_t index, Time now, Outbox* out) {
  const Server& server = servers_[index];
  if (server.restore_directory != checkpoint_.path()) {
    OnNewServer(index, now, out);
  } else if (!snapshot_.has_value() ||
             snapshot_->phase() != SnapshotRound::Phase::kCommitting) {
    out->Exit(absl::AbortedError(
        absl::StrCat("ps-", index, ": ", server.why,
                     "; the next coordinator looks for another checkpoint")));
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

bool Coordinator::EveryServerHas(const v1::Version& version) const {
  return std::all_of(servers_.begin(), servers_.end(), [&](const Server& s) {
    return s.restored && !(s.acknowledged < version);
  });
}

// ---- for people -------------------------------------------------------------

std::string Coordinator::waiting_for() const {
  if (phase_ < Phase::kRecalling) return "the configuration log";
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    const Server& server = servers_[s];
    const std::string why =
        server.why.empty() ? "" : absl::StrCat(": ", server.why);
    if (phase_ < Phase::kTellingEnd && server.suspected) {
      return Missing(absl::StrCat("ps-", s), server.why);
    }
    if (phase_ >= Phase::kFilling && phase_ < Phase::kTellingEnd &&
        !server.restored) {
      return absl::StrCat("ps-", s, " to be filled", why);
    }
  }
  if (phase_ == Phase::kRunning && !draining_ &&
      workers_.size() < options_.workers) {
    for (uint32_t w = 0; w < options_.workers; ++w) {
      if (workers_.contains(w)) continue;
      return absl::StrCat("worker-", w, " to join");
    }
  }
  if (IsSync() && snapshot_.has_value() &&
      snapshot_->phase() == SnapshotRound::Phase::kHolding) {
    return steps_.waiting_for();
  }
  if (snapshot_.has_value()) {
    std::map<uint32_t, bool> live;
    for (const auto& [index, worker] : workers_) live[index] = !worker.fencing;
    return snapshot_->waiting_for(live);
  }
  if (draining_ && phase_ < Phase::kSaving) {
    return DrainNeedsSnapshot() ? "a checkpoint to leave with"
                                : "worker-0 and the servers to leave";
  }
  if (IsSync() && phase_ == Phase::kRunning) return steps_.waiting_for();
  if (phase_ == Phase::kEvaluating) return "worker-0 to evaluate";
  if (phase_ == Phase::kTellingEnd) return "all processes to hear of the end";
  if (phase_ == Phase::kFindingCheckpoint) return "the newest checkpoint";
  return "";
}

std::string Coordinator::overdue(Time now) const {
  // A step takes its time.
  const bool steps = IsSync() && phase_ == Phase::kRunning &&
                     now - steps_.decided_at() < kSlowStep;
  const std::string whom = waiting_for();
  return steps && whom == steps_.waiting_for() ? "" : whom;
}

void Coordinator::FillStatus(v1::StatusReply* status) const {
  *status->mutable_configuration() = configuration_.version();
  v1::JobStats* job = status->mutable_job();
  job->set_name(options_.job.name());
  job->set_state(configuration_.state());
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
  if (evaluation_.examples() > 0) *job->mutable_evaluation() = evaluation_;
  job->set_waiting_for(waiting_for());
  job->set_staleness(StalenessText(configuration_.consistency()));
  FillServers(job);
  FillWorkers(job);
}

}  // namespace paramd
