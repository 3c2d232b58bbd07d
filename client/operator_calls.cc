#include "client/operator_calls.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/status_macros.h"
#include "client/operator_connection.h"
#include "client/unary_call.h"
#include "net/caller.h"
#include "net/grpc_status.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kShortestWait = absl::Milliseconds(50);

absl::Status NotStoppedYet(const v1::StopJobReply& last) {
  return absl::UnavailableError(absl::StrCat(
      "the job is not stopped yet; it will be, though nobody waits any more",
      last.waiting_for().empty()
          ? ""
          : absl::StrCat(": waiting for ", last.waiting_for())));
}

// Again where that may help.
template <typename Request, typename Reply>
absl::StatusOr<Reply> CallUntil(absl::Time deadline,
                                const OperatorConnection& chief,
                                const Request& request) {
  for (;;) {
    UnaryCall<Request, Reply> call(chief.channel, deadline);
    call.AddMetadata(kCallerKey, chief.caller);
    const absl::Status status = FromGrpcStatus(call.Do(request));
    if (status.ok()) return std::move(call.reply());
    const v1::Refusal refusal = RefusalOf(status);
    const absl::Duration wait =
        std::max(kShortestWait, absl::Milliseconds(refusal.retry_after_ms()));
    if (refusal.reason() != v1::Refusal::RETRY ||
        absl::Now() + wait >= deadline) {
      return Unreached(chief, status);
    }
    absl::SleepFor(wait);
  }
}

// Asks until `is_done` of the answer. `not_yet`: of what was begun, when nobody
// waits any more.
template <typename Request, typename Reply, typename IsDone, typename Waits>
absl::Status AskUntilDone(const ChiefAddress& chief, const Request& request,
                          absl::Duration timeout, const std::string& not_yet,
                          const IsDone& is_done, const Waits& waits) {
  const absl::Time deadline = absl::Now() + timeout;
  ASSIGN_OR_RETURN(const OperatorConnection connection, ConnectToChief(chief));
  bool has_begun = false;
  std::string last;
  for (;;) {
    const auto reply = CallUntil<Request, Reply>(deadline, connection, request);
    // The chief keeps a call for as long as it waits, and the last one is cut.
    const bool is_late = absl::Now() + kShortestWait >= deadline;
    if (!reply.ok() && !(has_begun && is_late)) return reply.status();
    if (reply.ok() && is_done(*reply)) return absl::OkStatus();
    has_begun = true;
    if (reply.ok() && reply->waiting_for() != last) {
      last = reply->waiting_for();
      waits(*reply);
    }
    if (is_late) {
      return absl::UnavailableError(absl::StrCat(
          not_yet, ", though nobody waits any more",
          last.empty() ? "" : absl::StrCat(": waiting for ", last)));
    }
    absl::SleepFor(kShortestWait);
  }
}

}  // namespace

std::string ChiefSocket(const std::string& run_dir) {
  return absl::StrCat(run_dir, "/worker-0.sock");
}

absl::StatusOr<v1::SetReply> CallSet(const ChiefAddress& chief,
                                     const v1::SetRequest& request,
                                     absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  ASSIGN_OR_RETURN(const OperatorConnection connection, ConnectToChief(chief));
  return CallUntil<v1::SetRequest, v1::SetReply>(deadline, connection, request);
}

absl::StatusOr<v1::CheckpointReply> CallCheckpoint(const ChiefAddress& chief,
                                                   absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  ASSIGN_OR_RETURN(const OperatorConnection connection, ConnectToChief(chief));
  v1::CheckpointRequest request;
  for (;;) {
    const auto reply = CallUntil<v1::CheckpointRequest, v1::CheckpointReply>(
        deadline, connection, request);
    if (reply.ok() && !reply->path().empty()) return reply;
    if (reply.ok()) *request.mutable_snapshot() = reply->snapshot();
    const bool is_late = absl::Now() + kShortestWait >= deadline;
    if (is_late && request.has_snapshot()) {
      return absl::UnavailableError(absl::StrCat(
          "checkpoint ", VersionName(request.snapshot()),
          " is not written yet; it will be, though nobody waits any more"));
    }
    if (!reply.ok()) return reply;
    absl::SleepFor(kShortestWait);
  }
}

absl::Status CallDrain(
    const ChiefAddress& chief, uint32_t ps, uint64_t nonce,
    absl::Duration timeout,
    const std::function<void(const v1::DrainReply&)>& waits) {
  v1::DrainRequest request;
  request.set_ps(ps);
  request.set_nonce(nonce);
  return AskUntilDone<v1::DrainRequest, v1::DrainReply>(
      chief, request, timeout,
      absl::StrCat("ps-", ps, " is not drained yet; it will be"),
      [](const v1::DrainReply& reply) { return reply.left(); }, waits);
}

absl::Status CallScale(
    const ChiefAddress& chief, uint32_t servers, uint64_t nonce,
    absl::Duration timeout,
    const std::function<void(const v1::ScaleReply&)>& waits) {
  v1::ScaleRequest request;
  request.set_servers(servers);
  request.set_nonce(nonce);
  return AskUntilDone<v1::ScaleRequest, v1::ScaleReply>(
      chief, request, timeout,
      absl::StrCat("the job is not scaled to ", servers, " ps yet; it will be"),
      [](const v1::ScaleReply& reply) { return reply.done(); }, waits);
}

absl::StatusOr<StoppedByOperator> CallStop(
    const ChiefAddress& chief, bool now, uint64_t nonce, absl::Duration timeout,
    const std::function<void(const v1::StopJobReply&)>& waits) {
  const absl::Time deadline = absl::Now() + timeout;
  ASSIGN_OR_RETURN(const OperatorConnection connection, ConnectToChief(chief));
  v1::StopJobRequest request;
  request.set_now(now);
  request.set_nonce(nonce);
  StoppedByOperator stopped;
  bool is_done = false;
  v1::StopJobReply last;
  for (;;) {
    const auto reply = CallUntil<v1::StopJobRequest, v1::StopJobReply>(
        deadline, connection, request);
    const v1::Refusal refusal = RefusalOf(reply.status());
    if (refusal.stopped()) {
      is_done = true;
      stopped.sentence = std::string(reply.status().message());
    } else if (refusal.reason() == v1::Refusal::JOB_FINISHED) {
      stopped.finished = !is_done;
      return stopped;
    } else if (!reply.ok()) {
      if (is_done) return stopped;  // It has ended.
      return absl::Now() + kShortestWait < deadline ? reply.status()
                                                    : NotStoppedYet(last);
    } else if (reply->waiting_for() != last.waiting_for() ||
               reply->already() != last.already()) {
      last = *reply;
      waits(last);
    }
    if (absl::Now() + kShortestWait >= deadline) {
      if (is_done) return stopped;
      return NotStoppedYet(last);
    }
    absl::SleepFor(kShortestWait);
  }
}

absl::StatusOr<v1::ProfileReply> CallProfile(const ChiefAddress& process,
                                             absl::Duration duration,
                                             uint64_t nonce,
                                             absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + duration + timeout;
  ASSIGN_OR_RETURN(const OperatorConnection connection, ConnectToAny(process));
  v1::ProfileRequest request;
  request.set_duration_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(duration)));
  request.set_nonce(nonce);
  return CallUntil<v1::ProfileRequest, v1::ProfileReply>(deadline, connection,
                                                         request);
}

}  // namespace paramd
