#ifndef PARAMD_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_
#define PARAMD_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "coordinator/core/server_places.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// What a coordinator is told when it is made.
struct CoordinatorOptions {
  v1::JobConfig job;  // Checked, with every default filled in.
  std::string job_digest;
  std::string run_id;  // Of a new run; a log that is there has its own.
  std::vector<v1::Variable> variables;
  // A file with what they begin with (checkpoint/initial_values.h), where the
  // job names no warm start. Empty: what their initializers say.
  std::string initial_values;
  uint32_t servers = 1;
  // Of each server. Empty: no replication, a server is called by its index.
  std::vector<ServerPlaces> places;
  uint32_t workers = 1;
  // Where each ps is, for workers that no list names.
  std::vector<std::string> ps_addresses;
  uint64_t examples = 0;  // In the training set.
  // The metric that makes a checkpoint better: "accuracy", "loss", "top_5".
  // Empty: the accuracy if evaluations have one, else the loss.
  std::string best_metric;
  v1::DataSet data;  // The training set itself; workers must have it too.
  // The test set and its batches: what the workers say that share the final
  // evaluation. 0: the chief's worker evaluates alone.
  uint64_t test_set = 0;
  uint64_t test_batches = 0;
  uint64_t nonce_seed = 0;
  // In a job of more members, what comes is not followed by a look at all of
  // them (see Dispatcher).
  size_t few_members = 100;
  // With rebalance: for how long each ps is measured before a server is moved,
  // and how long one that was moved stays.
  absl::Duration balance_window = absl::Minutes(1);
  absl::Duration balance_rest = absl::Minutes(10);
  // Of a server's file that goes through here, how much at once.
  uint32_t window_bytes = 4 << 20;
  // Of a slice for such a server.
  uint32_t fill_bytes = 1 << 20;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_
