// A worker's dealings with the coordinator: joining, input, heartbeats.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/wire_format.h"
#include "proto/refusal.h"
#include "worker/core/async_worker.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kJoinDeadline = absl::Seconds(5);
// Short, so that a lost answer is asked for again several times within the
// time that a finished coordinator stays.
constexpr absl::Duration kCallDeadline = absl::Seconds(1);
constexpr absl::Duration kRetry = absl::Milliseconds(200);
constexpr absl::Duration kJoinPoll = absl::Milliseconds(20);
constexpr absl::Duration kPortionPoll = absl::Milliseconds(50);

}  // namespace

// ---- joining ----------------------------------------------------------------

// A weights buffer that is still read may not be made anew.
bool AsyncWorker::MayJoin() const {
  return phase_ == Phase::kJoining && join_call_.call == 0 &&
         compute_io_ == 0 && evaluate_io_ == 0;
}

void AsyncWorker::SendJoin(Outbox* out) {
  auto join = std::make_unique<v1::JoinRequest>();
  join->mutable_task()->set_type(v1::WORKER);
  join->mutable_task()->set_index(options_.index);
  join->set_incarnation(options_.incarnation);
  join->set_replaces(options_.replaces);
  join->set_left_sessions(sessions_);
  join->set_host(options_.host);
  join->set_pid(options_.pid);
  join->set_job_digest(options_.job_digest);
  *join->mutable_data() = options_.data;
  join_call_.call = next_call_++;
  join_call_.retry_at = Time::Never();
  out->Send(PeerId::Coordinator(), join_call_.call, std::move(join), {},
            kJoinDeadline);
}

void AsyncWorker::OnJoined(const v1::JoinReply& reply, Time now, Outbox* out) {
  Session::Options options;
  options.worker = options_.index;
  options.chunk_bytes = options_.job.chunk_bytes();
  options.push_format = FormatOf(options_.job.push_format());
  options.pull_format = FormatOf(options_.job.pull_format());
  options.give_up_after = options_.give_up_after;
  options.request_id_seed = options_.incarnation + sessions_;
  options.first_call = ++sessions_ << 32;
  // A pull may be kept for as long as the mode says.
  options.call_deadline = std::max(
      options.call_deadline,
      absl::Milliseconds(options_.job.park_timeout_ms()) + kCallDeadline);
  session_.emplace(options);
  const absl::Status configured =
      session_->Configure(reply.configuration(), reply.generation());
  if (!configured.ok()) {
    out->Exit(configured);
    return;
  }
  generation_ = reply.generation();
  term_ = reply.configuration().version().term();
  start_clock_ = reply.start_clock();
  figures_.BeginSession(now);
  cut_.BeginSession();
  clock_teller_.BeginSession();
  clock_teller_.Configure(reply.configuration());
  RaiseClock(reply.configuration());
  OnConfiguration(reply.configuration());
  for (Weights& weights : weights_) weights = Weights(session_->placement());
  phase_ = Phase::kRunning;
  heard_ = now;
  silent_why_.clear();
  portion_call_.retry_at = now;
  heartbeat_call_.retry_at = now;
  join_why_.clear();
  last_wait_.clear();
  out->Note(absl::StrCat("joined as generation ", VersionName(generation_)),
            {{"generation", VersionName(generation_)}});
}

void AsyncWorker::OnJoinFailed(const absl::Status& status, Time now,
                               Outbox* out) {
  const v1::Refusal refusal = RefusalOf(status);
  switch (refusal.reason()) {
    case v1::Refusal::TASK_TAKEN:
      out->Exit(absl::AlreadyExistsError(status.message()));
      return;
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
    case v1::Refusal::INVALID:
      out->Exit(absl::InvalidArgumentError(status.message()));
      return;
    case v1::Refusal::JOB_FINISHED:
      out->Note("the job is finished");
      out->Exit(absl::OkStatus());
      return;
    default:
      break;
  }
  join_why_ = std::string(status.message());
  if (refusal.reason() == v1::Refusal::NOT_READY) {
    last_wait_ = refusal.waiting_for();
  } else if (!last_wait_.empty()) {
    // Who was missing is why nobody answers any more.
    absl::StrAppend(&join_why_, "; it waited for ", last_wait_);
  }
  join_call_.retry_at =
      now +
      (refusal.reason() == v1::Refusal::NOT_READY
           ? std::max(kJoinPoll, absl::Milliseconds(refusal.retry_after_ms()))
           : kRetry);
}

void AsyncWorker::JoinAgain(Time now) {
  phase_ = Phase::kJoining;
  started_ = now;
  session_.reset();
  pulls_started_ = pulls_done_ = 0;
  first_push_noted_ = false;
  steps_started_ = pushes_started_ = pushes_acknowledged_ = 0;
  computing_.reset();
  pushing_.reset();
  cursor_.Clear();
  pulled_step_.reset();
  pushed_step_ = 0;
  portions_.clear();
  portion_call_ = {};
  portion_number_ = portions_finished_ = last_portion_ = 0;
  portion_answered_ = true;
  no_more_ = none_now_ = false;
  heartbeat_call_ = {};
  heartbeat_number_ = 0;
  told_.Clear();
  news_.Clear();
  evaluating_ = evaluate_io_ != 0;
  evaluation_.Clear();
  join_call_ = {.call = 0, .retry_at = now};
}

