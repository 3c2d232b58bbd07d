#include "worker/core/worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/wire_format.h"
#include "proto/job_end.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "proto/running_setting.h"
#include "worker/core/operation_kind.h"
#include "worker/core/same_model.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// A pull or push that is open for longer is told to people.
constexpr absl::Duration kOverdue = absl::Seconds(3);
// Beyond what a server may keep a pull for.
constexpr absl::Duration kAnswerTime = absl::Seconds(1);

}  // namespace

Worker::Worker(const Options& options)
    : options_(options),
      joining_(Joining(Time())),
      evaluation_(options.job.epochs()),
      quarantine_(options.index, options.job.quarantine_limit()) {}

void Worker::Start(Time now, Outbox* out) {
  WorkerTurn turn(now, out, &numbers_);
  joining_.emplace(now);
  Join(&turn);
}

// ---- events -----------------------------------------------------------------

void Worker::Receive(Message message, Time now, Outbox* out) {
  WorkerTurn turn(now, out, &numbers_);
  if (!message.is_reply) {
    out->Refuse(message.call, Refuse(v1::Refusal::INVALID, "method",
                                     "a worker does not serve this method"));
    return;
  }
  if (joining_.has_value()) {
    if (joining_->IsAnswer(message)) {
      const v1::JoinReply* const reply = joining_->Take(message, &turn);
      if (reply != nullptr) BeginSession(*reply, &turn);
    }
  } else if (session_->session.Receive(message, now, out)) {
    // The session's own.
  } else if (session_->input.IsAnswer(message)) {
    if (!session_->input.Take(message, session_->heartbeats.term(), &turn)) {
      OnCoordinatorRefused(message.status, &turn);
    }
  } else if (session_->heartbeats.IsAnswer(message)) {
    OnHeartbeat(message, &turn);
  }
  Advance(&turn);
}

void Worker::Completed(IoResult result, Time now, Outbox* out) {
  WorkerTurn turn(now, out, &numbers_);
  if (computation_.IsPart(result)) {
    if (session_ != nullptr && !session_->is_ending()) {
      session_->steps.TakePart(result, &turn);
    } else {
      computation_.DropPart();
    }
  } else if (computation_.IsResult(result)) {
    OnFigures(result, now);
    OnGradient(result, &turn);
  } else if (evaluation_.IsResult(result)) {
    evaluation_.Take(result, &turn);
  } else if (!result.status.ok()) {
    out->Exit(result.status);  // Of a portion that can't be fetched.
  }
  Advance(&turn);
}

void Worker::Tick(Time now, Outbox* out) {
  WorkerTurn turn(now, out, &numbers_);
  figures_.Tick(now);
  const absl::Duration patience =
      absl::Milliseconds(options_.job.start_timeout_ms());
  if (joining_.has_value() && now - joining_->since() > patience) {
    out->Exit(absl::DeadlineExceededError(
        absl::StrCat("not joined within ", absl::FormatDuration(patience),
                     "; waiting for ", waiting_for())));
    return;
  }
  if (session_ != nullptr) session_->session.Tick(now, out);
  Advance(&turn);
}

Time Worker::next_tick() const {
  Time next = figures_.next_tick();
  if (MayJoin()) next = std::min(next, joining_->ask_at());
  if (session_ == nullptr) return next;
  if (WantsPortion()) next = std::min(next, session_->input.ask_at());
  next = std::min(next, session_->heartbeats.next_tick());
  next = std::min(next, session_->session.next_tick());
  if (!session_->is_ending()) {
    next = std::min(next, session_->clock_teller.next_tick());
  }
  return next;
}

void Worker::Advance(WorkerTurn* turn) {
  if (turn->out->exited) return;
  if (joining_.has_value()) {
    if (MayJoin() && turn->now >= joining_->ask_at()) Join(turn);
    return;
  }
  while (session_ != nullptr && !session_->is_ending()) {
    const auto finished = session_->session.TakeFinished();
    if (!finished.has_value()) break;
    OnFinished(*finished, turn);
  }
  if (turn->out->exited || session_ == nullptr) return;
  AdvanceSession(turn);
}

