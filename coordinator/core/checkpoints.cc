#include "coordinator/core/checkpoints.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// A snapshot that is not sealed within the first, or not written within the
// second, is given up. Storage that takes as long for its own work ends the
// coordinator.
constexpr absl::Duration kSealPatience = absl::Seconds(60);
constexpr absl::Duration kWritePatience = absl::Minutes(15);

bool WaitsTooLong(const SnapshotRound& round, const JobView& job, Time now) {
  if (round.is_open()) {
    return now - round.opened() >
           std::max(kSealPatience, 3 * job.progress.LongestStep());
  }
  switch (round.phase()) {
    case SnapshotRound::Phase::kPreparing:
      return now - round.opened() > kWritePatience;
    case SnapshotRound::Phase::kCommitting:
      return now - round.sealed_at() > 2 * kWritePatience;
    default:
      return now - round.sealed_at() > kWritePatience;
  }
}

// Raises SessionOver of those who are awaited for too long.
bool EverybodyHasCut(const SnapshotRound& round, Turn* turn) {
  bool all = true;
  for (const auto& [index, worker] : turn->job.workers) {
    if (round.HasAcknowledged(index) && !worker.fencing) continue;
    all = false;
    if (!worker.fencing && !turn->job.IsLive(worker, turn->now)) {
      turn->Raise(SessionOver{index});
    }
  }
  return all;
}

// How far the present sessions are at their cuts; in sync mode there are none.
std::vector<v1::SavedSession> CutSessions(const SnapshotRound& round,
                                          const JobView& job) {
  std::vector<v1::SavedSession> sessions;
  for (const auto& [index, cut] : round.cuts()) {
    const auto worker = job.workers.find(index);
    if (worker == job.workers.end()) continue;
    v1::SavedSession& session = sessions.emplace_back();
    session.set_worker(index);
    *session.mutable_generation() = worker->second.generation;
    session.set_sequence(cut.sequence());
  }
  return sessions;
}

}  // namespace

Checkpoints::Checkpoints(const CoordinatorOptions& options)
    : bases_(options.job.checkpoint().incremental()),
      relay_(options.window_bytes) {}

// ---- opening ----------------------------------------------------------------

v1::SnapshotNumber Checkpoints::Open(SnapshotRound::Options options,
                                     Turn* turn) {
  v1::SnapshotNumber number;
  number.set_term(turn->job.configuration.version().term());
  number.set_counter(++counter_);
  options.servers = turn->job.options.servers;
  // In sync mode no step is decided until every server is frozen.
  options.stopped |= turn->job.IsSync();
  options.base = bases_.Next();
  round_.emplace(number, options, turn->now);
  commit_started_ = false;
  accounts_.metrics.Opened();
  auto prepare = std::make_unique<v1::PrepareCheckpoint>();
  *prepare->mutable_snapshot() = number;
  prepare->set_run_id(turn->job.configuration.run_id());
  turn->StartIo(std::move(prepare), Then(this, &Checkpoints::OnPrepared));
  return number;
}

void Checkpoints::OnPrepared(const IoResult& result, Turn* turn) {
  const auto* prepared =
      DynamicCastToGenerated<v1::PrepareCheckpointResult>(result.head.get());
  if (!result.status.ok() || prepared == nullptr) {
    return Fail(absl::UnavailableError(result.status.message()), turn);
  }
  round_->Prepared(*prepared, turn->job.ServerGenerations());
  relay_.Begin(round_->number(), round_->directory());
  turn->out->Note(absl::StrCat(
      "checkpoint ", VersionName(round_->number()),
      turn->job.IsSync() ? ": no step is decided until every server is frozen"
      : round_->stopped()
          ? ": workers stop at their step boundary until every server is "
            "frozen"
          : ": workers say which push is their last in it, and go on"));
}

// ---- cuts, seals, files -----------------------------------------------------

