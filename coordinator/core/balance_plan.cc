#include "coordinator/core/balance_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace paramd {
namespace {

// What is clearly more than the mean, what is clearly less than before, and
// the least that is worth a move, in processors.
constexpr double kClearlyMore = 1.25;
constexpr double kClearlyLess = 0.9;
constexpr double kLeastLoad = 0.1;

double SumOfLoads(const std::vector<double>& loads) {
  return std::accumulate(loads.begin(), loads.end(), 0.0);
}

double OnTask(const ServerLoad& server, uint32_t task) {
  return (server.home == task ? server.server : 0) +
         (server.away == task ? server.backup : 0);
}

// What it has in `from` goes to `to`; where it has something there too, they
// change places. REQUIRES: it has something in `from`.
ServerLoad WithoutTask(ServerLoad server, uint32_t from, uint32_t to) {
  if (server.home == to || server.away == to) {
    std::swap(server.home, server.away);
  } else {
    (server.home == from ? server.home : server.away) = to;
  }
  return server;
}

}  // namespace

std::vector<double> LoadsOfPs(const std::vector<ServerLoad>& servers,
                              uint32_t tasks) {
  std::vector<double> loads(tasks);
  for (const ServerLoad& server : servers) {
    loads[server.home] += server.server;
    loads[server.away] += server.backup;
  }
  return loads;
}

absl::optional<uint32_t> HottestPs(const std::vector<double>& loads) {
  const auto most = std::max_element(loads.begin(), loads.end());
  if (most == loads.end() || *most < kLeastLoad) return absl::nullopt;
  const double mean = SumOfLoads(loads) / static_cast<double>(loads.size());
  if (*most < kClearlyMore * mean) return absl::nullopt;
  return static_cast<uint32_t>(most - loads.begin());
}

absl::optional<PlannedMove> PlanMove(const std::vector<ServerLoad>& servers,
                                     const std::vector<bool>& rests,
                                     uint32_t tasks) {
  const std::vector<double> loads = LoadsOfPs(servers, tasks);
  const absl::optional<uint32_t> hottest = HottestPs(loads);
  if (!hottest.has_value()) return absl::nullopt;
  const uint32_t from = *hottest;
  const auto to = static_cast<uint32_t>(
      std::min_element(loads.begin(), loads.end()) - loads.begin());
  absl::optional<PlannedMove> best;
  double least = kClearlyLess * loads[from];
  for (uint32_t s = 0; s < servers.size(); ++s) {
    const ServerLoad& now = servers[s];
    if (rests[s] || (now.home != from && now.away != from)) continue;
    const ServerLoad then = WithoutTask(now, from, to);
    PlannedMove move{.server = s, .home = then.home, .away = then.away};
    move.from = from;
    move.to = to;
    move.from_then = loads[from] - OnTask(now, from) + OnTask(then, from);
    move.to_then = loads[to] - OnTask(now, to) + OnTask(then, to);
    const double greater = std::max(move.from_then, move.to_then);
    if (greater >= least) continue;
    least = greater;
    best = move;
  }
  return best;
}

std::string WhyNoMoveHelps(const std::vector<ServerLoad>& servers,
                           uint32_t tasks) {
  const std::vector<double> loads = LoadsOfPs(servers, tasks);
  const absl::optional<uint32_t> hottest = HottestPs(loads);
  if (!hottest.has_value()) return "";
  const auto most =
      std::max_element(servers.begin(), servers.end(),
                       [&](const ServerLoad& a, const ServerLoad& b) {
                         return OnTask(a, *hottest) < OnTask(b, *hottest);
                       });
  const double all = SumOfLoads(loads);
  return absl::StrFormat(
      "ps-%d spends %.2f processors, all %d ps %.2f on average, and no move "
      "lessens that: server %d alone is %.0f%% of all load; a start with more "
      "shards_per_server would cut it finer",
      *hottest, loads[*hottest], tasks, all / tasks, most - servers.begin(),
      100 * OnTask(*most, *hottest) / all);
}

}  // namespace paramd
