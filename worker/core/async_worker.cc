#include "worker/core/async_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "worker/core/operation_kind.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// A pull or push that is open for longer is told to people.
constexpr absl::Duration kOverdue = absl::Seconds(3);

}  // namespace

AsyncWorker::AsyncWorker(const Options& options)
    : options_(options),
      clock_teller_(absl::Milliseconds(options.job.heartbeat_ms())),
      cursor_({.worker = options.index,
               .examples = options.examples,
               .epochs = options.job.epochs(),
               .batch = uint64_t{options.job.batch_per_replica()} *
                        std::max(options.job.accumulate(), 1u)}),
      quarantine_(options.index, options.job.quarantine_limit()) {}

void AsyncWorker::Start(Time now, Outbox* out) {
  started_ = now;
  SendJoin(out);
}

// ---- events -----------------------------------------------------------------

void AsyncWorker::Receive(Message message, Time now, Outbox* out) {
  if (!message.is_reply) {
    out->Refuse(message.call, Refuse(v1::Refusal::INVALID, "method",
                                     "a worker does not serve this method"));
    return;
  }
  if (session_.has_value() && session_->Receive(message, now, out)) {
    // The session's own.
  } else if (message.call == join_call_.call) {
    join_call_.call = 0;
    const auto* joined = DynamicCastToGenerated<v1::JoinReply>(message.head);
    if (message.status.ok() && joined != nullptr) {
      OnJoined(*joined, now, out);
    } else {
      OnJoinFailed(message.status, now, out);
    }
  } else if (message.call == portion_call_.call) {
    OnPortion(message, now, out);
  } else if (message.call == heartbeat_call_.call) {
    OnHeartbeat(message, now, out);
  }
  Advance(now, out);
}

void AsyncWorker::Completed(IoResult result, Time now, Outbox* out) {
  if (result.io == take_io_) {
    OnTaken(result, now, out);
  } else if (result.io == compute_io_) {
    const auto* computed =
        DynamicCastToGenerated<v1::ComputeGradientResult>(result.head.get());
    if (computed != nullptr) OnFigures(result.io, *computed, now);
    OnGradient(result, now, out);
  } else if (result.io == evaluate_io_) {
    OnEvaluated(result, out);
  } else if (!result.status.ok()) {
    out->Exit(result.status);  // Of a portion that can't be fetched.
  }
  Advance(now, out);
}

void AsyncWorker::Tick(Time now, Outbox* out) {
  figures_.Tick(now);
  const absl::Duration patience =
      absl::Milliseconds(options_.job.start_timeout_ms());
  if (phase_ == Phase::kJoining && now - started_ > patience) {
    out->Exit(absl::DeadlineExceededError(
        absl::StrCat("not joined within ", absl::FormatDuration(patience),
                     "; waiting for ", waiting_for())));
    return;
  }
  if (session_.has_value()) session_->Tick(now, out);
  Advance(now, out);
}

Time AsyncWorker::next_tick() const {
  Time next = figures_.next_tick();
  if (MayJoin()) next = std::min(next, join_call_.retry_at);
  if (WantsPortion()) next = std::min(next, portion_call_.retry_at);
  if (heartbeat_call_.call == 0) {
    next = std::min(next, heartbeat_call_.retry_at);
  }
  if (session_.has_value()) next = std::min(next, session_->next_tick());
  if (phase_ == Phase::kRunning) {
    next = std::min(next, clock_teller_.next_tick());
  }
  return next;
}

void AsyncWorker::Advance(Time now, Outbox* out) {
  if (out->exited) return;
  if (phase_ == Phase::kJoining) {
    if (MayJoin() && now >= join_call_.retry_at) SendJoin(out);
    return;
  }
  while (phase_ == Phase::kRunning && session_.has_value()) {
    const auto finished = session_->TakeFinished();
    if (!finished.has_value()) break;
    OnFinished(*finished, now, out);
  }
  if (out->exited || phase_ == Phase::kJoining) return;
  if (phase_ == Phase::kRunning) AdvancePipeline(now, out);
  AdvanceCoordinator(now, out);
}

void AsyncWorker::Drain(Time now, Outbox* out) {
  if (phase_ == Phase::kJoining) {
    out->Exit(absl::OkStatus());
    return;
  }
  draining_ = true;
  computing_.reset();
  out->Note("draining: no more gradients; telling the coordinator");
  Advance(now, out);
}

