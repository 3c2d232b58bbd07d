#ifndef PARAMD_COORDINATOR_CORE_LIVE_CONFIGURATION_H_
#define PARAMD_COORDINATOR_CORE_LIVE_CONFIGURATION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "coordinator/core/members.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/refusal.h"

namespace paramd {

// The configuration that everybody is told, and the generations given out in
// this term. Each section of it is set by one part of the coordinator.
//
// Invariants: a generation is given out once; versions only rise.
//
// Not thread-safe: lives inside the coordinator's core.
class LiveConfiguration {
 public:
  const v1::Configuration& get() const { return configuration_; }
  // For an entry of the log under which nothing moves: without the slices,
  // which may be megabytes, and the sessions. The entry of a layout has both.
  v1::Configuration WithoutLayout() const;
  // What is planned as a whole. REQUIRES: nobody was told of it in this term,
  // or NextVersion() follows.
  v1::Configuration* mutable_plan() { return &configuration_; }

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
  void SetWorkers(const std::map<uint32_t, WorkerRecord>& workers);

 private:
  v1::Configuration configuration_;
  uint64_t generation_counter_ = 0;
};

// Whether there are so many members that each is told only a part of it, so
// that what all of them are told does not grow with their square.
bool HasManyMembers(const v1::Configuration& configuration);
// What a server that has the configuration is told again: its version, its run
// and that server's own member.
v1::Configuration ReminderOf(const v1::Configuration& configuration,
                             uint32_t server);
// Without the sessions of other workers, which only servers need. `shared` is
// the same without any session, and is made if it is unset.
v1::Configuration ForWorker(const v1::Configuration& configuration,
                            uint32_t worker,
                            absl::optional<v1::Configuration>* shared);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_LIVE_CONFIGURATION_H_
