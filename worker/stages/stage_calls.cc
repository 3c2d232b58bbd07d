#include "worker/stages/stage_calls.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "proto/job_end.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/stage.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Between the ids of a worker's calls and those of its session.
constexpr CallId kFirstCall = CallId{1} << 62;
// For the stages to hear of the end.
constexpr absl::Duration kTellDeadline = absl::Seconds(2);
constexpr absl::Duration kGreetDeadline = absl::Seconds(5);
constexpr absl::Duration kGreetAgain = absl::Seconds(1);

// A stage says each second that it is still computing: worth telling is what
// takes longer than kLong, while somebody asks.
constexpr absl::Duration kLong = absl::Seconds(30);
constexpr absl::Duration kAskedAgain = absl::Seconds(5);

bool IsOurs(CallId call) { return call >> 62 == 1; }

absl::Status Closed() { return absl::CancelledError("the worker is ending"); }

// What calls of CallEach that have been answered are waiting in. Shared with
// the calls, which may outlive it.
struct Answers {
  Mutex mutex;
  CondVar changed;
  std::deque<std::pair<size_t, StageCalls::Answer>> come ABSL_GUARDED_BY(mutex);
};

}  // namespace

Core* StageCalls::Around(Core* core, std::function<void()> wake) {
  core_ = core;
  wake_ = std::move(wake);
  return this;
}

void StageCalls::Call(Request request, Done done) {
  {
    const MutexLock lock(&mutex_);
    if (!closed_) {
      const CallId id = kFirstCall + next_call_++;
      open_[id] = std::move(done);
      asked_.emplace_back(id, std::move(request));
      done = nullptr;
    }
  }
  if (done != nullptr) return done({Closed(), nullptr, {}});
  wake_();
}

absl::Status StageCalls::CallEach(
    absl::FunctionRef<absl::optional<Request>()> next,
    absl::FunctionRef<absl::Status(size_t, const Answer&)> take) {
  const auto answers = std::make_shared<Answers>();
  size_t begun = 0;
  for (size_t taken = 0;; ++taken) {
    for (auto call = next(); call.has_value(); call = next()) {
      Call(*std::move(call), [answers, i = begun++](Answer answer) {
        const MutexLock lock(&answers->mutex);
        answers->come.emplace_back(i, std::move(answer));
        answers->changed.NotifyAll();
      });
    }
    if (taken == begun) return absl::OkStatus();
    std::pair<size_t, Answer> come;
    {
      const MutexLock lock(&answers->mutex);
      while (answers->come.empty()) answers->changed.Wait(&answers->mutex);
      come = std::move(answers->come.front());
      answers->come.pop_front();
    }
    absl::Status status = take(come.first, come.second);
    if (!status.ok()) return status;
  }
}

bool StageCalls::Pause(absl::Duration duration) {
  const Time until = MonotonicNow() + duration;
  const MutexLock lock(&mutex_);
  while (!closed_ && MonotonicNow() < until) {
    changed_.WaitFor(&mutex_, until - MonotonicNow());
  }
  return !closed_;
}

void StageCalls::Close() {
  std::map<CallId, Done> open;
  {
    const MutexLock lock(&mutex_);
    closed_ = true;
    open.swap(open_);
    asked_.clear();
    changed_.NotifyAll();
  }
  for (auto& [id, done] : open) done({Closed(), nullptr, {}});
}

void StageCalls::SetWaiting(uint32_t lane, std::string whom) {
  const MutexLock lock(&mutex_);
  waits_[lane] = std::move(whom);
}

v1::SessionId StageCalls::generation() const {
  const MutexLock lock(&mutex_);
  return generation_;
}

// ---- as a core --------------------------------------------------------------

void StageCalls::Start(Time now, Outbox* out) {
  if (exited_) return;  // Another core has failed before.
  next_greet_.assign(options_.count, Time());
  core_->Start(now, out);
  TellTheEnd(out);
}

void StageCalls::Receive(Message message, Time now, Outbox* out) {
  if (message.is_reply && IsOurs(message.call)) {
    return Answered(std::move(message), now, out);
  }
  if (exited_) {
    if (message.is_reply) return;
    return out->Refuse(message.call,
                       absl::UnavailableError("this worker has ended"));
  }
  Listen(message);
  core_->Receive(std::move(message), now, out);
  TellTheEnd(out);
}

void StageCalls::Listen(const Message& message) {
  if (!message.is_reply || message.head == nullptr) return;
  const auto* const joined =
      google::protobuf::DynamicCastToGenerated<v1::JoinReply>(message.head);
  if (joined == nullptr) return;
  const MutexLock lock(&mutex_);
  generation_ = joined->generation();
}

v1::StageHeader StageCalls::Header() const {
  v1::StageHeader header;
  header.set_worker(options_.index);
  header.set_incarnation(options_.incarnation);
  *header.mutable_generation() = generation();
  return header;
}

CallId StageCalls::NextCall() {
  const MutexLock lock(&mutex_);
  return kFirstCall + next_call_++;
}

void StageCalls::Greet(uint32_t stage, Outbox* out) {
  next_greet_[stage] = Time::Never();
  auto greet = std::make_unique<v1::GreetStageRequest>();
  *greet->mutable_header() = Header();
  const CallId id = NextCall();
  greetings_[id] = stage;
  out->Send(PeerId::Stage(options_.first + stage), id, std::move(greet), {},
            kGreetDeadline);
}

