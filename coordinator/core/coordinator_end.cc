// The coordinator while the job runs: snapshots, evaluations and the end.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "config/optimizer_slots.h"
#include "coordinator/core/coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// A snapshot that is not sealed within the first, or not written within the
// second, is given up. Storage that takes as long for its own work ends the
// coordinator.
constexpr absl::Duration kSealPatience = absl::Seconds(60);
constexpr absl::Duration kWritePatience = absl::Minutes(15);
// The last one is tried so often, and for the drain_timeout, at least.
constexpr int kFinalAttempts = 3;
constexpr absl::Duration kFinalRetry = absl::Seconds(2);
// Between checkpoints to leave with, should one fail.
constexpr absl::Duration kDrainRetry = absl::Seconds(1);
// The same behind sync mode.
constexpr absl::Duration kSaveRetry = absl::Seconds(1);

}  // namespace

uint64_t Coordinator::global_step() const {
  if (IsSync()) return steps_.step();
  uint64_t step = step_before_;
  for (const auto& [index, worker] : workers_) step += worker.acknowledged;
  return step;
}

void Coordinator::Advance(Time now, Outbox* out) {
  if (out->exited) return;
  if (phase_ == Phase::kRecalling &&
      std::none_of(servers_.begin(), servers_.end(),
                   [](const Server& s) { return s.suspected; })) {
    FindCheckpoint(out);
  }
  if (phase_ == Phase::kFilling && EveryServerHas(configuration_.version())) {
    phase_ = Phase::kAdopting;
    out->Note(absl::StrCat("all ", servers_.size(), " servers are filled"));
  }
  if (phase_ == Phase::kAdopting) FenceSilent(now, out);
  if (phase_ == Phase::kAdopting && holders_.complete()) BeginRunning(now);
  if (phase_ >= Phase::kAdopting && phase_ < Phase::kTellingEnd) {
    AdmitJoining(now, out);
  }
  AdvanceModeChange(out);
  if (IsSync() || rewinding_) AdvanceSync(now, out);
  if (phase_ == Phase::kRunning) AdvanceRunning(now, out);
  if (phase_ == Phase::kEvaluating && evaluation_.final()) {
    phase_ = Phase::kSaving;
  }
  if (phase_ == Phase::kSaving && !snapshot_.has_value() &&
      now >= next_final_snapshot_ && EveryServerIsThere()) {
    OpenSnapshot({.final = true}, now, out);
  }
  if (phase_ == Phase::kRunning || phase_ == Phase::kEvaluating) {
    AdvanceDrain(now, out);
  }
  if (snapshot_.has_value()) AdvanceSnapshot(now, out);
  AdvanceSummary(out);
  if (phase_ == Phase::kTellingEnd) AdvanceEnd(now, out);
  AnswerParked(now, out);
  AdvanceFills(out);
  DriveServers(now, out);
  DriveDecides(now, out);
}

bool Coordinator::InputFinished() const {
  return IsSync() ? steps_.finished() && steps_.settled()
                  : portions_.finished();
}

uint32_t Coordinator::EpochsFinished() const {
  return IsSync() ? steps_.input().epochs_finished()
                  : portions_.epochs_finished();
}

bool Coordinator::AllInputUsed() const {
  return !workers_.empty() && InputFinished() &&
         std::all_of(workers_.begin(), workers_.end(), [](const auto& w) {
           return w.second.last.no_input() && !w.second.fencing;
         });
}

// Input that a silent worker holds is what everybody else waits for.
void Coordinator::FenceSilent(Time now, Outbox* out) {
  for (auto& [index, worker] : workers_) {
    if (!worker.fencing && now - worker.heard > lease()) {
      Fence(index, now, out);
    }
  }
}

void Coordinator::AdvanceRunning(Time now, Outbox* out) {
  FenceSilent(now, out);
  if (snapshot_.has_value() || change_.has_value() || draining_) return;
  if (AllInputUsed()) {
    phase_ = Phase::kEvaluating;
    ChangeState(v1::FINISHING);
    return;
  }
  const bool unsaved = now >= next_save_of_steps_ && EveryServerIsThere();
  if (unsaved) next_save_of_steps_ = now + kSaveRetry;
  if (unsaved || CheckpointIsDue(now)) OpenSnapshot({}, now, out);
}

