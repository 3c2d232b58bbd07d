#ifndef PARAMD_PROCESS_OBSERVE_PROCESS_FACTS_H_
#define PARAMD_PROCESS_OBSERVE_PROCESS_FACTS_H_

#include <cstdint>
#include <string>

#include "base/time.h"
#include "config/cluster_spec.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What a process can say about itself whatever its cores do: what it was built
// from, where it runs and listens, and where the others do as far as it is
// told.
//
// Immutable, hence thread-safe.
class ProcessFacts {
 public:
  // `shards`: servers of each ps task; `places`: places of servers that it has,
  // as many without replication.
  ProcessFacts(const ClusterSpec& cluster, uint32_t shards, uint32_t places,
               std::string build);

  // Adds it to `status`; to the members of the job, their addresses.
  void Fill(v1::StatusReply* status) const;

 private:
  // Empty: it is not told.
  std::string AddressOf(const v1::Member& member) const;
  // With replication: of the process that has this place.
  std::string AddressOfPlace(uint32_t peer) const;

  const ClusterSpec cluster_;
  const uint32_t shards_;
  const uint32_t places_;
  const std::string build_;
  const std::string host_;
  const Time started_;  // When this was made.
};

// `last`, of a process whose runtime has ended, says how its job has: one that
// was stopped still says that it is being stopped, and for whom it waits.
void FillEnd(const v1::Finished& end, v1::StatusReply* last);

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_PROCESS_FACTS_H_
