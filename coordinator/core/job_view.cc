#include "coordinator/core/job_view.h"

#include <algorithm>

#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// In each heartbeat, of however many: what is left may be as long as the list
// of workers.
constexpr int64_t kToldInput = 8;

}  // namespace

bool JobView::EveryServerHas(const v1::ConfigurationVersion& version) const {
  return std::all_of(servers.begin(), servers.end(),
                     [&](const ServerRecord& s) {
                       return s.restored && !(s.acknowledged < version);
                     });
}

absl::optional<v1::ConfigurationVersion> JobView::VersionOfAll() const {
  if (servers.empty()) return configuration.version();
  const auto last = std::min_element(
      servers.begin(), servers.end(),
      [](const ServerRecord& a, const ServerRecord& b) {
        return a.restored != b.restored ? b.restored
                                        : a.acknowledged < b.acknowledged;
      });
  return last->restored ? absl::make_optional(last->acknowledged)
                        : absl::nullopt;
}

bool JobView::EveryServerIsThere() const {
  return std::all_of(servers.begin(), servers.end(), [](const ServerRecord& s) {
    return !s.suspected && s.restored;
  });
}

std::vector<v1::ServerLife> JobView::ServerGenerations() const {
  std::vector<v1::ServerLife> generations;
  for (const ServerRecord& server : servers) {
    generations.push_back(server.generation);
  }
  return generations;
}

std::string JobView::NameOfWorker(uint32_t worker) const {
  const auto found = workers.find(worker);
  return WorkerName(worker, found == workers.end() ? v1::SessionId()
                                                   : found->second.generation);
}

std::string JobView::NameOfServer(uint32_t server) const {
  return ServerName(server, servers[server].generation);
}

bool IsToldInput(uint32_t server, Time now, const JobView& job) {
  const auto servers = static_cast<int64_t>(job.servers.size());
  const int64_t turns =
      std::max(int64_t{1}, (servers + kToldInput - 1) / kToldInput);
  const int64_t beat =
      now.nanoseconds() / absl::ToInt64Nanoseconds(job.heartbeat());
  return (beat + server) % turns == 0;
}

}  // namespace paramd