// ---- talking to the coordinator ---------------------------------------------

void AsyncWorker::AdvanceCoordinator(Time now, Outbox* out) {
  // A cut is told before the input that is used behind it.
  const bool due = heartbeat_call_.call == 0 && now >= heartbeat_call_.retry_at;
  if (due || HasNewsToTell()) SendHeartbeat(now, out);
  if (WantsPortion() && now >= portion_call_.retry_at) TakePortion(out);
  const ClockTeller::State state = MakeClockState();
  if (phase_ == Phase::kRunning && clock_teller_.IsDue(state, now)) {
    clock_teller_.Tell(state, MakeHeader(), now, &next_call_, out);
  }
}

// Who has nothing to do for now is not waited for; it may have again, if another
// worker leaves its portions behind.
ClockTeller::State AsyncWorker::MakeClockState() const {
  const bool at_rest = portions_.empty() && !computing_.has_value() &&
                       !pushing_.has_value();
  return {.clock = clock(),
          .no_input = draining_ || (at_rest && (none_now_ || no_more_))};
}

void AsyncWorker::RaiseClock(const v1::Configuration& configuration) {
  for (const v1::WorkerMember& member : configuration.workers()) {
    if (member.index() == options_.index &&
        member.generation() == generation_) {
      start_clock_ = std::max(start_clock_, member.start_clock());
    }
  }
}

bool AsyncWorker::WantsPortion() const {
  return phase_ == Phase::kRunning && !sync_ && !draining_ && !no_more_ &&
         portion_call_.call == 0 && !news_.tell_held() &&
         batches_left() < options_.job.portion_batches();
}

v1::Header AsyncWorker::MakeHeader() const {
  v1::Header header;
  *header.mutable_configuration() = session_->configuration_version();
  header.set_term(header.configuration().term());
  header.set_worker(options_.index);
  header.set_incarnation(options_.incarnation);
  *header.mutable_generation() = generation_;
  header.set_sequence(pushes_acknowledged_);
  *header.mutable_snapshot() = cut_.stamp();
  return header;
}

void AsyncWorker::TakePortion(Outbox* out) {
  if (portion_answered_) ++portion_number_;
  portion_answered_ = false;
  auto request = std::make_unique<v1::PortionRequest>();
  *request->mutable_header() = MakeHeader();
  request->set_finished_id(portions_finished_);
  request->set_number(portion_number_);
  portion_call_.call = next_call_++;
  out->Send(PeerId::Coordinator(), portion_call_.call, std::move(request), {},
            kCallDeadline);
}

void AsyncWorker::OnPortion(const Message& message, Time now, Outbox* out) {
  portion_call_.call = 0;
  portion_call_.retry_at = now;
  const auto* reply = DynamicCastToGenerated<v1::PortionReply>(message.head);
  if (!message.status.ok() || reply == nullptr || reply->term() < term_) {
    portion_call_.retry_at = now + kRetry;
    OnCoordinatorRefused(message.status, now, out);
    return;
  }
  portion_answered_ = true;
  no_more_ = reply->no_more();
  none_now_ = !reply->has_portion();
  if (!reply->has_portion()) {
    portion_call_.retry_at = now + kPortionPoll;
    return;
  }
  const v1::Portion& portion = reply->portion();
  if (portion.begin() >= portion.end()) return;
  last_portion_ = portion.id();
  portions_.push_back({portion, portion.begin(), portion.begin()});
  auto fetch = std::make_unique<v1::FetchPortion>();
  *fetch->mutable_portion() = portion;
  out->StartIo(next_io_++, std::move(fetch));
}

v1::WorkerCut AsyncWorker::PresentCut() const {
  v1::WorkerCut cut;
  cut.set_sequence(pushes_started_);
  cut.set_acknowledged(!pushing_.has_value());
  cut.set_last_portion(last_portion_);
  for (const Leased& leased : portions_) {
    v1::Portion* left = cut.add_remaining();
    *left = leased.portion;
    left->set_begin(pushing_.has_value() &&
                            pushing_->portion == leased.portion.id()
                        ? pushing_->end
                        : leased.acknowledged);
  }
  return cut;
}

v1::WorkerCut AsyncWorker::MakeCut() const {
  if (leaving()) return PresentCut();
  if (!IsZero(news_.snapshot()) && news_.snapshot() == cut_.stamp()) {
    return cut_.Said(pushes_acknowledged_);
  }
  return news_.stop() ? PresentCut() : v1::WorkerCut();
}

v1::HeldInput AsyncWorker::MakeHeld() const {
  v1::HeldInput held;
  held.set_term(term_);
  for (const Leased& leased : portions_) {
    v1::HeldInput::Part* const part = held.add_parts();
    *part->mutable_portion() = leased.portion;
    part->set_used_to(leased.acknowledged);
  }
  held.set_last_portion(last_portion_);
  held.set_answered(portion_number_ - (portion_answered_ ? 0 : 1));
  return held;
}

