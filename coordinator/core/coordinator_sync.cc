// The coordinator in sync mode: contributors, steps, and the way back to a
// checkpoint.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "coordinator/core/coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kDecideDeadline = absl::Seconds(5);
constexpr absl::Duration kDecideRetry = absl::Milliseconds(20);
// As long as a worker resends a push. Slow steps take longer.
constexpr absl::Duration kContributionPatience = absl::Minutes(5);
constexpr int kLongestSteps = 3;

}  // namespace

void Coordinator::AdvanceSync(Time now, Outbox* out) {
  if (rewinding_) {
    if (MayRewind()) RewindJob(now, out);
    return;
  }
  if (phase_ == Phase::kRunning && contribute_at_ == Time::Never()) {
    contribute_at_ =
        now + absl::Milliseconds(options_.job.start_timeout_ms());
  }
  if (phase_ < Phase::kRunning || phase_ >= Phase::kWritingResult ||
      logging_contributors_ || IsLoggingEndOfSessions() ||
      !steps_.settled()) {
    step_kept_ = now;
    return;
  }
  Contributing sessions;
  for (auto& [index, worker] : workers_) {
    if (worker.fencing) {
      if (!worker.fence_logged) LogFence(index, out);
      return;
    }
    // Who has not been heard since it joined may not know that it has.
    if (worker.last.number() > 0) sessions[index] = worker.generation;
  }
  if (phase_ != Phase::kRunning) return;
  // Another session of the same worker begins the step anew.
  if (sessions != contributing_) {
    step_kept_ = now;
    if (MayContribute(sessions, now)) LogContributors(sessions, out);
    return;
  }
  const bool kept =
      (snapshot_.has_value() && snapshot_->is_open()) ||
      std::any_of(servers_.begin(), servers_.end(), [](const Server& s) {
        return s.suspected || !s.restored || !IsZero(s.drained_by);
      });
  if (kept) {
    step_kept_ = now;
  } else if (steps_.Decide(now)) {
    for (Server& server : servers_) {
      server.decide_id = 0;  // What it keeps is answered by the next.
      server.next_decide = now;
    }
  } else {
    FenceWhoNeverContributes(now, out);
  }
}

absl::Duration Coordinator::ContributionPatience() const {
  return std::max({kContributionPatience,
                   absl::Milliseconds(options_.job.start_timeout_ms()),
                   kLongestSteps * step_times_.longest()});
}

// It is heard, so no lease runs out; but the others wait for it.
void Coordinator::FenceWhoNeverContributes(Time now, Outbox* out) {
  const absl::Duration open =
      now - std::max(step_kept_, steps_.decided_at());
  const absl::optional<uint32_t> worker = steps_.missing();
  const absl::Duration patience = ContributionPatience();
  if (open < patience || !worker.has_value()) return;
  out->Note(absl::StrCat("worker-", *worker, " is heard and has not contributed "
                         "to step ", steps_.step() + 1, " for ",
                         absl::FormatDuration(patience),
                         ": the others go on without it; if a step may take "
                         "longer, raise start_timeout_ms"));
  step_times_.RestAll();  // That was no step of the others.
  Fence(*worker, now, out);
}

// The first step of all, and the first one behind a rewind, waits for every
// worker for a while: so one result follows from one number of workers. Behind a
// change of the mode it waits for those that were there.
bool Coordinator::MayContribute(const Contributing& sessions, Time now) const {
  if (sessions.empty()) return false;
  const bool begun = !steps_.contributors().workers().empty();
  return begun || sessions.size() >= contributors_awaited_ ||
         now >= contribute_at_;
}

void Coordinator::LogContributors(const Contributing& sessions, Outbox* out) {
  std::vector<uint32_t> workers;
  for (const auto& [index, generation] : sessions) workers.push_back(index);
  contributing_ = sessions;
  // Above the generations of its sessions and below those of later ones: so a
  // worker knows contributors of an earlier session from its own.
  v1::Version version;
  version.set_term(configuration_.version().term());
  version.set_counter(++generation_counter_);
  logging_contributors_ = true;
  logged_contributors_ = steps_.Propose(workers, version);
  v1::LogEntry entry;
  *entry.mutable_configuration() = configuration_;
  *entry.mutable_configuration()->mutable_contributors() = logged_contributors_;
  Append(std::move(entry), &Coordinator::OnContributorsLogged, out);
}

