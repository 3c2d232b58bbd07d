#include "coordinator/core/step_ledger.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "config/batch_rule.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kDecideDeadline = absl::Seconds(5);
constexpr absl::Duration kDecideRetry = absl::Milliseconds(20);
// As long as a worker resends a push. Slow steps take longer.
constexpr absl::Duration kContributionPatience = absl::Minutes(5);
constexpr int kLongestSteps = 3;

SyncSteps::Options StepOptions(const CoordinatorOptions& options) {
  SyncSteps::Options steps;
  steps.servers = options.servers;
  steps.examples = options.examples;
  steps.epochs = options.job.epochs();
  steps.batch = ExamplesPerPush(options.job, /*sync=*/true);
  steps.backup_workers = options.job.backup_workers();
  steps.pruning = static_cast<uint32_t>(options.job.optimizer().pruning_size());
  return steps;
}

absl::Duration StartTimeout(const JobView& job) {
  return absl::Milliseconds(job.options.job.start_timeout_ms());
}

bool IsAway(const ServerRecord& server) {
  return server.suspected || !server.restored || !IsZero(server.drained_by);
}

}  // namespace

StepLedger::StepLedger(const CoordinatorOptions& options)
    : steps_(StepOptions(options)),
      calls_(options.servers),
      awaited_(options.workers) {}

void StepLedger::AwaitContributors(uint32_t workers, Time until) {
  awaited_ = workers;
  begin_at_ = until;
}

void StepLedger::ForgetCalls() {
  for (Call& call : calls_) call.id = 0;
}

bool StepLedger::MayGoBack(const Obstacles& obstacles,
                           const JobView& job) const {
  return job.phase >= JobPhase::kRunning &&
         job.phase < JobPhase::kWritingResult && !obstacles.committing;
}

void StepLedger::Advance(const Obstacles& obstacles, Turn* turn) {
  const JobView& job = turn->job;
  if (!going_back_) {
    if (job.IsSync()) AdvanceStep(obstacles, turn);
    return;
  }
  if (!MayGoBack(obstacles, job) || logging_ || obstacles.logging_mode) {
    return;
  }
  const bool fence_is_being_logged = std::any_of(
      job.workers.begin(), job.workers.end(),
      [](const auto& w) { return w.second.fencing && w.second.fence_logged; });
  if (fence_is_being_logged) return;
  going_back_ = false;
  turn->Raise(BackToCheckpoint{});
}

void StepLedger::AdvanceStep(const Obstacles& obstacles, Turn* turn) {
  const JobView& job = turn->job;
  if (job.phase == JobPhase::kRunning && begin_at_ == Time::Never()) {
    begin_at_ = turn->now + StartTimeout(job);
  }
  if (job.phase < JobPhase::kRunning || job.phase >= JobPhase::kWritingResult ||
      logging_ || obstacles.logging_mode || !steps_.settled()) {
    kept_ = turn->now;
    return;
  }
  Sessions sessions;
  bool is_fenced = false;  // Somebody is.
  for (const auto& [index, worker] : job.workers) {
    is_fenced |= worker.fencing;
    if (worker.fencing && !worker.fence_logged) turn->Raise(FenceIsDue{index});
    // Who has not been heard since it joined may not know that it has.
    if (worker.last.number() > 0) sessions[index] = worker.generation;
  }
  if (is_fenced || job.phase != JobPhase::kRunning) return;
  // Another session of the same worker begins the step anew.
  if (sessions != contributing_) {
    kept_ = turn->now;
    if (MayContribute(sessions, job, turn->now)) {
      LogContributors(sessions, turn);
    }
    return;
  }
  if (obstacles.snapshot_open || obstacles.changing_rate ||
      obstacles.stopping ||
      std::any_of(job.servers.begin(), job.servers.end(), IsAway)) {
    kept_ = turn->now;
  } else if (steps_.Decide(turn->now)) {
    // What a server keeps is answered by the next.
    for (Call& call : calls_) call = {0, turn->now};
  } else {
    FindWhoHoldsUp(turn);
  }
}

// It is heard, so no lease runs out; but the others wait for it.
void StepLedger::FindWhoHoldsUp(Turn* turn) {
  const absl::Duration open = turn->now - std::max(kept_, steps_.decided_at());
  const absl::optional<uint32_t> worker = steps_.missing();
  const absl::Duration patience =
      std::max({kContributionPatience, StartTimeout(turn->job),
                kLongestSteps * turn->job.progress.LongestStep()});
  if (open < patience || !worker.has_value()) return;
  turn->out->Note(absl::StrCat(
      "worker-", *worker, " is heard and has not contributed to step ",
      steps_.step() + 1, " for ", absl::FormatDuration(patience),
      ": the others go on without it; if a step may take longer, raise "
      "start_timeout_ms"));
  turn->Raise(HoldsUpStep{*worker});
}