void Checkpoints::Advance(Turn* turn) {
  if (!round_.has_value()) return;
  const SnapshotRound::Phase phase = round_->phase();
  if (phase == SnapshotRound::Phase::kCommitting && !commit_started_) {
    commit_started_ = true;
    return Commit(turn);
  }
  if (WaitsTooLong(*round_, turn->job, turn->now)) return EndWait(turn);
  if (phase != SnapshotRound::Phase::kCutting) return;
  const JobView& job = turn->job;
  const JobProgress& progress = job.progress;
  const bool may_seal =
      job.IsSync() ? progress.IsBetweenSteps() : EverybodyHasCut(*round_, turn);
  // A fence counts when every server has it.
  if (!may_seal || !job.EveryServerHas(job.configuration.version())) return;
  std::vector<v1::SavedSession> present = CutSessions(*round_, job);
  round_->BeginSeal(
      job.IsSync() ? progress.global_step() : progress.StepAt(round_->cuts()),
      progress.InputLeft(round_->cuts()), present, turn->now);
  // In sync mode that may be of the step to come: nothing of it is lost.
  if (job.IsSync()) present.clear();
  accounts_.loss.Sealing(round_->number(), std::move(present));
}

void Checkpoints::EndWait(Turn* turn) {
  const std::string why =
      absl::StrCat("waited too long for ", waiting_for(turn->job));
  switch (round_->phase()) {
    case SnapshotRound::Phase::kPreparing:
    case SnapshotRound::Phase::kCommitting:
      // What became of it the next coordinator reads.
      turn->out->Exit(absl::DeadlineExceededError(why));
      return;
    case SnapshotRound::Phase::kWriting:
      if (turn->job.EveryServerIsThere()) {
        return Fail(absl::UnavailableError(why), turn);
      }
      [[fallthrough]];
    default:
      GiveUp(why, turn);
  }
}

void Checkpoints::OnCut(uint32_t worker, const v1::WorkerCut& cut) {
  if (round_.has_value()) round_->Cut(worker, cut);
}

void Checkpoints::OnInputUsed(uint32_t worker,
                              const std::vector<v1::Portion>& portions) {
  if (round_.has_value()) round_->Used(worker, portions);
}

void Checkpoints::OnSessionEnded(uint32_t worker, const WorkerRecord& session,
                                 const std::vector<v1::Portion>& used,
                                 const JobView& job) {
  // In sync mode what a server loses is computed again.
  if (!job.IsSync()) {
    LossReport::Cut cut;
    if (round_.has_value() && round_->HasCut(worker)) {
      cut = {round_->number(), round_->cuts().at(worker).sequence()};
    }
    accounts_.loss.Ended(worker, session.generation, session.acknowledged, cut);
  }
  if (!round_.has_value()) return;
  round_->Used(worker, used);
  v1::SavedSession gone;
  gone.set_worker(worker);
  *gone.mutable_generation() = session.generation;
  gone.set_sequence(session.acknowledged);
  round_->Gone(gone);
}

bool Checkpoints::OnAnswer(uint32_t server, const Message& answer, Turn* turn) {
  if (const auto* sealed = DynamicCastToGenerated<v1::SealReply>(answer.head)) {
    if (!round_.has_value() || sealed->snapshot() != round_->number()) {
      return false;
    }
    round_->Sealed(server);
    return round_->stopped();
  }
  if (const auto* written =
          DynamicCastToGenerated<v1::WrittenReply>(answer.head)) {
    OnWritten(server, *written, turn);
  } else if (const auto* fetched =
                 DynamicCastToGenerated<v1::FetchShardReply>(answer.head)) {
    OnFetched(server, *fetched, answer.payload, turn);
  }
  return false;
}

// An earlier one is given up already.
void Checkpoints::OnCallFailed(const v1::SnapshotNumber& snapshot,
                               const absl::Status& why, Turn* turn) {
  if (round_.has_value() && snapshot == round_->number()) Fail(why, turn);
}

