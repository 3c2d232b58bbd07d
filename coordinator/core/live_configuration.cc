#include "coordinator/core/live_configuration.h"

#include <algorithm>

namespace paramd {
namespace {

constexpr int kManyMembers = 100;

}  // namespace

void LiveConfiguration::Begin(uint64_t term, const std::string& run_id,
                              const std::string& job_digest) {
  configuration_.mutable_version()->set_term(term);
  configuration_.set_run_id(run_id);
  configuration_.set_job_digest(job_digest);
}

v1::Configuration LiveConfiguration::WithoutLayout() const {
  v1::Configuration configuration = configuration_;
  configuration.clear_layout();
  configuration.clear_workers();
  return configuration;
}

void LiveConfiguration::NextVersion() {
  v1::ConfigurationVersion* const version = configuration_.mutable_version();
  version->set_counter(version->counter() + 1);
}

void LiveConfiguration::ChangeState(v1::JobState state) {
  configuration_.set_state(state);
  NextVersion();
}

void LiveConfiguration::SetServers(const std::vector<ServerRecord>& servers) {
  configuration_.clear_servers();
  for (uint32_t s = 0; s < servers.size(); ++s) {
    v1::ServerMember* const member = configuration_.add_servers();
    member->set_index(s);
    *member->mutable_generation() = servers[s].generation;
    member->set_incarnation(servers[s].incarnation);
    member->set_restore_directory(servers[s].restore_directory);
    if (!IsZero(servers[s].filled)) {
      *member->mutable_filled() = servers[s].filled;
    }
    if (!servers[s].peer.has_value()) continue;
    member->set_peer(*servers[s].peer);
    if (servers[s].backup.has_value()) {
      *member->mutable_backup() = *servers[s].backup;
    }
    if (IsZero(servers[s].took_over)) continue;
    *member->mutable_took_over() = servers[s].took_over;
    member->set_last_has_ended(servers[s].last_has_ended);
  }
}

void LiveConfiguration::SetWorkers(
    const std::map<uint32_t, WorkerRecord>& workers) {
  configuration_.clear_workers();
  for (const auto& [index, worker] : workers) {
    v1::WorkerMember* const member = configuration_.add_workers();
    member->set_index(index);
    *member->mutable_generation() = worker.generation;
    member->set_incarnation(worker.incarnation);
    member->set_start_clock(worker.start_clock);
    member->set_host(worker.host);
    member->set_pid(worker.pid);
    member->set_left_sessions(worker.left_sessions);
  }
}

bool HasManyMembers(const v1::Configuration& configuration) {
  return configuration.servers_size() + configuration.workers_size() >
         kManyMembers;
}

v1::Configuration ReminderOf(const v1::Configuration& configuration,
                             uint32_t server) {
  v1::Configuration reminder;
  *reminder.mutable_version() = configuration.version();
  reminder.set_run_id(configuration.run_id());
  reminder.set_job_digest(configuration.job_digest());
  *reminder.add_servers() = configuration.servers(static_cast<int>(server));
  return reminder;
}

v1::Configuration ForWorker(const v1::Configuration& configuration,
                            uint32_t worker,
                            absl::optional<v1::Configuration>* shared) {
  if (!shared->has_value()) {
    *shared = configuration;
    (*shared)->clear_workers();
  }
  v1::Configuration told = **shared;
  const auto& all = configuration.workers();
  const auto own = std::lower_bound(
      all.begin(), all.end(), worker,
      [](const v1::WorkerMember& a, uint32_t b) { return a.index() < b; });
  if (own != all.end() && own->index() == worker) *told.add_workers() = *own;
  return told;
}

}  // namespace paramd