bool AsyncWorker::drained() const {
  return draining_ && !pushing_.has_value();
}

// ---- the pipeline -----------------------------------------------------------

void AsyncWorker::AdvancePipeline(Time now, Outbox* out) {
  if (MayEvaluate()) StartEvaluation(now, out);
  if (sync_) return AdvanceSync(now, out);
  if (MayPull()) {
    ++pulls_started_;
    session_->StartPull(MakeOp(kPull, pulls_started_),
                        &weights_[pulls_started_ % 2], clock(), now, out);
  }
  if (MayPush()) StartPush(now, out);
  if (MayCompute()) StartCompute(out);
}

void AsyncWorker::StartEvaluation(Time now, Outbox* out) {
  evaluating_ = true;
  evaluating_final_ = news_.evaluate_final();
  evaluating_epoch_ =
      evaluating_final_ ? options_.job.epochs() : news_.evaluate_epoch();
  session_->StartPull(MakeOp(kEvaluationPull, ++evaluations_),
                      &weights_[kEvaluationBuffer], absl::nullopt, now, out);
}

bool AsyncWorker::MayPull() const {
  const uint64_t ahead = options_.job.pull_ahead() ? 1 : 0;
  // What is computed for a push that has ended still reads its weights.
  const bool reads = compute_io_ != 0 && !computing_.has_value() &&
                     !pushing_.has_value();
  return !draining_ && !reads && pulls_started_ == pulls_done_ &&
         pulls_started_ <= pushes_acknowledged_ + ahead && !idle();
}

// In other modes a server learns by the pull that the worker has got on.
bool AsyncWorker::MayPullBehind() const {
  return async_ && !options_.job.pull_ahead() &&
         !draining_ && pulls_started_ == pulls_done_ &&
         (batches_left() > 0 || !no_more_);
}

bool AsyncWorker::MayPush() const {
  const bool pulled =
      !options_.job.pull_ahead() || pulls_done_ > steps_started_;
  return computing_.has_value() && computing_->has_gradients() &&
         !pushing_.has_value() && pulled && !news_.stop();
}

bool AsyncWorker::MayCompute() const {
  return !draining_ && !computing_.has_value() && compute_io_ == 0 &&
         pulls_done_ > steps_started_ && batches_left() > 0;
}

bool AsyncWorker::MayEvaluate() const {
  if (draining_ || evaluating_ || evaluate_io_ != 0) return false;
  return (news_.evaluate_final() && !evaluation_.final()) ||
         (news_.evaluate_epoch() > evaluation_.epoch());
}

void AsyncWorker::StartPush(Time now, Outbox* out) {
  pushing_ = std::move(computing_);
  computing_.reset();
  ++pushes_started_;
  Session::PushInfo info;
  info.sequence = pushes_started_;
  info.clock = clock();
  info.snapshot = cut_.stamp();
  info.epoch = pushing_->epoch;
  info.input_begin = pushing_->begin;
  info.input_end = pushing_->end;
  info.weights = &weights_[pushes_started_ % 2];
  if (MayPullBehind()) info.pull_into = &weights_[(pulls_started_ + 1) % 2];
  session_->StartPush(MakeOp(kPush, pushes_started_), info,
                      std::move(pushing_->gradients), now, out);
}

void AsyncWorker::StartCompute(Outbox* out) {
  const auto leased = std::find_if(
      portions_.begin(), portions_.end(),
      [](const Leased& l) { return l.computed < l.portion.end(); });
  const uint64_t begin = leased->computed;
  const uint64_t end =
      std::min(begin + options_.job.batch_per_replica(), leased->portion.end());
  leased->computed = end;
  ++steps_started_;
  computing_.emplace();
  computing_->portion = leased->portion.id();
  computing_->epoch = leased->portion.epoch();
  computing_->begin = begin;
  computing_->end = end;
  auto compute = std::make_unique<v1::ComputeGradient>();
  compute->set_epoch(leased->portion.epoch());
  compute->set_portion(leased->portion.id());
  compute->set_begin(begin);
  compute->set_end(end);
  compute->set_weights_buffer(steps_started_ % 2);
  StartComputing(std::move(compute), out);
}

