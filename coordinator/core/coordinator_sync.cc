// The coordinator in sync mode: contributors, steps, and the way back to a
// checkpoint.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "coordinator/core/dispatcher.h"
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

void Dispatcher::AdvanceSync(Turn* turn) {
  if (rewinding_) {
    if (MayRewind()) RewindJob(turn);
    return;
  }
  if (phase_ == JobPhase::kRunning && contribute_at_ == Time::Never()) {
    contribute_at_ =
        turn->now + absl::Milliseconds(options_.job.start_timeout_ms());
  }
  if (phase_ < JobPhase::kRunning || phase_ >= JobPhase::kWritingResult ||
      logging_contributors_ || modes_.IsLoggingEndOfSessions() ||
      !steps_.settled()) {
    step_kept_ = turn->now;
    return;
  }
  Contributing sessions;
  for (auto& [index, worker] : workers_) {
    if (worker.fencing) {
      if (!worker.fence_logged) LogFence(index, turn);
      return;
    }
    // Who has not been heard since it joined may not know that it has.
    if (worker.last.number() > 0) sessions[index] = worker.generation;
  }
  if (phase_ != JobPhase::kRunning) return;
  // Another session of the same worker begins the step anew.
  if (sessions != contributing_) {
    step_kept_ = turn->now;
    if (MayContribute(sessions, turn->now)) LogContributors(sessions, turn);
    return;
  }
  const bool kept =
      (checkpoints_.round() != nullptr && checkpoints_.round()->is_open()) ||
      std::any_of(servers_.begin(), servers_.end(), [](const Server& s) {
        return s.suspected || !s.restored || !IsZero(s.drained_by);
      });
  if (kept) {
    step_kept_ = turn->now;
  } else if (steps_.Decide(turn->now)) {
    for (Server& server : servers_) {
      server.decide_id = 0;  // What it keeps is answered by the next.
      server.next_decide = turn->now;
    }
  } else {
    FenceWhoNeverContributes(turn);
  }
}

absl::Duration Dispatcher::ContributionPatience() const {
  return std::max({kContributionPatience,
                   absl::Milliseconds(options_.job.start_timeout_ms()),
                   kLongestSteps * step_times_.longest()});
}

// It is heard, so no lease runs out; but the others wait for it.
void Dispatcher::FenceWhoNeverContributes(Turn* turn) {
  const absl::Duration open =
      turn->now - std::max(step_kept_, steps_.decided_at());
  const absl::optional<uint32_t> worker = steps_.missing();
  const absl::Duration patience = ContributionPatience();
  if (open < patience || !worker.has_value()) return;
  turn->out->Note(
      absl::StrCat("worker-", *worker,
                   " is heard and has not contributed "
                   "to step ",
                   steps_.step() + 1, " for ", absl::FormatDuration(patience),
                   ": the others go on without it; if a step may take "
                   "longer, raise start_timeout_ms"));
  step_times_.RestAll();  // That was no step of the others.
  Fence(*worker, turn);
}

// The first step of all, and the first one behind a rewind, waits for every
// worker for a while: so one result follows from one number of workers. Behind
// a change of the mode it waits for those that were there.
bool Dispatcher::MayContribute(const Contributing& sessions, Time now) const {
  if (sessions.empty()) return false;
  const bool begun = !steps_.contributors().workers().empty();
  return begun || sessions.size() >= contributors_awaited_ ||
         now >= contribute_at_;
}

void Dispatcher::LogContributors(const Contributing& sessions, Turn* turn) {
  std::vector<uint32_t> workers;
  for (const auto& [index, generation] : sessions) workers.push_back(index);
  contributing_ = sessions;
  // Above the generations of its sessions and below those of later ones: so a
  // worker knows contributors of an earlier session from its own.
  const v1::Version version = configuration_.NewGeneration();
  logging_contributors_ = true;
  logged_contributors_ = steps_.Propose(workers, version);
  v1::LogEntry entry;
  *entry.mutable_configuration() = configuration();
  *entry.mutable_configuration()->mutable_contributors() = logged_contributors_;
  turn->Append(std::move(entry), Then(this, &Dispatcher::OnContributorsLogged));
}

void Dispatcher::OnContributorsLogged(const IoResult& result, Turn* turn) {
  logging_contributors_ = false;
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  // A rewind that was asked for meanwhile makes them anew.
  if (rewinding_) return;
  steps_.SetContributors(logged_contributors_, turn->now);
  *configuration_.mutable_plan()->mutable_contributors() =
      std::move(logged_contributors_);
  configuration_.NextVersion();
  turn->out->Note(
      absl::StrCat("step ", steps_.step() + 1, " and those after it are ",
                   "of ", steps_.contributors().workers_size(), " workers"),
      {{"step", steps_.step() + 1},
       {"workers", steps_.contributors().workers_size()}});
}