void StageCalls::OnGreeted(uint32_t stage, const absl::Status& status, Time now,
                           Outbox* out) {
  if (exited_) return;
  if (status.ok()) {
    next_greet_[stage] = now + kGreetEvery;
    return;
  }
  const v1::Refusal::Reason reason = RefusalOf(status).reason();
  if (reason != v1::Refusal::OTHER_JOB && reason != v1::Refusal::PROTOCOL) {
    next_greet_[stage] = now + kGreetAgain;
    return;
  }
  out->Exit(absl::InvalidArgumentError(status.message()));
  TellTheEnd(out);
}

void StageCalls::Answered(Message message, Time now, Outbox* out) {
  const auto greeting = greetings_.find(message.call);
  if (greeting != greetings_.end()) {
    const uint32_t stage = greeting->second;
    greetings_.erase(greeting);
    return OnGreeted(stage, message.status, now, out);
  }
  HearFrom(message, now);
  Done done;
  {
    const MutexLock lock(&mutex_);
    const auto it = open_.find(message.call);
    if (it != open_.end()) {
      done = std::move(it->second);
      open_.erase(it);
    }
  }
  if (done != nullptr) {
    Answer answer = {message.status, nullptr, std::move(message.payload)};
    if (message.status.ok()) {
      answer.head = Head(message.head->New());
      answer.head->CopyFrom(*message.head);
    }
    return done(std::move(answer));
  }
  if (tellings_.erase(message.call) == 0) return;  // Closed before.
  if (!message.status.ok()) {
    out->Warn(
        "a stage was not told that the job has ended",
        {{"stage", PeerName(message.from)}, {"why", message.status.message()}});
  }
  if (tellings_.empty()) out->Exit(exit_status_);
}

void StageCalls::HearFrom(const Message& message, Time now) {
  const auto* const reply =
      google::protobuf::DynamicCastToGenerated<v1::ComputeStageReply>(
          message.head);
  if (reply == nullptr || reply->state() == v1::ComputeStageReply::DONE) {
    computing_.erase(message.from);
    return;
  }
  computing_.emplace(message.from, Computing{now, now}).first->second.said =
      now;
}

void StageCalls::Completed(IoResult result, Time now, Outbox* out) {
  if (exited_) return;
  core_->Completed(std::move(result), now, out);
  TellTheEnd(out);
}

void StageCalls::Tick(Time now, Outbox* out) {
  if (exited_) return;
  SendAll(out);
  for (uint32_t stage = 0; stage < next_greet_.size(); ++stage) {
    if (next_greet_[stage] <= now) Greet(stage, out);
  }
  if (core_->next_tick() > now) return;
  core_->Tick(now, out);
  TellTheEnd(out);
}

Time StageCalls::next_tick() const {
  if (exited_) return Time::Never();
  Time next = core_->next_tick();
  for (const Time greet : next_greet_) next = std::min(next, greet);
  const MutexLock lock(&mutex_);
  return asked_.empty() ? next : Time();
}

void StageCalls::Drain(Time now, Outbox* out) {
  draining_ = true;
  if (exited_) return;
  core_->Drain(now, out);
  TellTheEnd(out);
}

std::string StageCalls::overdue(Time now) const {
  if (exited_) return "the stages to hear that the job has ended";
  {
    const MutexLock lock(&mutex_);
    for (const auto& [lane, whom] : waits_) {
      if (!whom.empty()) return whom;
    }
  }
  for (const auto& [stage, one] : computing_) {
    if (now - one.since > kLong && now - one.said < kAskedAgain) {
      return absl::StrCat(PeerName(stage), " to compute an operation");
    }
  }
  return core_->overdue(now);
}

void StageCalls::Fail(const absl::Status& why, Time now, Outbox* out) {
  if (exited_) return;
  failed_ = why;
  core_->Fail(why, now, out);
  TellTheEnd(out);
}

void StageCalls::SendAll(Outbox* out) {
  std::deque<std::pair<CallId, Request>> asked;
  {
    const MutexLock lock(&mutex_);
    asked.swap(asked_);
  }
  for (auto& [id, request] : asked) {
    out->Send(request.to, id, std::move(request.head),
              std::move(request.payload), request.deadline);
  }
}

void StageCalls::TellTheEnd(Outbox* out) {
  if (!out->exited) return;
  exited_ = true;
  exit_status_ = out->exit_status;
  Close();
  // Where another core has failed, this one's end says nothing of the job's.
  const absl::Status end = exit_status_.ok() ? failed_ : exit_status_;
  const bool ends_the_job = end.ok() ? !draining_ : EndsTheJob(end);
  if (!ends_the_job || options_.count == 0) return;
  out->exited = false;
  for (uint32_t i = 0; i < options_.count; ++i) {
    auto release = std::make_unique<v1::ReleaseStageRequest>();
    *release->mutable_header() = Header();
    *release->mutable_finished() = ToFinished(end);
    const CallId id = NextCall();
    tellings_.insert(id);
    out->Send(PeerId::Stage(options_.first + i), id, std::move(release), {},
              kTellDeadline);
  }
}

}  // namespace paramd