void Worker::AdvanceSession(WorkerTurn* turn) {
  SessionState& session = *session_;
  if (!session.is_ending()) {
    if (!draining_) {
      evaluation_.Advance(session.heartbeats.last_reply(), turn);
    }
    session.plan->Advance(MakeView(), turn);
  }
  // A cut is told before the input that is used after it.
  if (session.heartbeats.is_due(turn->now) ||
      session.HasNewsToTell(evaluation_.newest(), leaving()) ||
      (session.heartbeats.is_open() &&
       evaluation_.HasPartToTell(session.heartbeats.last_request()))) {
    session.heartbeats.Send(MakeHeartbeat(), MakeStats(),
                            absl::Milliseconds(options_.job.heartbeat_ms()),
                            turn);
  }
  if (WantsPortion() && turn->now >= session.input.ask_at()) {
    session.input.Ask(session.MakeHeader(), turn);
  }
  if (!session.is_ending()) session.TellClock(draining_, turn);
}

v1::HeartbeatRequest Worker::MakeHeartbeat() const {
  v1::HeartbeatRequest request =
      session_->MakeHeartbeat(evaluation_.newest(), leaving());
  evaluation_.FillPart(&request);
  return request;
}

void Worker::Drain(Time now, Outbox* out) {
  if (joining_.has_value()) {
    out->Exit(absl::OkStatus());
    return;
  }
  WorkerTurn turn(now, out, &numbers_);
  draining_ = true;
  session_->steps.DropComputing();
  out->Note("draining: no more gradients; telling the coordinator");
  Advance(&turn);
}

bool Worker::drained() const {
  return draining_ && !session_->steps.pushing().has_value();
}

bool Worker::leaving() const { return drained() && session_->cut.is_heard(); }

// ---- sessions ---------------------------------------------------------------

// Weights that are still read may not be made anew.
bool Worker::MayJoin() const {
  return joining_.has_value() && joining_->may_ask() && !computation_.busy() &&
         !evaluation_.busy();
}

void Worker::Join(WorkerTurn* turn) {
  v1::JoinRequest join;
  join.mutable_task()->set_type(v1::WORKER);
  join.mutable_task()->set_index(options_.index);
  join.set_incarnation(options_.incarnation);
  join.set_replaces(options_.replaces);
  join.set_left_sessions(sessions_);
  join.set_joined(options_.joined);
  join.set_address(options_.address);
  join.set_host(options_.host);
  join.set_pid(options_.pid);
  join.set_job_digest(options_.job_digest);
  *join.mutable_data() = options_.data;
  joining_->Ask(join, turn);
}

void Worker::BeginSession(const v1::JoinReply& reply, WorkerTurn* turn) {
  if (!options_.variables.empty()) {
    const absl::Status same = CheckSameModel(options_.index, options_.variables,
                                             reply.configuration().layout());
    if (!same.ok()) {
      turn->out->Exit(same);
      return;
    }
  }
  SessionState::Options options;
  options.session.worker = options_.index;
  options.session.chunk_bytes = options_.job.chunk_bytes();
  options.session.push_format = FormatOf(options_.job.push_format());
  options.session.pull_format = FormatOf(options_.job.pull_format());
  options.session.takes_packed =
      options_.packs_pulls && options_.job.optimizer().pruning_size() > 0;
  options.session.give_up_after = options_.give_up_after;
  options.session.request_id_seed = options_.incarnation + sessions_;
  options.session.first_call = ++sessions_ << 32;
  // A pull may be kept for as long as the mode says.
  options.session.call_deadline = std::max(
      options.session.call_deadline,
      absl::Milliseconds(options_.job.park_timeout_ms()) + kAnswerTime);
  options.plan.worker = options_.index;
  options.plan.examples = options_.examples;
  options.plan.job = &options_.job;
  options.incarnation = options_.incarnation;
  options.test_set = options_.test_set;
  options.layers_from_bytes = options_.layers_from_bytes;
  options.observer = options_.observer;
  options.weight_memory = &options_.weight_memory;
  auto session = SessionState::Create(options, reply, &computation_, turn->now);
  if (!session.ok()) {
    turn->out->Exit(session.status());
    return;
  }
  session_ = *std::move(session);
  joining_.reset();
  figures_.BeginSession(turn->now);
  HearLogLevel(reply.configuration(), turn);
  evaluation_.BeginSession(&session_->session);
  const std::string name = VersionName(session_->generation());
  turn->out->Note(absl::StrCat("joined as generation ", name),
                  {{"generation", name}});
}

