#include "tests/sim/bound_witness.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "proto/configuration_changes.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// A tick may come a little late.
constexpr absl::Duration kLateTick = absl::Milliseconds(50);

// The answer to `call`, if it is there.
const Outbox::ReplyItem* AnswerTo(CallId call, const Outbox& out) {
  for (const Outbox::ReplyItem& reply : out.replies) {
    if (reply.call == call) return &reply;
  }
  return nullptr;
}

}  // namespace

void BoundWitness::Counts::Add(const Counts& other) {
  pulls += other.pulls;
  parked += other.parked;
  told += other.told;
  freed_by_clock += other.freed_by_clock;
  freed_by_silence += other.freed_by_silence;
  freed_by_configuration += other.freed_by_configuration;
}

void BoundWitness::Receive(Message message, Time now, Outbox* out) {
  const auto* pull = DynamicCastToGenerated<v1::PullRequest>(message.head);
  const auto* push = DynamicCastToGenerated<v1::PushRequest>(message.head);
  const auto* tell = DynamicCastToGenerated<v1::TellClockRequest>(message.head);
  const auto* configure =
      DynamicCastToGenerated<v1::ConfigureRequest>(message.head);
  const CallId call = message.call;
  if (pull != nullptr && pull->has_clock()) open_[call] = {*pull, now, true};
  Wake(now);
  cause_ = Cause::kClock;
  core_.Receive(std::move(message), now, out);
  const Outbox::ReplyItem* const answer = AnswerTo(call, *out);
  const absl::Status status =
      answer == nullptr ? absl::OkStatus() : answer->status;
  if (configure != nullptr && answer != nullptr) {
    // One that is being filled has taken it over as well.
    const v1::ConfigurationVersion version =
        status.ok() ? static_cast<const v1::ConfigureReply&>(*answer->head)
                          .configuration()
                    : RefusalOf(status).version();
    const auto whole = Expand(configuration_, configure->configuration());
    if (whole.ok() && version == whole->version() &&
        version > configuration_.version()) {
      TakeOver(*whole, now);
    }
  }
  if (bounded() && status.ok()) {
    if (pull != nullptr && pull->has_clock()) {
      Hear(pull->header(), pull->clock(), now);
    }
    if (push != nullptr) Hear(push->header(), push->clock(), now);
    if (tell != nullptr) HearTell(*tell, now);
  }
  CheckAnswers(*out, now);
}

void BoundWitness::Completed(IoResult result, Time now, Outbox* out) {
  core_.Completed(std::move(result), now, out);
  CheckAnswers(*out, now);
}

void BoundWitness::Tick(Time now, Outbox* out) {
  Wake(now);
  cause_ = Cause::kSilence;
  core_.Tick(now, out);
  CheckAnswers(*out, now);
}

void BoundWitness::Drain(Time now, Outbox* out) {
  core_.Drain(now, out);
  CheckAnswers(*out, now);
}

// Where nothing at all was heard for long, the silence was not the workers'.
void BoundWitness::Wake(Time now) {
  const absl::Duration pause = now - std::exchange(woken_, now);
  if (!bounded() ||
      pause < std::max(options_.lease / 2, absl::Milliseconds(500))) {
    return;
  }
  for (auto& [worker, session] : sessions_) {
    session.heard = session.heard + pause;
  }
}

void BoundWitness::TakeOver(const v1::Configuration& told, Time now) {
  const bool was_bounded = bounded();
  configuration_ = told;
  const std::map<uint32_t, Session> before = std::exchange(sessions_, {});
  for (const v1::WorkerMember& member : told.workers()) {
    Session session = {member.generation(), member.start_clock(),
                       member.start_clock(), now};
    const auto known = before.find(member.index());
    if (known != before.end() &&
        known->second.generation == session.generation) {
      session = known->second;
      session.clock += member.start_clock() - session.start;
      session.start = member.start_clock();
    }
    if (bounded() && !was_bounded) {
      session.heard = now;
      session.no_input = false;
    }
    sessions_[member.index()] = session;
  }
  cause_ = Cause::kConfiguration;
}

