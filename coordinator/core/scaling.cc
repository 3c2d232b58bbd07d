#include "coordinator/core/scaling.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/strategy.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kScalePatience = absl::Seconds(2);
constexpr size_t kMostScalesWaiting = 64;
constexpr size_t kMostReplaced = 64;
constexpr uint32_t kCopies = 2;
// In the log, where it is all that the cluster names.
constexpr uint32_t kAllPs = 0;

absl::Status CantScale(absl::string_view why) {
  return Invalid("job", absl::StrCat("the job can't be scaled: ", why));
}

}  // namespace

Scaling::Scaling(const CoordinatorOptions& options, const Balance& balance,
                 PlaceWatch* watch, Replicas* replicas)
    : places_(options.places),
      balance_(balance),
      watch_(*watch),
      replicas_(*replicas),
      tasks_(places_.empty() ? 0 : TasksOf(places_)),
      wanted_(tasks_) {}

// Of two ps both always hold everything.
bool Scaling::IsScalable() const {
  return tasks_ == kCopies || (tasks_ != 0 && !places_[0].others.empty());
}

void Scaling::Read(const v1::Scale& logged) {
  wanted_ = logged.servers();
  done_ = logged.done();
  Replace(logged.nonce());
}

// A run may go on with other ps, or without a place in each. Servers that it
// did not have before begin at home, which may be behind the number.
void Scaling::OnLogRead(const JobView& job) {
  if (wanted_ == kAllPs) wanted_ = tasks_;
  if (!IsScalable() || wanted_ < kCopies || wanted_ > tasks_) {
    wanted_ = tasks_;
    done_ = true;
  }
  for (uint32_t s = 0; s < places_.size(); ++s) {
    replicas_.Aim(s, balance_.PlacesOf(s, wanted_), /*settles=*/false);
    const uint32_t peer = job.servers[s].peer.value_or(places_[s].home);
    done_ = done_ && TaskOfPlace(places_, peer) < wanted_;
  }
}

// ---- who asks ---------------------------------------------------------------

absl::Status Scaling::Check(uint32_t servers, const JobView& job) const {
  if (!UsesServers(job.options.job)) {
    return CantScale(absl::StrCat("strategy \"",
                                  StrategyName(job.options.job.strategy()),
                                  "\" has no servers"));
  }
  if (tasks_ == 0) {
    return CantScale(
        "with replication 1 nobody has what a ps holds; start it with "
        "replication 2 and scalable");
  }
  if (servers < kCopies) {
    return CantScale(
        absl::StrCat("with replication 2 it needs 2 ps or more, "
                     "not ",
                     servers));
  }
  if (servers > tasks_) {
    return CantScale(absl::StrCat("the cluster names ", tasks_, " ps, not ",
                                  servers,
                                  "; for more, stop it and start it again "
                                  "with more in its cluster"));
  }
  if (!IsScalable()) {
    return CantScale(
        "it was started without scalable, so no ps has room for what another "
        "one holds; start it again with scalable");
  }
  if (job.phase < JobPhase::kRunning) {
    const std::string whom = job.waiting_for();
    return RefuseForNow(v1::Refusal::RETRY, whom, job.heartbeat(),
                        absl::StrCat("no job can be scaled before it runs: "
                                     "waiting for ",
                                     whom));
  }
  return absl::OkStatus();
}