// Whoever runs this core makes it so.
void Worker::HearLogLevel(const v1::Configuration& told, WorkerTurn* turn) {
  v1::SettingChange change;
  change.set_key("log_level");
  change.set_value(RunningSetting(told, change.key()));
  if (change.value() == log_level_) return;
  log_level_ = change.value();
  turn->StartIo(std::make_unique<v1::SettingChange>(change));
}

void Worker::JoinAgain(Time now) {
  session_.reset();
  evaluation_.EndSession();
  joining_.emplace(now);
}

// ---- the coordinator --------------------------------------------------------

void Worker::OnHeartbeat(const Message& message, WorkerTurn* turn) {
  SessionState& session = *session_;
  if (session.is_ending()) {
    turn->out->Exit(absl::OkStatus());
    return;
  }
  const uint64_t term = session.heartbeats.term();
  if (!session.heartbeats.Take(message, turn->now)) {
    OnCoordinatorRefused(message.status, turn);
    return;
  }
  if (session.heartbeats.term() > term) {
    figures_.TellAnew();
  } else {
    figures_.Told(session.heartbeats.last_stats());
  }
  const v1::HeartbeatReply& news = session.heartbeats.last_reply();
  if (session.is_ending() && options_.on_end != nullptr) {
    options_.on_end(news);
  }
  if (news.tell_held()) session.input.AskAnew(turn->now);
  session.cut.Heard(session.heartbeats.last_request().cut());
  session.CutIfAsked();
  if (news.has_configuration()) {
    const absl::Status configured = session.Configure(news.configuration());
    if (!configured.ok()) {
      turn->out->Exit(configured);
      return;
    }
    HearLogLevel(session.configuration(), turn);
  }
  if (session.plan->LeftOut(news.left_out_step(), turn)) ++late_;
}

void Worker::OnCoordinatorRefused(const absl::Status& status,
                                  WorkerTurn* turn) {
  const v1::Refusal refusal = RefusalOf(status);
  const bool gone = refusal.reason() == v1::Refusal::FENCED ||
                    (refusal.reason() == v1::Refusal::NOT_READY &&
                     refusal.entity() == "session");
  if (gone && draining_) {
    turn->out->Note("the coordinator knows that this worker has left");
    turn->out->Exit(absl::OkStatus());
  } else if (refusal.reason() == v1::Refusal::FENCED) {
    turn->out->Exit(absl::AbortedError(status.message()));
  } else if (refusal.reason() == v1::Refusal::JOB_FINISHED) {
    turn->out->Exit(EndFor(status));
  } else if (refusal.reason() == v1::Refusal::OTHER_JOB ||
             refusal.reason() == v1::Refusal::PROTOCOL) {
    turn->out->Exit(absl::InvalidArgumentError(status.message()));
  } else if (gone) {
    turn->out->Note("the coordinator knows no such session; joining again");
    JoinAgain(turn->now);
  } else {
    // A coordinator that is gone said it to the servers before.
    if (!end_.ok()) return turn->out->Exit(end_);
    Heartbeats& heartbeats = session_->heartbeats;
    heartbeats.Unanswered(status);
    const absl::Duration silent = turn->now - heartbeats.last_heard();
    if (silent > absl::Milliseconds(options_.job.start_timeout_ms())) {
      turn->out->Exit(absl::UnavailableError(absl::StrCat(
          "the coordinator has not answered for ", absl::FormatDuration(silent),
          ": ", heartbeats.why_silent())));
    }
  }
}