void BoundWitness::Hear(const v1::Header& header, uint64_t clock, Time now) {
  const auto session = sessions_.find(header.worker());
  if (session == sessions_.end() ||
      session->second.generation != header.generation()) {
    return;
  }
  session->second.clock = std::max(session->second.clock, clock);
  session->second.heard = now;
}

void BoundWitness::HearTell(const v1::TellClockRequest& told, Time now) {
  Hear(told.header(), told.clock(), now);
  const auto session = sessions_.find(told.header().worker());
  if (session == sessions_.end() || told.number() <= session->second.told) {
    return;
  }
  session->second.told = told.number();
  session->second.no_input = told.no_input();
}

absl::optional<std::pair<uint32_t, BoundWitness::Session>>
BoundWitness::Slowest(Time now) const {
  absl::optional<std::pair<uint32_t, Session>> slowest;
  for (const auto& [worker, session] : sessions_) {
    if (session.no_input || now - session.heard > options_.lease) continue;
    if (!slowest.has_value() || session.clock < slowest->second.clock) {
      slowest = {worker, session};
    }
  }
  return slowest;
}

bool BoundWitness::MayRead(const v1::PullRequest& pull, Time now) const {
  const auto slowest = Slowest(now);
  return !bounded() || !slowest.has_value() ||
         pull.clock() <=
             slowest->second.clock + configuration_.consistency().bound();
}

void BoundWitness::CheckAnswers(const Outbox& out, Time now) {
  for (const Outbox::ReplyItem& reply : out.replies) {
    const auto pull = open_.find(reply.call);
    if (pull == open_.end()) continue;
    CheckAnswer(pull->second, reply.status, now);
    open_.erase(pull);
  }
  if (out.exited) {
    open_.clear();
    return;
  }
  CheckOpen(now);
}

void BoundWitness::CheckAnswer(const Pull& pull, const absl::Status& status,
                               Time now) {
  if (bounded() && pull.is_new) ++counts_.pulls;
  if (status.ok() && !MayRead(pull.request, now)) {
    Fail(absl::StrCat("a pull at clock ", pull.request.clock(),
                      " was answered to worker-",
                      pull.request.header().worker()));
  }
  if (status.ok() && !pull.is_new) {
    ++(cause_ == Cause::kClock     ? counts_.freed_by_clock
       : cause_ == Cause::kSilence ? counts_.freed_by_silence
                                   : counts_.freed_by_configuration);
  }
  const v1::Refusal refusal = RefusalOf(status);
  if (refusal.reason() != v1::Refusal::WAIT) return;
  ++counts_.told;
  const auto slowest = Slowest(now);
  if (!slowest.has_value() ||
      refusal.waiting_for() !=
          WorkerName(slowest->first, slowest->second.generation)) {
    Fail(absl::StrCat("a pull was told to wait for ", refusal.waiting_for()));
  }
}

void BoundWitness::CheckOpen(Time now) {
  for (auto& [call, pull] : open_) {
    if (std::exchange(pull.is_new, false)) {
      ++counts_.pulls;
      ++counts_.parked;
    }
    const std::string name =
        absl::StrCat("a pull of worker-", pull.request.header().worker(),
                     " at clock ", pull.request.clock());
    if (MayRead(pull.request, now)) {
      Fail(absl::StrCat(name, " may be answered and is not"));
    } else if (now - pull.since > options_.park_timeout + kLateTick) {
      Fail(absl::StrCat(name, " waits for ",
                        absl::FormatDuration(now - pull.since)));
    }
  }
}

void BoundWitness::Fail(const std::string& sentence) const {
  std::string clocks;
  for (const auto& [worker, session] : sessions_) {
    absl::StrAppend(&clocks, clocks.empty() ? "" : ", ", "worker-", worker,
                    " at ", session.clock,
                    session.no_input ? " without input" : "");
  }
  options_.fail(absl::DataLossError(absl::StrCat(
      sentence, "; the bound is ", configuration_.consistency().bound(),
      ", heard of are ", clocks)));
}

}  // namespace paramd