void Checkpoints::OnWritten(uint32_t server, const v1::WrittenReply& reply,
                            Turn* turn) {
  if (!round_.has_value() || reply.snapshot() != round_->number() ||
      !round_->NeedsWritten(server)) {
    return;
  }
  if (!reply.has_file()) return relay_.Undescribed(server, reply.unseen());
  v1::ShardFile file = reply.file();
  const absl::Status known = bases_.Complete(round_->base(), &file);
  if (!known.ok()) {
    return Fail(absl::UnavailableError(known.message()), turn);
  }
  if (!reply.unseen()) return round_->Written(server, file);
  std::string note = relay_.Unseen(server, file);
  if (!note.empty()) turn->out->Note(std::move(note));
}

void Checkpoints::OnFetched(uint32_t server, const v1::FetchShardReply& reply,
                            const BufferChain& payload, Turn* turn) {
  if (!round_.has_value() || !relay_.NeedsFetch(server) ||
      reply.snapshot() != round_->number()) {
    return;
  }
  if (relay_.IsDescribing(server)) {
    const auto described = relay_.Described(server, reply, payload);
    if (!described.ok()) {
      return Fail(absl::UnavailableError(described.status().message()), turn);
    }
    if (described->has_value()) OnWritten(server, **described, turn);
    return;
  }
  auto write = relay_.Fetched(server, reply, ChainSize(payload));
  if (!write.ok()) {
    return Fail(absl::UnavailableError(write.status().message()), turn);
  }
  turn->StartIo(
      std::make_unique<v1::WriteFetched>(*std::move(write)),
      [this, server, number = round_->number()](const IoResult& result,
                                                Turn* later) {
        OnFetchedWritten(server, number, result, later);
      },
      payload);
}

void Checkpoints::OnFetchedWritten(uint32_t server,
                                   const v1::SnapshotNumber& number,
                                   const IoResult& result, Turn* turn) {
  if (!round_.has_value() || number != round_->number()) return;
  const auto* written =
      DynamicCastToGenerated<v1::WriteFetchedResult>(result.head.get());
  if (!result.status.ok() || written == nullptr) {
    return Fail(absl::UnavailableError(absl::StrCat(
                    "the part of ps-", server, ": ", result.status.message())),
                turn);
  }
  const auto file = relay_.Written(server, *written);
  if (!file.ok()) {
    return Fail(absl::UnavailableError(file.status().message()), turn);
  }
  if (file->has_value()) round_->Written(server, **file);
}

void Checkpoints::OnPause(absl::Duration pause) {
  if (round_.has_value()) round_->Pause(pause);
}

// ---- its end ----------------------------------------------------------------

void Checkpoints::Commit(Turn* turn) {
  const v1::JobConfig& job = turn->job.options.job;
  auto commit = std::make_unique<v1::CommitCheckpoint>();
  commit->set_directory(round_->directory());
  v1::Manifest* const manifest = commit->mutable_manifest();
  *manifest = round_->MakeManifest(job, turn->job.configuration);
  manifest->set_final(round_->is_final());
  *manifest->mutable_job() = turn->job_record();
  accounts_.Complete(manifest, turn->job.IsSync(), turn->out);
  *commit->mutable_retention() =
      RetentionOf(job.checkpoint(), turn->job.options.best_metric, *manifest);
  bases_.Committing(*manifest);
  turn->StartIo(std::move(commit), Then(this, &Checkpoints::OnCommitted));
}

void Checkpoints::OnCommitted(const IoResult& result, Turn* turn) {
  const auto* committed =
      DynamicCastToGenerated<v1::CommitCheckpointResult>(result.head.get());
  if (!result.status.ok() || committed == nullptr) {
    return Fail(result.status, turn);
  }
  const SnapshotRound round = *std::move(round_);
  round_.reset();
  failure_.clear();
  newest_ = {*committed,
             round.number(),
             round.step(),
             round.input(),
             absl::ToDoubleMilliseconds(turn->now - round.opened()),
             turn->now};
  accounts_.Committed(newest_.number, turn->out);
  bases_.Committed(newest_.path());
  for (const v1::SnapshotNumber& old : committed->to_retire()) {
    bases_.Retired(old);
  }
  turn->out->Note(absl::StrCat("checkpoint committed at step ", newest_.step,
                               ": ", newest_.path()),
                  {{"step", newest_.step},
                   {"path", newest_.path()},
                   {"bytes", newest_.files.bytes()},
                   {"duration_ms", newest_.milliseconds}});
  turn->Raise(CheckpointCommitted{round.is_final()});
}