bool Coordinator::CheckpointIsDue(Time now) const {
  const bool by_steps =
      next_checkpoint_step_ > 0 && global_step() >= next_checkpoint_step_;
  const bool by_time =
      now >= next_checkpoint_at_ && global_step() > checkpoint_step_;
  return (by_steps || by_time) && !InputFinished();
}

void Coordinator::SetNextCheckpoint(Time now) {
  const v1::CheckpointConfig& config = options_.job.checkpoint();
  const uint64_t every = config.every_steps();
  if (every > 0) next_checkpoint_step_ = (global_step() / every + 1) * every;
  if (config.every_seconds() > 0) {
    next_checkpoint_at_ = now + absl::Seconds(config.every_seconds());
  }
}

void Coordinator::Drain(Time now, Outbox* out) {
  if (phase_ < Phase::kAdopting) {
    out->Exit(absl::OkStatus());
    return;
  }
  if (phase_ >= Phase::kSaving) return;  // The end comes first.
  draining_ = true;
  drain_started_ = now;
  out->Note("draining: a checkpoint first");
  // Servers that drain too are to leave with the same one.
  for (Server& server : servers_) server.next_keepalive = now;
  Advance(now, out);
}

// Without a server that has left no push is whole: the checkpoint it left with
// has all there is.
bool Coordinator::DrainNeedsSnapshot() const {
  const bool servers_need =
      std::any_of(servers_.begin(), servers_.end(), [this](const Server& s) {
        return s.draining && (IsZero(s.drained_by) ||
                              checkpoint_number_ < s.drained_by);
      });
  const bool one_has_left =
      std::any_of(servers_.begin(), servers_.end(),
                  [](const Server& s) { return s.drained; });
  const bool own = draining_ && !one_has_left && !IsUntouched() &&
                   (IsZero(drain_number_) || checkpoint_number_ < drain_number_);
  return servers_need || own;
}

// Nobody has pushed anything yet, and nobody is there who could.
bool Coordinator::IsUntouched() const {
  return workers_.empty() && global_step() == 0;
}

void Coordinator::AdvanceDrain(Time now, Outbox* out) {
  if (out->exited || snapshot_.has_value() || IsChangingMode()) return;
  // An untouched server may have left at once.
  const bool asked =
      !draining_ ||
      std::all_of(servers_.begin(), servers_.end(), [this](const Server& s) {
        return s.drained || s.heard > drain_started_ ||
               (s.suspected && IsUntouched());
      });
  if (DrainNeedsSnapshot()) {
    const bool all_here =
        std::none_of(servers_.begin(), servers_.end(),
                     [](const Server& s) { return s.suspected; });
    if (!asked || !all_here || now < next_drain_snapshot_) return;
    next_drain_snapshot_ = now + kDrainRetry;
    OpenSnapshot({.stopped = true}, now, out);
    if (draining_) drain_number_ = snapshot_->number();
    return;
  }
  const bool servers_know =
      std::all_of(servers_.begin(), servers_.end(),
                  [](const Server& s) { return s.drained || !s.draining; });
  if (draining_ && asked && servers_know && !workers_.contains(0)) {
    AnswerParked(now, out);
    phase_ = Phase::kDone;
    out->Exit(absl::OkStatus());
  }
}

void Coordinator::OpenSnapshot(SnapshotRound::Options options, Time now,
                               Outbox* out) {
  v1::Version number;
  number.set_term(configuration_.version().term());
  number.set_counter(++snapshot_counter_);
  options.servers = options_.servers;
  // In sync mode no step is decided until every server is frozen.
  options.stopped |= IsSync();
  options.base = bases_.Next();
  snapshot_.emplace(number, options, now);
  commit_started_ = false;
  metrics_.Opened();
  SetNextCheckpoint(now);
  auto prepare = std::make_unique<v1::PrepareCheckpoint>();
  *prepare->mutable_snapshot() = number;
  prepare->set_run_id(run_id_);
  StartIo(std::move(prepare), &Coordinator::OnPrepared, out);
}