bool Worker::WantsPortion() const {
  const SessionState& session = *session_;
  if (draining_ || session.is_ending() || !session.plan->takes_portions() ||
      !session.input.may_ask() || session.heartbeats.last_reply().tell_held()) {
    return false;
  }
  return session.input.BatchesLeft(session.plan->examples_per_push()) <
         options_.job.portion_batches();
}

// ---- steps ------------------------------------------------------------------

Plan::View Worker::MakeView() const {
  return {.clock = session_->clock(),
          .stamp = session_->cut.stamp(),
          .draining = draining_,
          .stop = session_->heartbeats.last_reply().stop()};
}

void Worker::OnFinished(const Session::Finished& finished, WorkerTurn* turn) {
  SessionState& session = *session_;
  const OperationKind kind = KindOf(finished.op);
  const absl::Status& status = finished.status;
  const bool given_up = absl::IsDeadlineExceeded(status);
  if (given_up) turn->out->Note(status.ToString());
  if (kind == kPush) {
    if (status.ok()) {
      quarantine_.Applied();
      CountAcknowledged(session.steps.Acknowledged());
      session.NoteFirstPush(turn->out);
      if (!first_push_.has_value()) first_push_ = turn->now;
    } else if (OnPushFailed(status, turn)) {
      return;
    }
    session.plan->PushEnded(
        session.steps.PushEnded(finished.pulled, turn->now));
  } else if (!status.ok() && !given_up) {
    OnOperationFailed(status, turn->out);
  } else if (kind == kLookup) {
    session.steps.LookedUp(given_up, turn);
  } else if (kind == kPull) {
    session.steps.Pulled(given_up, turn->now);
    if (!given_up) session.plan->Pulled();
  } else if (kind == kEvaluationLookup) {
    evaluation_.LookedUp(given_up, turn);
  } else {
    evaluation_.Pulled(given_up, turn);
  }
}

bool Worker::OnPushFailed(const absl::Status& status, WorkerTurn* turn) {
  const bool may_give_up = session_->plan->may_give_up_pushes();
  const v1::Refusal refusal = RefusalOf(status);
  if (absl::IsDeadlineExceeded(status)) {
    ++given_up_;
    // A step of sync mode has no use for a contribution that is given up.
    if (!may_give_up) {
      turn->out->Exit(absl::UnavailableError(status.message()));
    }
    return !may_give_up;
  }
  switch (refusal.reason()) {
    case v1::Refusal::LATE:
      ++late_;
      session_->plan->Late(refusal.step(), turn);
      return true;
    case v1::Refusal::SUPERSEDED:
      OnSpoiled(status, turn);
      return true;
    case v1::Refusal::QUARANTINED:
      if (!may_give_up) break;
      OnQuarantined(status, turn->out);
      return false;
    default:
      break;
  }
  OnOperationFailed(status, turn->out);
  return true;
}

void Worker::OnOperationFailed(const absl::Status& status, Outbox* out) {
  const v1::Refusal::Reason reason = RefusalOf(status).reason();
  if (reason == v1::Refusal::JOB_FINISHED) {  // The coordinator tells it.
    end_ = EndFor(status);
    return;
  }
  // A fenced process has a successor. It may not go on as the session it was:
  // its numbers would begin anew in one generation.
  out->Exit(reason == v1::Refusal::FENCED
                ? absl::AbortedError(status.message())
                : absl::FailedPreconditionError(status.message()));
}

void Worker::OnQuarantined(const absl::Status& status, Outbox* out) {
  const absl::Status enough = quarantine_.Refused(status.message());
  const uint64_t push = session_->steps.pushes_started();
  if (!enough.ok()) {
    out->Exit(enough);
  } else if (quarantine_.is_worth_a_note()) {
    out->Warn(absl::StrCat("push ", push, " given up (", quarantine_.total(),
                           " so far): ", status.message()),
              {{"push", push}, {"quarantined", quarantine_.total()}});
  }
}