// ---- who contributes --------------------------------------------------------

// The first step of all, and the first one after a rewind, waits for every
// worker for a while: so one result follows from one number of workers. After
// a change of the mode it waits for those that were there. Nobody waits for one
// that no list names.
bool StepLedger::MayContribute(const Sessions& sessions, const JobView& job,
                               Time now) const {
  if (sessions.empty()) return false;
  const bool begun = !steps_.contributors().workers().empty();
  const auto listed =
      std::count_if(sessions.begin(), sessions.end(),
                    [&](const auto& s) { return job.IsListed(s.first); });
  return begun || listed >= int64_t{awaited_} || now >= begin_at_;
}

void StepLedger::LogContributors(const Sessions& sessions, Turn* turn) {
  std::vector<uint32_t> workers;
  for (const auto& [index, generation] : sessions) workers.push_back(index);
  contributing_ = sessions;
  logging_ = true;
  // Above the generations of its sessions and below those of later ones: so a
  // worker knows contributors of an earlier session from its own.
  logged_ = steps_.Propose(
      workers, turn->live->NewGeneration<v1::ContributorsVersion>());
  v1::LogEntry entry;
  v1::Configuration* const configuration = entry.mutable_configuration();
  *configuration = turn->live->WithoutLayout();
  *configuration->mutable_contributors() = logged_;
  turn->Append(std::move(entry), Then(this, &StepLedger::OnContributorsLogged));
}

void StepLedger::OnContributorsLogged(const IoResult& result, Turn* turn) {
  logging_ = false;
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  // What was asked for meanwhile makes them anew.
  if (going_back_) return;
  steps_.SetContributors(logged_, turn->now);
  *turn->live->Change({v1::Configuration::kContributorsFieldNumber})
       ->mutable_contributors() = std::move(logged_);
  turn->live->NextVersion();
  turn->out->Note(
      absl::StrCat("step ", steps_.step() + 1, " and those after it are of ",
                   steps_.contributors().workers_size(), " workers"),
      {{"step", steps_.step() + 1},
       {"workers", steps_.contributors().workers_size()}});
}

// ---- telling servers --------------------------------------------------------

bool StepLedger::MayCall(uint32_t index, const JobView& job) const {
  return job.IsSync() && !going_back_ && calls_[index].id == 0 &&
         job.phase >= JobPhase::kRunning && job.phase < JobPhase::kTellingEnd &&
         !IsAway(job.servers[index]) &&
         !IsZero(steps_.contributors().version()) && steps_.MustAsk(index);
}

void StepLedger::DriveServers(Turn* turn) {
  if (turn->out->exited) return;
  for (uint32_t s = 0; s < calls_.size(); ++s) {
    if (!MayCall(s, turn->job) || turn->now < calls_[s].next) continue;
    const ServerRecord& server = turn->job.servers[s];
    auto request = std::make_unique<v1::DecideRequest>(steps_.RequestFor(s));
    v1::Header* const header = request->mutable_header();
    header->set_term(turn->job.configuration.version().term());
    *header->mutable_configuration() = server.acknowledged;
    *header->mutable_server_generation() = server.generation;
    header->set_server_incarnation(server.incarnation);
    calls_[s].id = turn->Send(PeerId::Ps(server.peer.value_or(s)),
                              std::move(request), {}, kDecideDeadline);
  }
}

bool StepLedger::OnReply(uint32_t index, const Message& message, Turn* turn) {
  Call& call = calls_[index];
  if (call.id != message.call) return false;
  call = {0, turn->now};
  const auto* decided = DynamicCastToGenerated<v1::DecideReply>(message.head);
  if (message.status.ok() && decided != nullptr) {
    steps_.Answered(index, *decided);
    turn->Raise(ServerHeard{index, absl::OkStatus()});
    return true;
  }
  call.next = turn->now + kDecideRetry;
  switch (RefusalOf(message.status).reason()) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::RETRY:
    case v1::Refusal::SUPERSEDED:
      turn->Raise(ServerHeard{index, absl::OkStatus()});
      break;
    default:
      turn->Raise(ServerHeard{index, message.status});
  }
  return true;
}

Time StepLedger::next_tick(const JobView& job) const {
  Time next = Time::Never();
  for (uint32_t s = 0; s < calls_.size(); ++s) {
    if (MayCall(s, job)) next = std::min(next, calls_[s].next);
  }
  return next;
}

std::string StepLedger::waiting_for(const JobView& job) const {
  return steps_.waiting_for(contributing_, job.ServerGenerations());
}

}  // namespace paramd
