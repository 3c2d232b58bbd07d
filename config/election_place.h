#ifndef PARAMD_CONFIG_ELECTION_PLACE_H_
#define PARAMD_CONFIG_ELECTION_PLACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/variant.h"

namespace paramd {

struct EtcdPlace {
  std::vector<std::string> endpoints;  // "host:port" of members of one etcd.
  std::string prefix;                  // "/jobs/mnist"

  // The key that the leader has.
  std::string key() const { return prefix + "/chief"; }
  // "etcd://host:port,host:port/prefix"
  std::string ToString() const;
};

// A Lease of the Kubernetes cluster that this process is a pod of.
struct LeasePlace {
  std::string name_space;  // Empty: that of the pod.
  std::string name;

  // "kubernetes://namespace/name" or "kubernetes://name"
  std::string ToString() const;
};

// Where it is decided who the chief is: setting chief_election.
using ElectionPlace = absl::variant<EtcdPlace, LeasePlace>;

// INVALID_ARGUMENT with what is needed: for "etcd://a:2379,b:2379/jobs/mnist"
// and "kubernetes://research/mnist".
absl::StatusOr<ElectionPlace> ParseElectionPlace(absl::string_view text);

}  // namespace paramd

#endif  // PARAMD_CONFIG_ELECTION_PLACE_H_