// Another generation fences who pushes as this one; what is not in is computed
// again.
void Worker::OnSpoiled(const absl::Status& status, WorkerTurn* turn) {
  ++spoiled_sessions_;
  turn->out->Warn(absl::StrCat(
      "session ended (", spoiled_sessions_, " so far), ",
      draining_ ? "leaving: " : "joining again: ", status.message()));
  if (!draining_) return JoinAgain(turn->now);
  session_->steps.DropPush();  // Whoever takes the portion computes it again.
}

void Worker::OnGradient(const IoResult& result, WorkerTurn* turn) {
  computation_.End(result.io);
  if (session_ == nullptr || session_->is_ending()) return;
  const absl::Status status =
      session_->steps.TakeResult(result, options_.index, turn);
  if (status.ok()) return;
  if (!draining_) return turn->out->Exit(status);
  // Whoever takes the portion computes the push that has begun to leave again.
  turn->out->Note(absl::StrCat("the rest of the last push is not there: ",
                               status.message()));
  session_->steps.CancelPush();
}

// ---- for people -------------------------------------------------------------

void Worker::OnFigures(const IoResult& result, Time now) {
  const auto* computed =
      DynamicCastToGenerated<v1::ComputeGradientResult>(result.head.get());
  if (computed == nullptr) return;
  figures_.Computed(computed->examples(), computed->loss(), now);
  if (session_ == nullptr) return;
  if (!session_->input.empty()) {
    epoch_ = session_->input.epoch();
  } else if (session_->steps.computing() != nullptr) {
    epoch_ = session_->steps.computing()->input.epoch;
  }
  CountAcknowledged(session_->steps.Note(result.io, *computed));
}

void Worker::CountAcknowledged(const TrainingStep* step) {
  if (step == nullptr) return;
  figures_.Acknowledged(step->number, step->input.epoch,
                        step->computed_examples, step->loss, step->metrics);
}

v1::WorkerStats Worker::MakeStats() const {
  v1::WorkerStats stats;
  figures_.Fill(&stats);
  stats.set_epoch(epoch_);
  stats.set_given_up(given_up_);
  stats.set_late(late_);
  stats.set_quarantined(quarantine_.total());
  stats.set_spoiled_sessions(spoiled_sessions_);
  if (session_ == nullptr) return stats;
  stats.set_pushes(session_->steps.pushes_ended());
  if (epoch_ == 0) return stats;
  const Session& session = session_->session;
  for (uint32_t s = 0; s < session.placement().servers(); ++s) {
    stats.add_pull_p50_ms(absl::ToDoubleMilliseconds(session.PullLatency(s)));
  }
  return stats;
}

std::string Worker::waiting_for() const {
  if (joining_.has_value()) {
    return absl::StrCat("the coordinator to admit worker-", options_.index,
                        joining_->why().empty() ? "" : ": ", joining_->why());
  }
  const std::string whom = session_->plan->waiting_for(session_->generation());
  return whom.empty() ? session_->session.waiting_for() : whom;
}

std::string Worker::overdue(Time now) const {
  if (joining_.has_value()) return waiting_for();
  std::string whom = session_->session.overdue(now, kOverdue);
  const Heartbeats& heartbeats = session_->heartbeats;
  const absl::Duration beat = absl::Milliseconds(options_.job.heartbeat_ms());
  if (whom.empty() && !heartbeats.why_silent().empty() &&
      now - heartbeats.last_heard() > beat + kOverdue) {
    return absl::StrCat("the coordinator to answer: ", heartbeats.why_silent());
  }
  return whom.empty() ? computation_.overdue(now) : whom;
}

void Worker::FillStatus(Time now, v1::StatusReply* status) const {
  if (session_ != nullptr) {
    *status->mutable_generation() = Unnamed(session_->generation());
    *status->mutable_configuration() =
        session_->session.configuration_version();
  }
  *status->mutable_worker() = MakeStats();
  figures_.FillSteps(status->mutable_worker()->mutable_steps());
  if (first_push_.has_value()) {
    status->set_first_push_ago_ms(
        absl::ToInt64Milliseconds(now - *first_push_));
  }
}

}  // namespace paramd
