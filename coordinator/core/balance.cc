#include "coordinator/core/balance.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "proto/refusal.h"
#include "proto/running_setting.h"

namespace paramd {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);
// For a ps to be there again, and for a server to be where it is to go.
constexpr absl::Duration kMovePatience = absl::Seconds(30);
constexpr absl::Duration kLongestMove = absl::Minutes(30);
// If nobody has looked for so long, a ps has kMovePatience from now on.
constexpr absl::Duration kLookedAway = absl::Seconds(5);
constexpr size_t kMostPast = 8;

// Each server has a place in every ps.
bool HaveAllPs(const std::vector<ServerPlaces>& places) {
  return !places.empty() && (!places[0].others.empty() || TasksOf(places) == 2);
}

std::string WhatMoves(const PlannedMove& planned, const ServerLoad& now) {
  if (planned.home == now.home) {
    return absl::StrCat("the backup of server ", planned.server, " from ps-",
                        now.away, " to ps-", planned.away);
  }
  return absl::StrCat("server ", planned.server, " from ps-", now.home,
                      " to ps-", planned.home,
                      planned.home == now.away ? ", where its backup is" : "");
}

void FillMoved(const v1::Move& move, v1::Balance::Moved* moved) {
  moved->set_what(move.what());
  moved->set_why(move.why());
}

}  // namespace

Balance::Balance(const CoordinatorOptions& options, PlaceWatch* watch,
                 Replicas* replicas)
    : places_(options.places),
      rebalances_(options.job.rebalance() && HaveAllPs(options.places)),
      watch_(*watch),
      replicas_(*replicas) {}

// ---- the log ----------------------------------------------------------------

void Balance::Read(const v1::Move& logged) {
  rests_until_[logged.server()] = Time::Never();
  if (logged.state() == v1::Move::BEGUN) {
    moving_ = logged;
    return;
  }
  moving_.reset();
  if (logged.state() == v1::Move::DONE) moved_[logged.server()] = logged;
  Remember({logged, absl::nullopt});
}

void Balance::OnLogRead(const Turn& turn) {
  for (auto& [server, until] : rests_until_) {
    until = turn.now + turn.job.options.balance_rest;
  }
  if (moving_.has_value() && !IsOfThis(*moving_)) moving_.reset();
  began_ = last_there_ = turn.now;
}

// A run may go on with other ps, or without a place in each.
bool Balance::IsOfThis(const v1::Move& move) const {
  return HaveAllPs(places_) && move.servers() == places_.size() &&
         move.server() < places_.size() && move.home() != move.away() &&
         move.ps() <= TasksOf(places_) && move.home() < move.ps() &&
         move.away() < move.ps();
}

ServerPlaces Balance::PlacesIn(const v1::Move& move) const {
  return {.home = PlaceInTask(places_, move.server(), move.home()),
          .away = PlaceInTask(places_, move.server(), move.away())};
}

ServerPlaces Balance::PlacesOf(uint32_t server, uint32_t tasks) const {
  const auto moved = moved_.find(server);
  const bool counts = moved != moved_.end() && moved->second.ps() == tasks &&
                      IsOfThis(moved->second);
  return counts ? PlacesIn(moved->second) : PlacesAmong(places_, server, tasks);
}

void Balance::Log(v1::Move move, Turn* turn) {
  logging_ = true;
  v1::LogEntry entry;
  *entry.mutable_move() = move;
  turn->Append(std::move(entry), [this, move = std::move(move)](
                                     const IoResult& result, Turn* later) {
    OnLogged(move, result, later);
  });
}

void Balance::OnLogged(const v1::Move& move, const IoResult& result,
                       Turn* turn) {
  if (!result.status.ok()) return turn->out->Exit(result.status);
  logging_ = false;
  waits_for_.clear();
  rests_until_[move.server()] = turn->now + turn->job.options.balance_rest;
  if (move.state() == v1::Move::BEGUN) {
    moving_ = move;
    began_ = last_there_ = turn->now;
    turn->out->Note(
        absl::StrCat("rebalance moves ", move.what(), ": ", move.why()));
    return;
  }
  moving_.reset();
  Remember({move, turn->now});
  if (move.state() == v1::Move::DONE) {
    moved_[move.server()] = move;
    ++moves_;
    turn->out->Note(absl::StrCat("rebalance has moved ", move.what()));
  } else {
    ++given_up_;
    turn->out->Warn(absl::StrCat("rebalance gives up to move ", move.what(),
                                 ": ", move.failure()));
  }
  replicas_.Aim(move.server(), PlacesOf(move.server(), move.ps()),
                /*settles=*/false);
}

void Balance::Remember(Past past) {
  past_.push_back(std::move(past));
  if (past_.size() > kMostPast) past_.pop_front();
}

// ---- what is measured -------------------------------------------------------

void Balance::OnConfigured(uint32_t peer, const v1::ConfigureReply& reply,
                           Time now) {
  if (!rebalances_) return;
  const size_t places = (2 + places_[0].others.size()) * places_.size();
  if (peer >= places) return;
  heard_[peer] = {reply.incarnation(), reply.processor_us(), now};
}

