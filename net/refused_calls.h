#ifndef PARAMD_NET_REFUSED_CALLS_H_
#define PARAMD_NET_REFUSED_CALLS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace paramd {

// Counts the calls that a server refuses. Those that somebody should look at
// (strangers, calls for another process, requests over a limit) are logged the
// 1st, 2nd, 4th, 8th … time of their kind.
//
// Not thread-safe: lives on the loop thread.
class RefusedCalls {
 public:
  // `peer`: whose call it was, as gRPC says.
  void Count(const std::string& peer, const absl::Status& status);

 private:
  uint64_t over_limit_ = 0;
  uint64_t strangers_ = 0;
  uint64_t for_others_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_NET_REFUSED_CALLS_H_