void Scaling::OnRequest(const Message& message, const v1::ScaleRequest& request,
                        const std::string& obstacle, Turn* turn) {
  const auto refuse = [&](const absl::Status& why) {
    turn->out->Refuse(message.call, why);
  };
  const JobView& job = turn->job;
  if (job.phase >= JobPhase::kSaving) {
    return refuse(
        Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished"));
  }
  const uint32_t now = logging_ ? asked_ : wanted_;
  const bool goes_on = request.servers() == now && IsUnderWay();
  const bool is_replaced =
      !goes_on && std::find(replaced_.begin(), replaced_.end(),
                            request.nonce()) != replaced_.end();
  if (is_replaced) {
    return refuse(CantScale(
        absl::StrCat("somebody else has scaled it to ", now, " ps meanwhile")));
  }
  if (waiting_.size() >= kMostScalesWaiting || (logging_ && !goes_on)) {
    return refuse(RefuseForNow(v1::Refusal::RETRY, "scale", kScalePatience,
                               "others scale the job already"));
  }
  if (!goes_on) {
    absl::Status may = Check(request.servers(), job);
    if (may.ok() && !obstacle.empty()) may = CantScale(obstacle);
    if (!may.ok()) return refuse(may);
    if (request.servers() != now) Begin(request, turn);
  }
  Join(request.nonce());
  waiting_.push_back({message.call, turn->now + kScalePatience});
}

void Scaling::Replace(uint64_t nonce) {
  if (nonce == nonce_) return;
  if (nonce_ != 0) replaced_.push_back(nonce_);
  for (const uint64_t joined : std::exchange(joined_, {})) {
    if (joined != nonce) replaced_.push_back(joined);
  }
  while (replaced_.size() > kMostReplaced) replaced_.pop_front();
  nonce_ = nonce;
}

void Scaling::Join(uint64_t nonce) {
  const bool is_known =
      nonce == nonce_ ||
      std::find(joined_.begin(), joined_.end(), nonce) != joined_.end();
  if (is_known) return;
  joined_.push_back(nonce);
  if (joined_.size() > kMostReplaced) joined_.pop_front();
}

void Scaling::Begin(const v1::ScaleRequest& request, Turn* turn) {
  Replace(request.nonce());
  asked_ = request.servers();
  turn->out->Note(absl::StrCat("an operator (", request.origin().who(),
                               ") scales the job from ", wanted_, " to ",
                               asked_, " ps"));
  Log(/*done=*/false, &request.origin(), turn);
}

void Scaling::Log(bool done, const v1::Origin* origin, Turn* turn) {
  logging_ = true;
  v1::LogEntry entry;
  entry.mutable_scale()->set_servers(asked_ == tasks_ ? kAllPs : asked_);
  entry.mutable_scale()->set_done(done);
  entry.mutable_scale()->set_nonce(nonce_);
  if (origin != nullptr) *entry.mutable_origin() = *origin;
  turn->Append(std::move(entry),
               [this, done](const IoResult& result, Turn* later) {
                 OnLogged(done, result, later);
               });
}

void Scaling::OnLogged(bool done, const IoResult& result, Turn* turn) {
  if (!result.status.ok()) return turn->out->Exit(result.status);
  logging_ = false;
  wanted_ = asked_;
  done_ = done;
  leaving_.clear();
  waits_for_.clear();
  for (uint32_t task = 0; task < wanted_; ++task) {
    for (const uint32_t peer : PlacesOfTask(task)) watch_.Stay(peer);
  }
  if (done) {
    turn->out->Note(absl::StrCat("the first ", wanted_,
                                 " ps hold everything: the job is scaled"));
  }
}

// ---- what is done -----------------------------------------------------------

void Scaling::Advance(bool may_move, Turn* turn) {
  const JobPhase phase = turn->job.phase;
  const bool is_under_way =
      phase == JobPhase::kRunning || phase == JobPhase::kEvaluating;
  if (!done_ && !logging_ && may_move && is_under_way) {
    if (Move(turn) && EndOthers(*turn)) {
      asked_ = wanted_;
      Log(/*done=*/true, nullptr, turn);
    }
  }
  Answer(turn);
}

// Those behind the one that is moved stay where they are.
bool Scaling::Move(Turn* turn) {
  bool all_settled = true;
  bool one_moves = false;
  for (uint32_t s = 0; s < places_.size(); ++s) {
    const ServerPlaces places = balance_.PlacesOf(s, wanted_);
    if (Replicas::IsSettled(s, places, turn->job)) {
      replicas_.Aim(s, places, /*settles=*/false);
      continue;
    }
    const std::string missing = MissingFor(places, *turn);
    if (!one_moves && missing.empty()) {
      one_moves = true;
      replicas_.Aim(s, places, /*settles=*/true);
      waits_for_ = absl::StrCat(
          "server ", s, " to be in ps-", TaskOfPlace(places_, places.home),
          ", and its backup in ps-", TaskOfPlace(places_, places.away));
    } else {
      replicas_.Stay(s);
      if (!one_moves) waits_for_ = missing;
    }
    all_settled = false;
  }
  return all_settled;
}

std::string Scaling::MissingFor(const ServerPlaces& places,
                                const Turn& turn) const {
  for (const uint32_t peer : {places.home, places.away}) {
    if (watch_.IsThere(peer, turn)) continue;
    return absl::StrCat("ps-", TaskOfPlace(places_, peer), " to be there");
  }
  return "";
}

std::vector<uint32_t> Scaling::PlacesOfTask(uint32_t task) const {
  std::vector<uint32_t> of_task;
  for (const ServerPlaces& server : places_) {
    for (const uint32_t peer : AllOf(server)) {
      if (TaskOfPlace(places_, peer) == task) of_task.push_back(peer);
    }
  }
  return of_task;
}

bool Scaling::EndOthers(const Turn& turn) {
  for (uint32_t task = wanted_; task < tasks_; ++task) {
    if (HasLeft(task, turn)) continue;
    waits_for_ = absl::StrCat("ps-", task, " to end");
    return false;
  }
  return true;
}

bool Scaling::HasLeft(uint32_t task, const Turn& turn) {
  const std::vector<uint32_t> places = PlacesOfTask(task);
  if (!leaving_.contains(task)) {
    const bool all_are_known =
        std::all_of(places.begin(), places.end(),
                    [this](uint32_t peer) { return watch_.IsKnown(peer); });
    if (!all_are_known) return false;
    for (const uint32_t peer : places) {
      const uint64_t process = watch_.ProcessAt(peer);
      if (process != 0) leaving_[task][peer] = process;
    }
  }
  const std::map<uint32_t, uint64_t>& processes = leaving_[task];
  for (const auto& [peer, process] : processes) watch_.Drain(peer, process);
  return std::all_of(processes.begin(), processes.end(),
                     [&](const auto& place) {
                       return watch_.ProcessAt(place.first) != place.second ||
                              watch_.IsLetGo(place.first) ||
                              watch_.IsSilent(place.first, turn.job, turn.now);
                     });
}

void Scaling::Answer(Turn* turn) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (IsUnderWay() && turn->now < waiting.until) return false;
    auto reply = std::make_unique<v1::ScaleReply>();
    reply->set_done(!IsUnderWay());
    reply->set_waiting_for(IsUnderWay() ? waits_for_ : "");
    turn->out->Reply(waiting.call, std::move(reply));
    return true;
  });
}

void Scaling::FillStatus(v1::JobStats* status) const {
  if (tasks_ == 0) return;
  const auto each = static_cast<uint32_t>(2 + places_[0].others.size());
  status->set_places_of_a_ps(each * static_cast<uint32_t>(places_.size()) /
                             tasks_);
  for (int s = 0;
       s < status->members_size() && s < static_cast<int>(places_.size());
       ++s) {
    status->mutable_members(s)->set_home(places_[static_cast<size_t>(s)].home);
  }
  if (!IsUnderWay()) return;
  status->mutable_scaling()->set_servers(logging_ ? asked_ : wanted_);
  status->mutable_scaling()->set_waiting_for(waits_for_);
}

}  // namespace paramd