std::vector<Balance::Placed> Balance::PlacedNow(const Present& present,
                                                const Turn& turn) const {
  for (uint32_t task = 0; task < present.tasks; ++task) {
    // All places of a ps are one process.
    if (!watch_.IsThere(PlaceInTask(places_, 0, task), turn)) return {};
  }
  std::vector<Placed> placed;
  for (const ServerRecord& server : turn.job.servers) {
    const bool is_whole = server.restored && !server.suspected &&
                          server.peer.has_value() &&
                          server.backup.has_value() && server.backup->member();
    if (!is_whole || TaskOfPlace(places_, *server.peer) >= present.tasks ||
        TaskOfPlace(places_, server.backup->peer()) >= present.tasks) {
      return {};
    }
    placed.push_back({*server.peer, server.incarnation, server.backup->peer(),
                      server.backup->incarnation(), server.backup->since()});
  }
  return placed;
}

bool Balance::AllAreHeard(const std::vector<Placed>& placed) const {
  const auto is_heard = [this](uint32_t peer, uint64_t incarnation) {
    const auto heard = heard_.find(peer);
    return heard != heard_.end() && heard->second.incarnation == incarnation &&
           heard->second.processor_us > 0;
  };
  return std::all_of(placed.begin(), placed.end(), [&](const Placed& p) {
    return is_heard(p.peer, p.incarnation) &&
           is_heard(p.backup_peer, p.backup_incarnation);
  });
}

void Balance::Measure(const Present& present, Turn* turn) {
  if (turn->now < next_look_) return;
  next_look_ = turn->now + kLookEvery;
  std::vector<Placed> placed = PlacedNow(present, *turn);
  if (placed.empty() || placed != placed_) {
    placed_ = AllAreHeard(placed) ? std::move(placed) : std::vector<Placed>();
    heard_first_ = heard_;
    window_began_ = turn->now;
    return;
  }
  const absl::Duration window = turn->job.options.balance_window;
  if (turn->now - window_began_ < window || present.is_saving) return;
  const auto servers = Loads(window);
  if (!servers.has_value()) {
    // One that has not been heard since, or not for long enough.
    if (turn->now - window_began_ > 2 * window) placed_.clear();
    return;
  }
  placed_.clear();
  Decide(*servers, present.tasks, turn);
}

absl::optional<double> Balance::Spent(uint32_t peer, uint64_t incarnation,
                                      absl::Duration window) const {
  const auto first = heard_first_.find(peer);
  const auto last = heard_.find(peer);
  if (first == heard_first_.end() || last == heard_.end()) return absl::nullopt;
  const Heard& then = first->second;
  const Heard& now = last->second;
  const bool is_of_it =
      then.incarnation == incarnation && now.incarnation == incarnation &&
      then.processor_us > 0 && now.processor_us >= then.processor_us;
  if (!is_of_it || now.at - then.at < window / 2) return absl::nullopt;
  return static_cast<double>(now.processor_us - then.processor_us) /
         absl::ToDoubleMicroseconds(now.at - then.at);
}

absl::optional<std::vector<ServerLoad>> Balance::Loads(
    absl::Duration window) const {
  std::vector<ServerLoad> servers;
  for (const Placed& placed : placed_) {
    const auto server = Spent(placed.peer, placed.incarnation, window);
    const auto backup =
        Spent(placed.backup_peer, placed.backup_incarnation, window);
    if (!server.has_value() || !backup.has_value()) return absl::nullopt;
    servers.push_back({.home = TaskOfPlace(places_, placed.peer),
                       .away = TaskOfPlace(places_, placed.backup_peer),
                       .server = *server,
                       .backup = *backup});
  }
  return servers;
}

// ---- what is moved ----------------------------------------------------------

void Balance::Decide(const std::vector<ServerLoad>& servers, uint32_t tasks,
                     Turn* turn) {
  loads_ = LoadsOfPs(servers, tasks);
  std::vector<bool> rests(servers.size());
  for (const auto& [server, until] : rests_until_) {
    if (server < rests.size()) rests[server] = turn->now < until;
  }
  if (const auto planned = PlanMove(servers, rests, tasks)) {
    hot_.clear();
    return Begin(*planned, servers[planned->server], tasks, turn);
  }
  const bool all_may =
      !PlanMove(servers, std::vector<bool>(servers.size()), tasks).has_value();
  const std::string hot = all_may ? WhyNoMoveHelps(servers, tasks) : "";
  if (!hot.empty() && hot_.empty()) turn->out->Warn(hot);
  hot_ = hot;
}

void Balance::Begin(const PlannedMove& planned, const ServerLoad& now,
                    uint32_t tasks, Turn* turn) {
  v1::Move move;
  move.set_state(v1::Move::BEGUN);
  move.set_server(planned.server);
  move.set_home(planned.home);
  move.set_away(planned.away);
  move.set_ps(tasks);
  move.set_servers(static_cast<uint32_t>(places_.size()));
  move.set_what(WhatMoves(planned, now));
  move.set_why(absl::StrFormat(
      "ps-%d spends %.2f processors and ps-%d %.2f; then about %.2f and %.2f",
      planned.from, loads_[planned.from], planned.to, loads_[planned.to],
      planned.from_then, planned.to_then));
  Log(std::move(move), turn);
}