void Checkpoints::GiveUp(absl::string_view why, Turn* turn) {
  if (!round_.has_value() ||
      round_->phase() == SnapshotRound::Phase::kPreparing ||
      round_->phase() == SnapshotRound::Phase::kCommitting) {
    return;
  }
  Drop(why, turn);
}

void Checkpoints::Fail(const absl::Status& why, Turn* turn) {
  CheckpointFailed failed{round_->is_final(), why, round_->number()};
  Drop(why.message(), turn);
  turn->Raise(std::move(failed));
}

void Checkpoints::Drop(absl::string_view why, Turn* turn) {
  ++failures_;
  failure_ = std::string(why);
  turn->out->Warn(absl::StrCat("checkpoint ", VersionName(round_->number()),
                               " was given up: ", why));
  round_.reset();
  ++counter_;
}

// ---- what is to be asked and told -------------------------------------------

Checkpoints::Numbers Checkpoints::numbers() const {
  return {round_.has_value() ? round_->number() : v1::SnapshotNumber(),
          newest_.number, counter_};
}

ServerRecord::Call Checkpoints::CallFor(uint32_t server) const {
  if (!round_.has_value()) return ServerRecord::Call::kNone;
  if (round_->NeedsSeal(server)) return ServerRecord::Call::kSeal;
  if (!round_->NeedsWritten(server)) return ServerRecord::Call::kNone;
  if (relay_.NeedsFetch(server)) return ServerRecord::Call::kFetch;
  return relay_.IsWriting(server) ? ServerRecord::Call::kNone
                                  : ServerRecord::Call::kWritten;
}

Outbox::Head Checkpoints::MakeCall(uint32_t server, ServerRecord::Call call,
                                   const v1::Header& header) const {
  if (call == ServerRecord::Call::kSeal) {
    auto seal = std::make_unique<v1::SealRequest>(round_->SealFor(server));
    *seal->mutable_header() = header;
    return seal;
  }
  if (call == ServerRecord::Call::kFetch) {
    auto fetch =
        std::make_unique<v1::FetchShardRequest>(relay_.FetchFor(server));
    *fetch->mutable_header() = header;
    return fetch;
  }
  auto written = std::make_unique<v1::WrittenRequest>();
  *written->mutable_header() = header;
  return written;
}

bool Checkpoints::TellsWorkers(const JobView& job) const {
  return round_.has_value() && round_->is_open() && !job.IsSync();
}

// ---- for people -------------------------------------------------------------

std::string Checkpoints::waiting_for(const JobView& job) const {
  if (job.IsSync() && round_->phase() == SnapshotRound::Phase::kCutting) {
    return job.progress.StepWaitsFor();
  }
  std::map<uint32_t, v1::SessionId> live;
  for (const auto& [index, worker] : job.workers) {
    if (!worker.fencing) live[index] = worker.generation;
  }
  return round_->waiting_for(live);
}

void Checkpoints::FillStatus(Time now, v1::JobStats* job) const {
  if (!newest_.path().empty()) {
    *job->mutable_checkpoint() = newest_.number;
    job->set_checkpoint_path(newest_.path());
    job->set_checkpoint_step(newest_.step);
    job->set_checkpoint_bytes(newest_.files.bytes());
    job->set_checkpoint_ms(newest_.milliseconds);
    if (newest_.committed.has_value()) {
      job->set_checkpoint_ago_ms(
          absl::ToInt64Milliseconds(now - *newest_.committed));
    }
  }
  job->set_checkpoints_failed(failures_);
  job->set_checkpoint_failure(failure_);
  job->set_pushes_lost(accounts_.pushes_lost());
  job->set_pushes_doubled(accounts_.pushes_doubled());
  job->set_acknowledged_alone(accounts_.acknowledged_alone());
}

}  // namespace paramd
