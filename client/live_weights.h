#ifndef PARAMD_CLIENT_LIVE_WEIGHTS_H_
#define PARAMD_CLIENT_LIVE_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "net/tls.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What the servers of a job held when they were asked.
struct PulledWeights {
  // Row-major, in the order in which the variables were named.
  std::vector<std::vector<float>> values;
  // A block contains so many pushes at least and at most. Equal in sync mode,
  // where all are of one step, unless steps are faster than a pull.
  uint64_t least_step = 0;
  uint64_t most_step = 0;
};

// The weights of a running job, for somebody outside of it: knows any process
// of the cluster, asks the chief which variables there are and who holds them,
// and pulls them from the servers. Changes nothing there, and nobody waits for
// it.
//
// Training goes on meanwhile. A block of a variable (up to 262,144 elements) is
// as some push left it; another block may contain other pushes, also of one
// variable. In sync mode it asks again, ten times at most, until all blocks are
// of one step. What was pulled before a server was restored is never mixed with
// what it holds since.
//
// Not thread-safe.
//
//   LiveWeights live({.address = "10.0.0.7:2222"});
//   ASSIGN_OR_RETURN(const auto variables, live.Variables());
//   ASSIGN_OR_RETURN(const PulledWeights weights, live.Pull(variables));
class LiveWeights {
 public:
  struct Options {
    std::string address;  // "host:port" of any process of the cluster.
    // Unless null, everybody has to prove that they are of its job.
    std::shared_ptr<const Tls> tls = nullptr;
    // Of one call of a method, with all that it does again.
    absl::Duration timeout = absl::Minutes(1);
  };

  explicit LiveWeights(Options options) : options_(std::move(options)) {}

  // Both block, and try again what may pass, a server that is being restored
  // for example. UNAVAILABLE, saying whom and why, if nobody answers at the
  // address, at once, or if it has not passed in time; CANCELLED if the job has
  // ended; NOT_FOUND if a process has no chief; FAILED_PRECONDITION if the
  // job has no servers; other refusals as they are.

  // All variables of the job, in its order.
  absl::StatusOr<std::vector<v1::Variable>> Variables();
  // Those of them with these names; of keyed ones the rows of `keys`, which has
  // those of each of them in order: mixed (tensor/keyed_rows.h), ascending.
  // Also NOT_FOUND naming one that the job does not have, INVALID_ARGUMENT if
  // it has another shape there, is named twice, or is keyed and without keys.
  absl::StatusOr<PulledWeights> Pull(
      absl::Span<const v1::Variable> variables,
      absl::Span<const std::vector<uint64_t>> keys = {});

 private:
  const Options options_;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_LIVE_WEIGHTS_H_