void Coordinator::OnPrepared(const IoResult& result, Time now, Outbox* out) {
  const auto* prepared =
      DynamicCastToGenerated<v1::PrepareCheckpointResult>(result.head.get());
  if (!result.status.ok() || prepared == nullptr) {
    snapshot_->Prepared({}, {});
    FailSnapshot(result.status.message(), now, out);
    return;
  }
  snapshot_->Prepared(*prepared, ServerGenerations());
  relay_.Begin(snapshot_->number(), snapshot_->directory());
  out->Note(absl::StrCat(
      "checkpoint ", VersionName(snapshot_->number()),
      IsSync() ? ": no step is decided until every server is frozen"
      : snapshot_->stopped()
          ? ": workers stop at their step boundary until every server is "
            "frozen"
          : ": workers say which push is their last in it, and go on"));
}

void Coordinator::AdvanceSnapshot(Time now, Outbox* out) {
  const SnapshotRound::Phase phase = snapshot_->phase();
  if (phase == SnapshotRound::Phase::kCommitting && !commit_started_) {
    commit_started_ = true;
    Commit(out);
    return;
  }
  if (WaitsTooLong(now)) {
    const std::string why =
        absl::StrCat("waited too long for ", SnapshotWaitsFor());
    if (phase == SnapshotRound::Phase::kPreparing ||
        phase == SnapshotRound::Phase::kCommitting) {
      // What became of it the next coordinator reads.
      out->Exit(absl::DeadlineExceededError(why));
      return;
    }
    const bool writing = !snapshot_->is_open() && EveryServerIsThere();
    writing ? FailSnapshot(why, now, out) : GiveUpSnapshot(why, now, out);
    return;
  }
  if (phase != SnapshotRound::Phase::kCutting) return;
  if (!IsSync()) return AdvanceCuts(now, out);
  if (steps_.settled() && !rewinding_ &&
      EveryServerHas(configuration_.version())) {
    loss_.Sealing(snapshot_->number(), {});
    snapshot_->BeginSeal(steps_.step(), steps_.input().left(), now);
  }
}

bool Coordinator::WaitsTooLong(Time now) const {
  if (snapshot_->is_open()) {
    return now - snapshot_->opened() >
           std::max(kSealPatience, 3 * step_times_.longest());
  }
  switch (snapshot_->phase()) {
    case SnapshotRound::Phase::kPreparing:
      return now - snapshot_->opened() > kWritePatience;
    case SnapshotRound::Phase::kCommitting:
      return now - snapshot_->sealed_at() > 2 * kWritePatience;
    default:
      return now - snapshot_->sealed_at() > kWritePatience;
  }
}

void Coordinator::AdvanceCuts(Time now, Outbox* out) {
  bool everybody_cut = true;
  for (auto& [index, worker] : workers_) {
    if (snapshot_->HasAcknowledged(index) && !worker.fencing) continue;
    everybody_cut = false;
    if (!worker.fencing && now - worker.heard > lease()) {
      Fence(index, now, out);
    }
  }
  // A fence counts when every server has it.
  if (!everybody_cut || !EveryServerHas(configuration_.version())) return;
  uint64_t step = step_before_;
  std::vector<v1::SavedSession> sessions;
  for (const auto& [index, cut] : snapshot_->cuts()) {
    const auto worker = workers_.find(index);
    if (worker == workers_.end()) continue;
    step += cut.sequence();
    v1::SavedSession& session = sessions.emplace_back();
    session.set_worker(index);
    *session.mutable_generation() = worker->second.generation;
    session.set_sequence(cut.sequence());
  }
  loss_.Sealing(snapshot_->number(), std::move(sessions));
  snapshot_->BeginSeal(step, portions_.Save(snapshot_->cuts()), now);
}

void Coordinator::NoteLost(const std::vector<v1::LostPushes>& lost,
                           Outbox* out) {
  for (const v1::LostPushes& pushes : lost) {
    out->Warn(absl::StrCat(
        "lost: pushes ", pushes.from(), " to ", pushes.to(), " of worker-",
        pushes.worker(), " generation ", VersionName(pushes.generation()),
        ", which an earlier life of ps-", pushes.server(),
        " had acknowledged; it has pushed nothing there since"),
              {{"from", pushes.from()},
               {"to", pushes.to()},
               {"worker", pushes.worker()},
               {"server", pushes.server()}});
  }
}

