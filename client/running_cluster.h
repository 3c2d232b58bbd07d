#ifndef PARAMD_CLIENT_RUNNING_CLUSTER_H_
#define PARAMD_CLIENT_RUNNING_CLUSTER_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "net/tls.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// A process of a cluster, as somebody outside of it calls it.
struct RunningProcess {
  std::string name;  // For people: "ps-0", "the chief".
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::string shard;  // Which server of the process: kShardKey.

  // What is said of a call to it that ended so: its own refusal; CANCELLED if
  // it says that the job has ended; else UNAVAILABLE with the reason. `tls` may
  // be null.
  absl::Status Explain(const grpc::Status& status, const Tls* tls) const;
};

// The members of a running job, as its chief tells them.
struct RunningCluster {
  v1::Configuration configuration;
  std::vector<RunningProcess> servers;  // As in the configuration.
};

// Where a cluster is to be found.
struct ClusterAddress {
  std::string address;             // Of any of its processes.
  std::shared_ptr<const Tls> tls;  // May be null.
};

// What the chief says of itself and the job, and where it is. As FindCluster,
// but a job that has ended, or is not that far yet, is no error.
absl::StatusOr<v1::StatusReply> AskChief(const ClusterAddress& where,
                                         absl::Time deadline, bool* answered,
                                         RunningProcess* chief);

// Asks whoever is at the address, and then the chief, until `deadline` at the
// latest. `answered` becomes true once anybody has answered. UNAVAILABLE,
// saying why, if one does not, or if the job is not that far yet; CANCELLED if
// it has ended; NOT_FOUND if there is no chief; FAILED_PRECONDITION if the job
// has no servers; other refusals as they are.
absl::StatusOr<RunningCluster> FindCluster(const ClusterAddress& where,
                                           absl::Time deadline, bool* answered);

}  // namespace paramd

#endif  // PARAMD_CLIENT_RUNNING_CLUSTER_H_