void Coordinator::OnContributorsLogged(const IoResult& result, Time now,
                                       Outbox* out) {
  logging_contributors_ = false;
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  // A rewind that was asked for meanwhile makes them anew.
  if (rewinding_) return;
  steps_.SetContributors(logged_contributors_, now);
  *configuration_.mutable_contributors() = std::move(logged_contributors_);
  NextVersion();
  out->Note(absl::StrCat("step ", steps_.step() + 1, " and those after it are ",
                         "of ", steps_.contributors().workers_size(),
                         " workers"),
            {{"step", steps_.step() + 1},
             {"workers", steps_.contributors().workers_size()}});
}

// ---- telling servers --------------------------------------------------------

bool Coordinator::MayDecide(uint32_t index) const {
  const Server& server = servers_[index];
  return IsSync() && !rewinding_ && server.decide_id == 0 &&
         phase_ >= Phase::kRunning && phase_ < Phase::kTellingEnd &&
         !server.suspected && server.restored && IsZero(server.drained_by) &&
         !IsZero(steps_.contributors().version()) &&
         steps_.MustAsk(index);
}

void Coordinator::DriveDecides(Time now, Outbox* out) {
  if (out->exited) return;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    if (!MayDecide(s) || now < server.next_decide) continue;
    auto request = std::make_unique<v1::DecideRequest>(steps_.RequestFor(s));
    v1::Header* const header = request->mutable_header();
    header->set_term(configuration_.version().term());
    *header->mutable_configuration() = server.acknowledged;
    *header->mutable_server_generation() = server.generation;
    header->set_server_incarnation(server.incarnation);
    server.decide_id = next_call_++;
    out->Send(PeerId::Ps(s), server.decide_id, std::move(request), {},
              kDecideDeadline);
  }
}

void Coordinator::OnDecideReply(uint32_t index, const Message& message,
                                Time now, Outbox* out) {
  Server& server = servers_[index];
  server.decide_id = 0;
  server.next_decide = now;
  const auto* decided = DynamicCastToGenerated<v1::DecideReply>(message.head);
  if (message.status.ok() && decided != nullptr) {
    server.heard = now;
    steps_.Answered(index, *decided);
    return;
  }
  server.next_decide = now + kDecideRetry;
  switch (RefusalOf(message.status).reason()) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::RETRY:
    case v1::Refusal::SUPERSEDED:
      server.heard = now;
      return;
    default:
      OnServerFailed(index, ServerCall::kNone, message.status, now, out);
  }
}

// ---- back to the checkpoint -------------------------------------------------

// From the writing of the result on the newest checkpoint is the job's last.
bool Coordinator::MayRewind() const {
  const bool committing =
      snapshot_.has_value() &&
      (snapshot_->phase() == SnapshotRound::Phase::kCommitting ||
       snapshot_->phase() == SnapshotRound::Phase::kPreparing);
  return phase_ >= Phase::kRunning && phase_ < Phase::kWritingResult &&
         !committing;
}

void Coordinator::RewindJob(Time now, Outbox* out) {
  if (logging_contributors_ || IsLoggingEndOfSessions()) return;
  if (std::any_of(workers_.begin(), workers_.end(), [](const auto& w) {
        return w.second.fencing && w.second.fence_logged;
      })) {
    return;  // Until that is in the log.
  }
  rewinding_ = false;
  GiveUpSnapshot("all servers go back to the newest checkpoint", now, out);
  const uint64_t lost = global_step() - std::min(global_step(), checkpoint_step_);
  out->Note(absl::StrCat("all servers go back to step ", checkpoint_step_, ", ",
                         checkpoint_.path().empty() ? "the initial values"
                                                    : checkpoint_.path(),
                         "; ", lost, " steps are computed again"),
            {{"step", checkpoint_step_}, {"steps_lost", lost}});
  steps_.Restore(checkpoint_step_, checkpoint_input_);
  portions_.Restart(checkpoint_input_);
  step_before_ = checkpoint_step_;
  for (Server& server : servers_) {
    RestoreFromNewest(&server);
    server.next_call = now;
  }
  EndSessions("the servers went back to a checkpoint: join again", out);
  loss_.Rewind();  // What the sessions pushed too.
  SetServerMembers();
  configuration_.set_state(v1::STARTING);
  NextVersion();
  evaluation_.Clear();
  metrics_.Rewind();
  summaries_.Begin(checkpoint_step_);
  epochs_evaluated_ = EpochsFinished();
  contributors_awaited_ = options_.workers;
  contribute_at_ = now + lease();
  phase_ = Phase::kLoggingLayout;
  starting_since_ = now;
  final_failures_ = 0;
  next_final_snapshot_ = now;
  next_save_of_steps_ = Time::Never();
  v1::LogEntry entry;
  *entry.mutable_configuration() = configuration_;
  Append(std::move(entry), &Coordinator::OnLayoutLogged, out);
}

}  // namespace paramd