void Coordinator::Commit(Outbox* out) {
  auto commit = std::make_unique<v1::CommitCheckpoint>();
  commit->set_directory(snapshot_->directory());
  *commit->mutable_retention() = RetentionOf(options_.job.checkpoint());
  v1::Manifest* const manifest = commit->mutable_manifest();
  *manifest = snapshot_->MakeManifest(options_.job, configuration_);
  manifest->set_final(snapshot_->is_final());
  *manifest->mutable_job() = record_.ours();
  metrics_.Fill(manifest);
  NoteLost(loss_.Complete(manifest), out);
  audit_.Committing(*manifest, IsSync());
  bases_.Committing(*manifest);
  StartIo(std::move(commit), &Coordinator::OnCommitted, out);
}

void Coordinator::GiveUpSnapshot(absl::string_view why, Time /*now*/,
                                 Outbox* out) {
  if (!snapshot_.has_value() ||
      snapshot_->phase() == SnapshotRound::Phase::kPreparing ||
      snapshot_->phase() == SnapshotRound::Phase::kCommitting) {
    return;  // Nothing of a server's is open in these.
  }
  NoteFailure(snapshot_->number(), why, out);
  snapshot_.reset();
  ++snapshot_counter_;
}

void Coordinator::NoteFailure(const v1::Version& number, absl::string_view why,
                              Outbox* out) {
  ++checkpoints_failed_;
  checkpoint_failure_ = std::string(why);
  out->Warn(
      absl::StrCat("checkpoint ", VersionName(number), " was given up: ", why));
}

void Coordinator::FailSnapshot(absl::string_view why, Time now, Outbox* out) {
  const bool final = snapshot_.has_value() && snapshot_->is_final();
  GiveUpSnapshot(why, now, out);
  if (final && !snapshot_.has_value()) {
    LastOneFailed(absl::UnavailableError(why), now, out);
  }
}

uint64_t Coordinator::BytesOfACheckpoint() const {
  uint64_t elements = 0;
  for (const v1::Variable& variable : options_.variables) {
    elements += std::accumulate(variable.shape().begin(),
                                variable.shape().end(), uint64_t{1},
                                std::multiplies<uint64_t>());
  }
  return elements * sizeof(float) *
         (1 + SlotsOf(configuration_.optimizer()).size());
}

// Nothing is lost by waiting for space: all input is used up.
void Coordinator::LastOneFailed(const absl::Status& why, Time now,
                                Outbox* out) {
  if (++final_failures_ == 1) final_failing_since_ = now;
  next_final_snapshot_ = now + kFinalRetry;
  if (final_failures_ < kFinalAttempts ||
      now - final_failing_since_ <
          absl::Milliseconds(options_.job.drain_timeout_ms())) {
    return;
  }
  // Another run's directory stays so.
  const bool may_pass = !absl::IsInvalidArgument(why);
  out->Exit(absl::Status(
      may_pass ? absl::StatusCode::kUnavailable : why.code(),
      absl::StrCat("the last checkpoint can't be written: ", why.message(),
                   may_pass
                       ? absl::StrCat("; it takes about ", BytesOfACheckpoint(),
                                      " bytes: see to it, and start the job "
                                      "again in its run_dir (paramd local: "
                                      "--resume)")
                       : "")));
}

