#include "coordinator/core/live_configuration.h"

#include <algorithm>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "base/check.h"
#include "proto/configuration_changes.h"

namespace paramd {
namespace {

// Those who are told at one time have few different ones.
constexpr size_t kMostChanges = 64;

v1::ServerMember MemberOf(uint32_t index, const ServerRecord& server) {
  v1::ServerMember member;
  member.set_index(index);
  *member.mutable_generation() = server.generation;
  member.set_incarnation(server.incarnation);
  member.set_restore_directory(server.restore_directory);
  if (!IsZero(server.filled)) *member.mutable_filled() = server.filled;
  if (!server.peer.has_value()) return member;
  member.set_peer(*server.peer);
  if (server.backup.has_value()) *member.mutable_backup() = *server.backup;
  if (IsZero(server.took_over)) return member;
  *member.mutable_took_over() = server.took_over;
  member.set_last_has_ended(server.last_has_ended);
  return member;
}

v1::WorkerMember MemberOf(uint32_t index, const WorkerRecord& worker) {
  v1::WorkerMember member;
  member.set_index(index);
  *member.mutable_generation() = worker.generation;
  member.set_incarnation(worker.incarnation);
  member.set_start_clock(worker.start_clock);
  member.set_host(worker.host);
  member.set_pid(worker.pid);
  member.set_left_sessions(worker.left_sessions);
  return member;
}

bool IsAsKnown(const v1::WorkerMember& member, const WorkerRecord& worker) {
  return member.generation() == worker.generation &&
         member.incarnation() == worker.incarnation &&
         member.start_clock() == worker.start_clock &&
         member.host() == worker.host && member.pid() == worker.pid &&
         member.left_sessions() == worker.left_sessions;
}

// Where in `workers` it is; -1: it has no session.
int PlaceOf(const v1::Configuration& configuration, uint32_t worker) {
  const auto& all = configuration.workers();
  const auto found = std::lower_bound(
      all.begin(), all.end(), worker,
      [](const v1::WorkerMember& a, uint32_t b) { return a.index() < b; });
  if (found == all.end() || found->index() != worker) return -1;
  return static_cast<int>(found - all.begin());
}

}  // namespace

void LiveConfiguration::Begin(uint64_t term, const std::string& run_id,
                              const std::string& job_digest) {
  v1::Configuration* const plan = mutable_plan();
  plan->mutable_version()->set_term(term);
  plan->set_run_id(run_id);
  plan->set_job_digest(job_digest);
}

v1::Configuration LiveConfiguration::WithoutLayout() const {
  v1::Configuration configuration = configuration_;
  configuration.clear_layout();
  configuration.clear_workers();
  return configuration;
}

// ---- what changes -----------------------------------------------------------

void LiveConfiguration::Touch() {
  changes_.clear();
  without_workers_.reset();
}

v1::Configuration* LiveConfiguration::mutable_plan() {
  Touch();
  whole_since_ = next();
  fields_since_.clear();
  left_since_.clear();
  return &configuration_;
}

v1::Configuration* LiveConfiguration::Change(
    std::initializer_list<int> fields) {
  Touch();
  for (const int field : fields) {
    CHECK(IsWhollyTold(field), "a field that members are told as a whole");
    fields_since_[field] = next();
  }
  return &configuration_;
}

void LiveConfiguration::NextVersion() {
  Touch();
  configuration_.mutable_version()->set_counter(next());
}

void LiveConfiguration::ChangeState(v1::JobState state) {
  Change({v1::Configuration::kStateFieldNumber})->set_state(state);
  NextVersion();
}

void LiveConfiguration::SetServers(const std::vector<ServerRecord>& servers) {
  Touch();
  const auto count = static_cast<int>(servers.size());
  if (configuration_.servers_size() != count ||
      servers_since_.size() != servers.size()) {
    mutable_plan()->clear_servers();
    while (configuration_.servers_size() < count) configuration_.add_servers();
    servers_since_.assign(servers.size(), next());
  }
  for (uint32_t s = 0; s < servers.size(); ++s) SetServer(s, servers[s]);
}

void LiveConfiguration::SetServer(uint32_t index, const ServerRecord& server) {
  Touch();
  CHECK(index < servers_since_.size(), "the servers were set before");
  v1::ServerMember member = MemberOf(index, server);
  v1::ServerMember* const known =
      configuration_.mutable_servers(static_cast<int>(index));
  if (member.SerializeAsString() == known->SerializeAsString()) return;
  known->Swap(&member);
  servers_since_[index] = next();
}

void LiveConfiguration::SetWorkers(
    const std::map<uint32_t, WorkerRecord>& workers) {
  Touch();
  auto* const known = configuration_.mutable_workers();
  const bool is_counted =
      workers_since_.size() == static_cast<size_t>(known->size());
  google::protobuf::RepeatedPtrField<v1::WorkerMember> members;
  members.Reserve(static_cast<int>(workers.size()));
  std::vector<uint64_t> since;
  since.reserve(workers.size());
  int k = 0;
  for (const auto& [index, worker] : workers) {
    for (; k < known->size() && known->Get(k).index() < index; ++k) {
      left_since_[known->Get(k).index()] = next();
    }
    const bool had = k < known->size() && known->Get(k).index() == index;
    if (had && is_counted && IsAsKnown(known->Get(k), worker)) {
      members.Add()->Swap(known->Mutable(k));
      since.push_back(workers_since_[k]);
    } else {
      *members.Add() = MemberOf(index, worker);
      since.push_back(next());
      left_since_.erase(index);
    }
    k += had ? 1 : 0;
  }
  for (; k < known->size(); ++k) left_since_[known->Get(k).index()] = next();
  known->Swap(&members);
  workers_since_ = std::move(since);
}

// ---- what members are told --------------------------------------------------

bool LiveConfiguration::CanTellSince(
    const v1::ConfigurationVersion& known) const {
  const v1::ConfigurationVersion& version = configuration_.version();
  return !IsZero(known) && known.term() == version.term() &&
         known.counter() >= whole_since_ && !(version < known);
}

void LiveConfiguration::AddFields(uint64_t known,
                                  v1::Configuration* changes) const {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  for (const auto& [field, since] : fields_since_) {
    if (since <= known) continue;
    changes->add_changed(static_cast<uint32_t>(field));
    fields.push_back(v1::Configuration::descriptor()->FindFieldByNumber(field));
  }
  if (fields.empty()) return;
  v1::Configuration copy = configuration_;
  changes->GetReflection()->SwapFields(changes, &copy, fields);
}

void LiveConfiguration::AddServers(uint64_t known,
                                   v1::Configuration* changes) const {
  for (size_t s = 0; s < servers_since_.size(); ++s) {
    if (servers_since_[s] <= known) continue;
    *changes->add_servers() = configuration_.servers(static_cast<int>(s));
  }
}

const LiveConfiguration::Changes& LiveConfiguration::ChangesSince(
    const v1::ConfigurationVersion& known) const {
  const auto made = changes_.find(known.counter());
  if (made != changes_.end()) return made->second;
  if (changes_.size() >= kMostChanges) changes_.clear();
  Changes& changes = changes_[known.counter()];
  v1::Configuration& shared = changes.for_workers;
  *shared.mutable_version() = configuration_.version();
  shared.set_run_id(configuration_.run_id());
  shared.set_job_digest(configuration_.job_digest());
  *shared.mutable_changes_since() = known;
  AddFields(known.counter(), &shared);
  AddServers(known.counter(), &shared);
  changes.for_servers = shared;
  for (size_t w = 0; w < workers_since_.size(); ++w) {
    if (workers_since_[w] <= known.counter()) continue;
    *changes.for_servers.add_workers() =
        configuration_.workers(static_cast<int>(w));
  }
  for (const auto& [worker, since] : left_since_) {
    if (since > known.counter()) changes.for_servers.add_workers_left(worker);
  }
  return changes;
}

v1::Configuration LiveConfiguration::ForServer(
    uint32_t server, const v1::ConfigurationVersion& known) const {
  if (!CanTellSince(known)) return configuration_;
  v1::Configuration told = ChangesSince(known).for_servers;
  if (servers_since_[server] <= known.counter()) {
    *told.add_servers() = configuration_.servers(static_cast<int>(server));
  }
  return told;
}

v1::Configuration LiveConfiguration::ForWorker(
    uint32_t worker, const v1::ConfigurationVersion& known) const {
  const int place = PlaceOf(configuration_, worker);
  if (!CanTellSince(known)) {
    if (!without_workers_.has_value()) {
      without_workers_ = configuration_;
      without_workers_->clear_workers();
    }
    v1::Configuration told = *without_workers_;
    if (place >= 0) *told.add_workers() = configuration_.workers(place);
    return told;
  }
  v1::Configuration told = ChangesSince(known).for_workers;
  if (place >= 0 && workers_since_[place] > known.counter()) {
    *told.add_workers() = configuration_.workers(place);
  }
  const auto left = left_since_.find(worker);
  if (left != left_since_.end() && left->second > known.counter()) {
    told.add_workers_left(worker);
  }
  return told;
}

bool LiveConfiguration::HasOnlyNewsOfOthers(
    uint32_t server, const v1::ConfigurationVersion& known) const {
  const bool has_changed_fields = std::any_of(
      fields_since_.begin(), fields_since_.end(),
      [&](const auto& field) { return field.second > known.counter(); });
  return !has_changed_fields && servers_since_[server] <= known.counter();
}

}  // namespace paramd