std::string Balance::MissingFor(const ServerPlaces& places,
                                const Turn& turn) const {
  for (const uint32_t peer : {places.home, places.away}) {
    if (watch_.IsThere(peer, turn)) continue;
    return absl::StrCat("ps-", TaskOfPlace(places_, peer));
  }
  return "";
}

absl::optional<uint32_t> Balance::AloneBeside(uint32_t server,
                                              const JobView& job) {
  for (uint32_t s = 0; s < job.servers.size(); ++s) {
    const auto& backup = job.servers[s].backup;
    const bool is_alone = !backup.has_value() || !backup->member();
    if (s != server && is_alone) return s;
  }
  return absl::nullopt;
}

void Balance::GiveUp(const std::string& why, Turn* turn) {
  v1::Move move = *moving_;
  move.set_state(v1::Move::GIVEN_UP);
  move.set_failure(why);
  replicas_.Stay(move.server());
  Log(std::move(move), turn);
}

void Balance::GoOn(const Present& present, Turn* turn) {
  const uint32_t server = moving_->server();
  const ServerPlaces places = PlacesIn(*moving_);
  if (Replicas::IsSettled(server, places, turn->job)) {
    v1::Move move = *moving_;
    move.set_state(v1::Move::DONE);
    return Log(std::move(move), turn);
  }
  // The job began anew, or the chief itself stood still.
  if (turn->now - looked_ > kLookedAway) last_there_ = turn->now;
  looked_ = turn->now;
  const std::string missing = MissingFor(places, *turn);
  if (!missing.empty()) {
    replicas_.Stay(server);
    waits_for_ = absl::StrCat(missing, " to be there");
    if (turn->now - last_there_ > kMovePatience) {
      GiveUp(absl::StrCat(missing, " is not there"), turn);
    }
    return;
  }
  last_there_ = turn->now;
  if (turn->now - began_ > kLongestMove) {
    return GiveUp("it was not there after 30 minutes", turn);
  }
  const absl::optional<uint32_t> alone = AloneBeside(server, turn->job);
  if (alone.has_value()) {
    replicas_.Stay(server);
    waits_for_ = absl::StrCat("server ", *alone, " to have a backup");
    return;
  }
  replicas_.Aim(server, places, /*settles=*/!present.is_saving);
  const auto& backup = turn->job.servers[server].backup;
  const bool is_filled =
      backup.has_value() && backup->member() && backup->peer() == places.home;
  waits_for_ = present.is_saving ? "a checkpoint to be written"
               : is_filled       ? "its backup to take over"
                                 : "its new place to be filled";
}

// As an operator has set it, or else the job file.
bool Balance::IsOn(const JobView& job) const {
  const std::string set = RunningSetting(job.configuration, "rebalance");
  return (set.empty() ? job.options.job.rebalance() : set == "true") &&
         HaveAllPs(places_);
}

void Balance::Advance(const Present& present, Turn* turn) {
  if (places_.empty()) return;
  rebalances_ = IsOn(turn->job);
  const bool is_of_other_ps =
      moving_.has_value() && moving_->ps() != present.tasks;
  if (present.is_scaling || !rebalances_) {
    loads_.clear();
    hot_.clear();
  }
  if (present.is_scaling || is_of_other_ps) {
    moving_.reset();
    placed_.clear();
    return;
  }
  if (logging_) return;
  const JobPhase phase = turn->job.phase;
  const bool is_under_way =
      phase == JobPhase::kRunning || phase == JobPhase::kEvaluating;
  if (moving_.has_value() && !rebalances_ && is_under_way) {
    GiveUp("rebalance is false", turn);
  } else if (moving_.has_value()) {
    if (is_under_way && present.may_move) GoOn(present, turn);
  } else if (rebalances_ && phase == JobPhase::kRunning && present.may_begin) {
    Measure(present, turn);
  } else {
    placed_.clear();
    if (!rebalances_) heard_.clear();
  }
}

// ---- for people -------------------------------------------------------------

void Balance::FillStatus(Time now, v1::JobStats* status) const {
  if (!rebalances_ && !moving_.has_value() && past_.empty()) return;
  v1::Balance* const balance = status->mutable_balance();
  if (moving_.has_value()) {
    FillMoved(*moving_, balance->mutable_moving());
    balance->mutable_moving()->set_ago_ms(
        static_cast<uint64_t>(absl::ToInt64Milliseconds(now - began_)));
    balance->set_waiting_for(waits_for_);
  }
  for (const Past& past : past_) {
    v1::Balance::Moved* const moved = balance->add_moved();
    FillMoved(past.move, moved);
    moved->set_failure(past.move.failure());
    if (!past.at.has_value()) continue;
    moved->set_ago_ms(
        static_cast<uint64_t>(absl::ToInt64Milliseconds(now - *past.at)));
  }
  balance->set_moves(moves_);
  balance->set_given_up(given_up_);
  for (const double load : loads_) balance->add_processors(load);
  balance->set_hot(hot_);
}

}  // namespace paramd