// ---- telling servers --------------------------------------------------------

bool Dispatcher::MayDecide(uint32_t index) const {
  const Server& server = servers_[index];
  return job_.IsSync() && !rewinding_ && server.decide_id == 0 &&
         phase_ >= JobPhase::kRunning && phase_ < JobPhase::kTellingEnd &&
         !server.suspected && server.restored && IsZero(server.drained_by) &&
         !IsZero(steps_.contributors().version()) && steps_.MustAsk(index);
}

void Dispatcher::DriveDecides(Turn* turn) {
  if (turn->out->exited) return;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    if (!MayDecide(s) || turn->now < server.next_decide) continue;
    auto request = std::make_unique<v1::DecideRequest>(steps_.RequestFor(s));
    v1::Header* const header = request->mutable_header();
    header->set_term(configuration().version().term());
    *header->mutable_configuration() = server.acknowledged;
    *header->mutable_server_generation() = server.generation;
    header->set_server_incarnation(server.incarnation);
    server.decide_id =
        turn->Send(PeerId::Ps(s), std::move(request), {}, kDecideDeadline);
  }
}

void Dispatcher::OnDecideReply(uint32_t index, const Message& message,
                               Turn* turn) {
  Server& server = servers_[index];
  server.decide_id = 0;
  server.next_decide = turn->now;
  const auto* decided = DynamicCastToGenerated<v1::DecideReply>(message.head);
  if (message.status.ok() && decided != nullptr) {
    server.heard = turn->now;
    steps_.Answered(index, *decided);
    return;
  }
  server.next_decide = turn->now + kDecideRetry;
  switch (RefusalOf(message.status).reason()) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::RETRY:
    case v1::Refusal::SUPERSEDED:
      server.heard = turn->now;
      return;
    default:
      OnServerFailed(index, ServerCall::kNone, message.status, turn);
  }
}

// ---- back to the checkpoint -------------------------------------------------

// From the writing of the result on the newest checkpoint is the job's last.
bool Dispatcher::MayRewind() const {
  const bool committing =
      checkpoints_.round() != nullptr &&
      (checkpoints_.round()->phase() == SnapshotRound::Phase::kCommitting ||
       checkpoints_.round()->phase() == SnapshotRound::Phase::kPreparing);
  return phase_ >= JobPhase::kRunning && phase_ < JobPhase::kWritingResult &&
         !committing;
}

void Dispatcher::RewindJob(Turn* turn) {
  if (logging_contributors_ || modes_.IsLoggingEndOfSessions()) return;
  if (std::any_of(workers_.begin(), workers_.end(), [](const auto& w) {
        return w.second.fencing && w.second.fence_logged;
      })) {
    return;  // Until that is in the log.
  }
  rewinding_ = false;
  checkpoints_.GiveUp("all servers go back to the newest checkpoint", turn);
  const uint64_t lost =
      global_step() - std::min(global_step(), checkpoints_.newest().step);
  turn->out->Note(absl::StrCat("all servers go back to step ",
                               checkpoints_.newest().step, ", ",
                               checkpoints_.newest().path().empty()
                                   ? "the initial values"
                                   : checkpoints_.newest().path(),
                               "; ", lost, " steps are computed again"),
                  {{"step", checkpoints_.newest().step}, {"steps_lost", lost}});
  steps_.Restore(checkpoints_.newest().step, checkpoints_.newest().input);
  portions_.Restart(checkpoints_.newest().input);
  step_before_ = checkpoints_.newest().step;
  for (Server& server : servers_) {
    RestoreFromNewest(&server);
    server.next_call = turn->now;
  }
  EndSessions("the servers went back to a checkpoint: join again", turn);
  checkpoints_.accounts().loss.Rewind();  // What the sessions pushed too.
  configuration_.SetServers(servers_);
  configuration_.mutable_plan()->set_state(v1::STARTING);
  configuration_.NextVersion();
  checkpoints_.accounts().metrics.Rewind();
  summary_writer_.summaries().Begin(checkpoints_.newest().step);
  evaluations_.GoBackTo(EpochsFinished());
  contributors_awaited_ = options_.workers;
  contribute_at_ = turn->now + job_.lease();
  phase_ = JobPhase::kLoggingLayout;
  starting_since_ = turn->now;
  ending_.OnRewind(turn->now);
  schedule_.StepsSaved();
  v1::LogEntry entry;
  *entry.mutable_configuration() = configuration();
  turn->Append(std::move(entry), Then(this, &Dispatcher::OnLayoutLogged));
}

}  // namespace paramd