void AsyncWorker::OnFinished(const Session::Finished& finished, Time now,
                             Outbox* out) {
  const OperationKind kind = KindOf(finished.op);
  const v1::Refusal refusal = RefusalOf(finished.status);
  if (refusal.reason() == v1::Refusal::LATE && kind == kPush) {
    OnLate(refusal.step(), out);
    return;
  }
  if (refusal.reason() == v1::Refusal::SUPERSEDED && kind == kPush) {
    OnSpoiled(finished.status, now, out);
    return;
  }
  const bool given_up = absl::IsDeadlineExceeded(finished.status);
  if (!finished.status.ok() && !given_up) {
    // A step of sync mode has no use for a contribution that is given up.
    if (kind != kPush || sync_ || !OnQuarantined(finished.status, out)) {
      OnOperationFailed(finished.status, out);
      return;
    }
  } else if (kind == kPush && !given_up) {
    quarantine_.Applied();
    figures_.Acknowledged(pushing_->number, pushing_->computed_examples,
                          pushing_->loss);
    NoteFirstPush(out);
  }
  if (given_up) {
    out->Note(finished.status.ToString());
    given_up_ += kind == kPush ? 1 : 0;
    if (sync_ && kind == kPush) {
      out->Exit(absl::UnavailableError(finished.status.message()));
      return;
    }
  }
  if (kind == kPush) {
    OnPushEnded();
    if (finished.pulled) pulls_done_ = ++pulls_started_;
  } else if (kind == kPull) {
    given_up ? --pulls_started_ : ++pulls_done_;
    if (sync_ && !given_up) {
      cursor_.Decided(pulling_step_);
      pulled_step_ = pulling_step_;
    }
  } else if (given_up) {
    evaluating_ = false;
  } else {
    auto evaluate = std::make_unique<v1::EvaluateWeights>();
    evaluate->set_epoch(evaluating_epoch_);
    evaluate->set_final(evaluating_final_);
    evaluate->set_weights_buffer(kEvaluationBuffer);
    evaluate_io_ = next_io_++;
    out->StartIo(evaluate_io_, std::move(evaluate));
  }
}

bool AsyncWorker::OnQuarantined(const absl::Status& status, Outbox* out) {
  if (RefusalOf(status).reason() != v1::Refusal::QUARANTINED) return false;
  const absl::Status enough = quarantine_.Refused(status.message());
  if (!enough.ok()) out->Exit(enough);
  if (enough.ok() && quarantine_.is_worth_a_note()) {
    out->Warn(absl::StrCat("push ", pushes_started_, " given up (",
                           quarantine_.total(),
                           " so far): ", status.message()),
              {{"push", pushes_started_},
               {"quarantined", quarantine_.total()}});
  }
  return true;
}

// Another generation fences who pushes as this one; what is not in is computed
// again.
void AsyncWorker::OnSpoiled(const absl::Status& status, Time now,
                            Outbox* out) {
  ++spoiled_sessions_;
  out->Warn(absl::StrCat("session ended (", spoiled_sessions_, " so far), ",
                         draining_ ? "leaving: " : "joining again: ",
                         status.message()));
  if (!draining_) return JoinAgain(now);
  pushing_.reset();  // Whoever takes the portion computes it again.
}

void AsyncWorker::OnOperationFailed(const absl::Status& status, Outbox* out) {
  const v1::Refusal::Reason reason = RefusalOf(status).reason();
  if (reason == v1::Refusal::JOB_FINISHED) return;  // The coordinator tells it.
  // A fenced process has a successor. It may not go on as the session it was:
  // its numbers would begin anew in one generation.
  out->Exit(reason == v1::Refusal::FENCED
                ? absl::AbortedError(status.message())
                : absl::FailedPreconditionError(status.message()));
}

void AsyncWorker::NoteFirstPush(Outbox* out) {
  if (std::exchange(first_push_noted_, true)) return;
  out->Note(absl::StrCat("first push of generation ", VersionName(generation_),
                         " acknowledged"),
            {{"generation", VersionName(generation_)}});
}

void AsyncWorker::OnPushEnded() {
  ++pushes_acknowledged_;
  pushed_step_ = pushing_->number;
  for (Leased& leased : portions_) {
    if (leased.portion.id() == pushing_->portion) {
      leased.acknowledged = pushing_->end;
    }
  }
  while (!portions_.empty() &&
         portions_.front().acknowledged == portions_.front().portion.end()) {
    portions_finished_ = portions_.front().portion.id();
    portions_.pop_front();
  }
  pushing_.reset();
}

