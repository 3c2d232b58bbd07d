#include "coordinator/core/enlistments.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr char kMostJoined[] = "max_joined_workers";

// Behind those of the list.
uint32_t EndOfJoined(const CoordinatorOptions& options) {
  return options.workers + options.job.max_joined_workers();
}

absl::Status CheckTakesAny(const JobView& job) {
  if (job.phase >= JobPhase::kTellingEnd) {
    return Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished");
  }
  if (job.options.job.max_joined_workers() == 0) {
    return Refuse(
        v1::Refusal::INVALID, kMostJoined,
        absl::StrCat("job '", job.options.job.name(),
                     "' takes no workers beside the ", job.options.workers,
                     " that its cluster names: give its chief ", kMostJoined));
  }
  if (job.phase < JobPhase::kFilling) {
    // Which sessions go on is not known yet.
    const std::string whom = job.waiting_for();
    return RefuseForNow(
        v1::Refusal::NOT_READY, whom, job.heartbeat(),
        absl::StrCat("a coordinator that has just begun waits for ", whom));
  }
  return absl::OkStatus();
}

// Longer than a busy machine delays a heartbeat: who gets the index of one that
// is alive is refused when it joins.
bool IsSilent(const WorkerRecord& worker, const JobView& job, Time now) {
  return worker.fencing ||
         now - worker.heard > std::max(2 * job.heartbeat(), job.lease() / 2);
}

}  // namespace

void Enlistments::OnEnlist(const Message& message,
                           const v1::EnlistRequest& request,
                           IsJoining is_joining, Turn* turn) {
  if (request.gives_up()) {
    GiveUp(request.incarnation());
    turn->out->Note(absl::StrCat("process ", request.pid(), " on ",
                                 request.host(),
                                 " does not join: its index is free"));
    turn->out->Reply(message.call, std::make_unique<v1::EnlistReply>());
    return;
  }
  const auto index =
      Choose(message.from, request.incarnation(), is_joining, *turn);
  if (!index.ok()) {
    turn->out->Refuse(message.call, index.status());
    return;
  }
  const CoordinatorOptions& options = turn->job.options;
  kept_[*index] = {
      request.incarnation(),
      turn->now + absl::Milliseconds(options.job.start_timeout_ms())};
  auto reply = std::make_unique<v1::EnlistReply>();
  reply->set_index(*index);
  reply->set_workers(options.workers);
  for (const std::string& address : options.ps_addresses) {
    reply->add_ps(address);
  }
  turn->out->Reply(message.call, std::move(reply));
  turn->out->Note(
      absl::StrCat("process ", request.pid(), " on ", request.host(),
                   " is to join as worker-", *index, ", which no list names"),
      {{"worker", *index}, {"pid", request.pid()}, {"host", request.host()}});
}

void Enlistments::GiveUp(uint64_t incarnation) {
  std::erase_if(kept_, [incarnation](const auto& kept) {
    return kept.second.incarnation == incarnation;
  });
}

void Enlistments::KeepSessions(const Turn& turn) {
  const JobView& job = turn.job;
  for (const auto& [index, worker] : job.workers) {
    if (job.IsListed(index) || !job.IsLive(worker, turn.now)) continue;
    kept_[index] = {worker.incarnation, turn.now + job.lease()};
  }
}

absl::StatusOr<uint32_t> Enlistments::Choose(PeerId from, uint64_t incarnation,
                                             IsJoining is_joining,
                                             const Turn& turn) {
  const CoordinatorOptions& options = turn.job.options;
  RETURN_IF_ERROR(CheckTakesAny(turn.job));
  Forget(turn);
  if (from == PeerId::AnyWorker()) {
    return ChooseAny(incarnation, is_joining, turn);
  }
  if (from.kind != PeerId::Kind::kWorker) {
    return Refuse(v1::Refusal::NOT_ALLOWED, "Enlist",
                  absl::StrCat(PeerName(from), " is no worker"));
  }
  if (from.index < options.workers || from.index >= EndOfJoined(options)) {
    return Refuse(
        v1::Refusal::INVALID, PeerName(from),
        absl::StrCat("the certificate is that of ", PeerName(from),
                     "; those that join have worker-", options.workers,
                     " to worker-", EndOfJoined(options) - 1));
  }
  // Whether another process has it, its join finds out.
  return from.index;
}

absl::StatusOr<uint32_t> Enlistments::ChooseAny(uint64_t incarnation,
                                                IsJoining is_joining,
                                                const Turn& turn) const {
  const JobView& job = turn.job;
  absl::optional<uint32_t> unused;
  absl::optional<uint32_t> silent;
  bool may_be_free_soon = false;
  for (uint32_t index = job.options.workers; index < EndOfJoined(job.options);
       ++index) {
    const auto worker = job.workers.find(index);
    const bool has_session = worker != job.workers.end();
    const auto kept = kept_.find(index);
    if ((kept != kept_.end() && kept->second.incarnation == incarnation) ||
        (has_session && worker->second.incarnation == incarnation)) {
      return index;
    }
    if (kept != kept_.end() || is_joining(index)) {
      may_be_free_soon |= kept != kept_.end() || !has_session;
      continue;
    }
    if (!has_session) {
      if (!unused.has_value()) unused = index;
    } else if (!silent.has_value() && IsSilent(worker->second, job, turn.now)) {
      silent = index;
    }
  }
  if (unused.has_value()) return *unused;
  if (silent.has_value()) return *silent;
  v1::Refusal refusal;
  refusal.set_reason(v1::Refusal::OVER_LIMIT);
  refusal.set_entity(kMostJoined);
  if (may_be_free_soon) {
    // Who is about to join may have died instead.
    refusal.set_retry_after_ms(
        static_cast<uint32_t>(absl::ToInt64Milliseconds(job.heartbeat())));
  }
  return Refuse(
      refusal,
      absl::StrCat("as many workers as may have joined job '",
                   job.options.job.name(), "', or are about to; ", kMostJoined,
                   " of its chief is ", job.options.job.max_joined_workers()));
}

void Enlistments::Forget(const Turn& turn) {
  for (auto it = kept_.begin(); it != kept_.end();) {
    const auto worker = turn.job.workers.find(it->first);
    // The process itself has joined, or it will be refused: the session whose
    // index it got was silent and is not any more.
    const bool is_taken =
        worker != turn.job.workers.end() &&
        (worker->second.incarnation == it->second.incarnation ||
         !IsSilent(worker->second, turn.job, turn.now));
    it = is_taken || turn.now > it->second.until ? kept_.erase(it)
                                                 : std::next(it);
  }
}

}  // namespace paramd