void Coordinator::OnCommitted(const IoResult& result, Time now, Outbox* out) {
  const SnapshotRound round = *std::move(snapshot_);
  snapshot_.reset();
  const auto* committed =
      DynamicCastToGenerated<v1::CommitCheckpointResult>(result.head.get());
  if (!result.status.ok() || committed == nullptr) {
    NoteFailure(round.number(), result.status.message(), out);
    ++snapshot_counter_;
    if (round.is_final()) LastOneFailed(result.status, now, out);
    return;
  }
  checkpoint_ = *committed;
  checkpoint_failure_.clear();
  next_save_of_steps_ = Time::Never();
  loss_.Committed();
  metrics_.Committed();
  bases_.Committed(checkpoint_.path());
  for (const v1::Version& old : checkpoint_.to_retire()) bases_.Retired(old);
  audit_.Committed();
  if (!audit_.sentence().empty()) {
    out->Warn(absl::StrCat("checkpoint ", VersionName(round.number()),
                           " is wrong: ", audit_.sentence()),
              {{"checkpoint", VersionName(round.number())}});
  }
  checkpoint_number_ = round.number();
  checkpoint_step_ = round.step();
  checkpoint_input_ = round.input();
  checkpoint_ms_ = absl::ToDoubleMilliseconds(now - round.opened());
  for (Server& server : servers_) {
    if (server.draining) server.next_keepalive = now;
  }
  out->Note(absl::StrCat("checkpoint committed at step ", checkpoint_step_,
                         ": ", checkpoint_.path()),
            {{"step", checkpoint_step_},
             {"path", checkpoint_.path()},
             {"bytes", checkpoint_.bytes()},
             {"duration_ms", checkpoint_ms_}});
  Retire(*committed, out);
  if (!round.is_final()) return;
  // What a server has lost meanwhile is in it, and nothing is restored any more.
  loss_.Rewind();
  phase_ = Phase::kWritingResult;
  auto write = std::make_unique<v1::WriteResult>();
  *write->mutable_evaluation() = evaluation_;
  write->set_epochs(options_.job.epochs());
  write->set_seconds(absl::ToDoubleSeconds(now - started_));
  write->set_global_step(checkpoint_step_);
  write->set_checkpoint_path(checkpoint_.path());
  write->set_pushes_lost(loss_.pushes() + audit_.missing());
  write->set_pushes_doubled(audit_.doubled());
  for (const v1::ChangedSetting& changed : record_.changed()) {
    *write->add_changed() = changed;
  }
  for (std::string& warning :
       TrainingWarnings(evaluation_, summaries_.training())) {
    out->Warn(warning);
    write->add_warnings(std::move(warning));
  }
  StartIo(std::move(write), &Coordinator::OnResultWritten, out);
}

void Coordinator::OnResultWritten(const IoResult& result, Time /*now*/,
                                  Outbox* out) {
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  phase_ = Phase::kLoggingEnd;
  v1::LogEntry entry;
  entry.mutable_finished()->set_reason("all input is used up");
  Append(std::move(entry), &Coordinator::OnEndLogged, out);
}

void Coordinator::OnEndLogged(const IoResult& result, Time now, Outbox* out) {
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  phase_ = Phase::kTellingEnd;
  ChangeState(v1::FINISHED);
  end_deadline_ = now + absl::Milliseconds(options_.job.finish_timeout_ms());
  for (uint32_t w = 0; w < options_.workers; ++w) {
    if (!workers_.contains(w)) yet_to_hear_.insert(w);
  }
  for (auto& [index, joining] : joining_) {
    if (joining.call == 0) continue;
    yet_to_hear_.erase(index);
    out->Refuse(joining.call, Refuse(v1::Refusal::JOB_FINISHED, "job",
                                     "the job is finished"));
  }
  joining_.clear();
}

// Who asked to join before the end was known.
void Coordinator::TellJoining(Outbox* out) {
  for (auto& [index, joining] : joining_) {
    if (joining.call == 0) continue;
    out->Refuse(joining.call, Refuse(v1::Refusal::JOB_FINISHED, "job",
                                     "the job is finished"));
    joining.call = 0;
    yet_to_hear_.erase(index);
  }
}

void Coordinator::AdvanceEnd(Time now, Outbox* out) {
  TellJoining(out);
  const bool all_workers_know =
      yet_to_hear_.empty() &&
      std::all_of(workers_.begin(), workers_.end(), [&](const auto& w) {
        return w.second.last.state() == v1::FINISHED || !IsLive(w.second, now);
      });
  everybody_knows_ |= all_workers_know || now >= end_deadline_;
  const bool all_servers_know =
      std::all_of(servers_.begin(), servers_.end(),
                  [](const Server& s) { return s.end_told == 2; });
  // Servers are told for as long again; they then leave by themselves.
  const absl::Duration patience =
      absl::Milliseconds(options_.job.finish_timeout_ms());
  if ((everybody_knows_ && all_servers_know && deletions_ == 0) ||
      now >= end_deadline_ + patience) {
    AnswerParked(now, out);
    phase_ = Phase::kDone;
    out->Exit(absl::OkStatus());
  }
}

}  // namespace paramd