void AsyncWorker::OnEvaluated(const IoResult& result, Outbox* out) {
  evaluate_io_ = 0;
  evaluating_ = false;
  const auto* evaluated =
      DynamicCastToGenerated<v1::EvaluateWeightsResult>(result.head.get());
  if (!result.status.ok() || evaluated == nullptr) {
    out->Exit(result.status.ok() ? absl::InternalError("no evaluation came")
                                 : result.status);
    return;
  }
  evaluation_ = evaluated->evaluation();
  const double accuracy = static_cast<double>(evaluation_.correct()) /
                          std::max<uint64_t>(1, evaluation_.examples());
  out->Note(absl::StrCat("evaluation after epoch ", evaluation_.epoch(),
                         ": accuracy ", accuracy, ", loss ",
                         evaluation_.loss()),
            {{"epoch", evaluation_.epoch()},
             {"accuracy", accuracy},
             {"loss", evaluation_.loss()}});
}

bool AsyncWorker::idle() const {
  if (sync_) {
    return cursor_.finished() && !computing_.has_value() &&
           !pushing_.has_value();
  }
  return no_more_ && portions_.empty() && !computing_.has_value() &&
         !pushing_.has_value();
}

uint64_t AsyncWorker::batches_left() const {
  const uint64_t batch = options_.job.batch_per_replica();
  uint64_t batches = 0;
  for (const Leased& leased : portions_) {
    batches += (leased.portion.end() - leased.computed + batch - 1) / batch;
  }
  return batches;
}

// ---- for people -------------------------------------------------------------

void AsyncWorker::OnFigures(IoId io, const v1::ComputeGradientResult& result,
                            Time now) {
  figures_.Computed(result.examples(), result.loss(), now);
  if (!portions_.empty()) {
    epoch_ = portions_.front().portion.epoch();
  } else if (computing_.has_value()) {
    epoch_ = computing_->epoch;
  }
  for (absl::optional<Step>* step : {&computing_, &pushing_}) {
    if (!step->has_value() || (*step)->io != io) continue;
    (*step)->computed_examples = result.examples();
    (*step)->loss = result.loss();
  }
}

v1::WorkerStats AsyncWorker::MakeStats() const {
  v1::WorkerStats stats;
  figures_.Fill(&stats);
  stats.set_epoch(epoch_);
  stats.set_pushes(pushes_acknowledged_);
  stats.set_given_up(given_up_);
  stats.set_late(late_);
  stats.set_quarantined(quarantine_.total());
  stats.set_spoiled_sessions(spoiled_sessions_);
  if (!session_.has_value() || epoch_ == 0) return stats;
  for (uint32_t s = 0; s < session_->placement().servers(); ++s) {
    stats.add_pull_p50_ms(absl::ToDoubleMilliseconds(session_->PullLatency(s)));
  }
  return stats;
}

std::string AsyncWorker::waiting_for() const {
  if (phase_ == Phase::kJoining) {
    return absl::StrCat("the coordinator to admit worker-", options_.index,
                        join_why_.empty() ? "" : ": ", join_why_);
  }
  if (session_.has_value() && sync_ && !cursor_.contributes()) {
    return absl::StrCat("the coordinator to let ",
                        WorkerName(options_.index, generation_),
                        " contribute");
  }
  return session_.has_value() ? session_->waiting_for() : "";
}

std::string AsyncWorker::overdue(Time now) const {
  if (phase_ == Phase::kJoining) return waiting_for();
  if (!session_.has_value()) return "";
  std::string whom = session_->overdue(now, kOverdue);
  const absl::Duration beat = absl::Milliseconds(options_.job.heartbeat_ms());
  if (whom.empty() && !silent_why_.empty() && now - heard_ > beat + kOverdue) {
    return absl::StrCat("the coordinator to answer: ", silent_why_);
  }
  return whom;
}

void AsyncWorker::FillStatus(v1::StatusReply* status) const {
  *status->mutable_generation() = generation_;
  if (session_.has_value()) {
    *status->mutable_configuration() = session_->configuration_version();
  }
  *status->mutable_worker() = MakeStats();
}

}  // namespace paramd
