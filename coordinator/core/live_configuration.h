#ifndef PARAMD_COORDINATOR_CORE_LIVE_CONFIGURATION_H_
#define PARAMD_COORDINATOR_CORE_LIVE_CONFIGURATION_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "coordinator/core/members.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/refusal.h"

namespace paramd {

// The configuration that everybody is told, and the generations given out in
// this term. Each section of it is set by one part of the coordinator, and then
// NextVersion makes that another configuration. It knows which version each
// member and each field came with, so whoever has an earlier one of this term
// is told what has changed since (proto/configuration_changes.h).
//
// Invariants: a generation is given out once; versions only rise; what a
// version says has changed only if a later one followed before anybody was
// told.
//
// Not thread-safe: lives inside the coordinator's core.
class LiveConfiguration {
 public:
  const v1::Configuration& get() const { return configuration_; }
  // For an entry of the log under which nothing moves: without the slices,
  // which may be megabytes, and the sessions. The entry of a layout has both.
  v1::Configuration WithoutLayout() const;
  // What is planned as a whole: who has an earlier one is told all of it.
  // REQUIRES: nobody was told of it in this term, or NextVersion() follows.
  v1::Configuration* mutable_plan();
  // These fields of it, by their numbers. REQUIRES: the same, and
  // IsWhollyTold(field).
  v1::Configuration* Change(std::initializer_list<int> fields);

  void Begin(uint64_t term, const std::string& run_id,
             const std::string& job_digest);
  // What has changed since is to be told.
  void NextVersion();
  // The same, of the job's state.
  void ChangeState(v1::JobState state);
  // Of a server's life, a session, or contributors.
  template <Numbered Number>
  Number NewGeneration() {
    return MakeNumber<Number>(configuration_.version().term(),
                              ++generation_counter_);
  }
  // The first ones of the term are those of servers that were taken over.
  void SkipGenerations(uint64_t count) { generation_counter_ = count; }

  void SetServers(const std::vector<ServerRecord>& servers);
  // One of those that were set.
  void SetServer(uint32_t index, const ServerRecord& server);
  void SetWorkers(const std::map<uint32_t, WorkerRecord>& workers);

  // ---- what members are told
  // Whether it can be said what has changed since this one.
  bool CanTellSince(const v1::ConfigurationVersion& known) const;
  // What a server is told that has `known`: what has changed since, and its own
  // member; all, if that can't be said.
  v1::Configuration ForServer(uint32_t server,
                              const v1::ConfigurationVersion& known) const;
  // The same of a worker, without the sessions of others, which only servers
  // need.
  v1::Configuration ForWorker(uint32_t worker,
                              const v1::ConfigurationVersion& known) const;
  // Nothing has changed since but sessions and other servers. REQUIRES:
  // CanTellSince(known).
  bool HasOnlyNewsOfOthers(uint32_t server,
                           const v1::ConfigurationVersion& known) const;

 private:
  // What has changed since one of them, made once for all who have that.
  struct Changes {
    v1::Configuration for_servers;  // But for their own members.
    v1::Configuration for_workers;  // But for their own sessions.
  };

  // By its counter: the version that follows, with what is changed now.
  uint64_t next() const { return configuration_.version().counter() + 1; }
  // Nothing that was made of it counts any more.
  void Touch();
  const Changes& ChangesSince(const v1::ConfigurationVersion& known) const;
  void AddFields(uint64_t known, v1::Configuration* changes) const;
  void AddServers(uint64_t known, v1::Configuration* changes) const;

  v1::Configuration configuration_;
  uint64_t generation_counter_ = 0;
  // The counter of the version with which each came as it is now.
  uint64_t whole_since_ = 0;              // Everything was planned anew.
  std::map<int, uint64_t> fields_since_;  // By number.
  std::vector<uint64_t> servers_since_;   // In their order, as the workers.
  std::vector<uint64_t> workers_since_;
  // Sessions that ended, by worker. Bound: the workers there ever were.
  std::map<uint32_t, uint64_t> left_since_;
  // By the counter of who is told. Bound: kMostChanges.
  mutable std::map<uint64_t, Changes> changes_;
  mutable absl::optional<v1::Configuration> without_workers_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_LIVE_CONFIGURATION_H_