v1::HeartbeatRequest AsyncWorker::MakeHeartbeat() const {
  v1::HeartbeatRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_clock(clock());
  request.set_no_input(idle());
  request.set_leaving(leaving());
  *request.mutable_cut() = MakeCut();
  *request.mutable_evaluation() = evaluation_;
  request.set_state(news_.state());
  *request.mutable_snapshot() = news_.snapshot();
  request.set_stop(news_.stop());
  request.set_left_out_step(news_.left_out_step());
  request.set_evaluate_epoch(news_.evaluate_epoch());
  request.set_evaluate_final(news_.evaluate_final());
  if (news_.tell_held()) *request.mutable_held() = MakeHeld();
  return request;
}

bool AsyncWorker::HasNewsToTell() const {
  if (heartbeat_call_.call == 0) return false;
  return HasCutToTell() || idle() != told_.no_input() ||
         leaving() != told_.leaving() ||
         evaluation_.epoch() != told_.evaluation().epoch() ||
         evaluation_.final() != told_.evaluation().final();
}

bool AsyncWorker::HasCutToTell() const {
  if (IsZero(news_.snapshot()) && !news_.stop()) return false;
  const v1::WorkerCut cut = MakeCut();
  const v1::WorkerCut& told = told_.cut();
  return cut.snapshot() != told.snapshot() ||
         cut.sequence() != told.sequence() ||
         cut.acknowledged() != told.acknowledged();
}

void AsyncWorker::SendHeartbeat(Time /*now*/, Outbox* out) {
  told_ = MakeHeartbeat();
  told_.set_number(++heartbeat_number_);
  auto request = std::make_unique<v1::HeartbeatRequest>(told_);
  *request->mutable_stats() = MakeStats();
  heartbeat_call_.call = next_call_++;
  out->Send(PeerId::Coordinator(), heartbeat_call_.call, std::move(request), {},
            kCallDeadline + absl::Milliseconds(options_.job.heartbeat_ms()));
}

void AsyncWorker::OnHeartbeat(const Message& message, Time now, Outbox* out) {
  heartbeat_call_.call = 0;
  heartbeat_call_.retry_at = now;
  if (phase_ == Phase::kEnding) {
    out->Exit(absl::OkStatus());
    return;
  }
  const auto* reply = DynamicCastToGenerated<v1::HeartbeatReply>(message.head);
  if (!message.status.ok() || reply == nullptr || reply->term() < term_) {
    heartbeat_call_.retry_at = now + kRetry;
    OnCoordinatorRefused(message.status, now, out);
    return;
  }
  heard_ = now;
  silent_why_.clear();
  term_ = reply->term();
  news_ = *reply;
  // Of an earlier coordinator it takes nothing any more.
  if (news_.tell_held()) portion_call_ = {.call = 0, .retry_at = now};
  cut_.Heard(told_.cut());
  if (cut_.IsAsked(news_.snapshot())) {
    v1::WorkerCut cut = PresentCut();
    *cut.mutable_snapshot() = news_.snapshot();
    cut_.Make(cut);
  }
  if (reply->has_configuration()) {
    const absl::Status configured =
        session_->Configure(reply->configuration(), generation_);
    clock_teller_.Configure(reply->configuration());
    RaiseClock(reply->configuration());
    OnConfiguration(reply->configuration());
    news_.clear_configuration();
    if (!configured.ok()) {
      out->Exit(configured);
      return;
    }
  }
  OnLeftOut(news_.left_out_step(), out);
  if (news_.state() == v1::FINISHED) phase_ = Phase::kEnding;
}

void AsyncWorker::OnCoordinatorRefused(const absl::Status& status, Time now,
                                       Outbox* out) {
  const v1::Refusal refusal = RefusalOf(status);
  const bool gone = refusal.reason() == v1::Refusal::FENCED ||
                    (refusal.reason() == v1::Refusal::NOT_READY &&
                     refusal.entity() == "session");
  if (gone && draining_) {
    out->Note("the coordinator knows that this worker has left");
    out->Exit(absl::OkStatus());
  } else if (refusal.reason() == v1::Refusal::FENCED) {
    out->Exit(absl::AbortedError(status.message()));
  } else if (refusal.reason() == v1::Refusal::JOB_FINISHED) {
    out->Exit(absl::OkStatus());
  } else if (refusal.reason() == v1::Refusal::OTHER_JOB ||
             refusal.reason() == v1::Refusal::PROTOCOL) {
    out->Exit(absl::InvalidArgumentError(status.message()));
  } else if (gone) {
    out->Note("the coordinator knows no such session; joining again");
    JoinAgain(now);
  } else {
    silent_why_ = std::string(status.message());
    if (now - heard_ > absl::Milliseconds(options_.job.start_timeout_ms())) {
      out->Exit(absl::UnavailableError(absl::StrCat(
          "the coordinator has not answered for ",
          absl::FormatDuration(now - heard_), ": ", silent_why_)));
    }
  }
}

}  // namespace paramd
