#ifndef PARAMD_NET_CALL_COUNTS_H_
#define PARAMD_NET_CALL_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

#include "proto/duration_count.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What a server has answered, by method: how often, how fast, how many bytes of
// each direction.
//
// Not thread-safe: lives on the loop thread.
class CallCounts {
 public:
  CallCounts();

  // Bytes are with payloads in shared memory. `method`: of MethodTable.
  void Received(int method, size_t bytes) { Of(method).received += bytes; }
  void Sent(int method, size_t bytes) { Of(method).sent += bytes; }
  void Answered(int method, bool is_refused, absl::Duration took);

  // Adds the methods that were called.
  void Fill(v1::StatusReply* status) const;

 private:
  struct Count {
    uint64_t refused = 0;
    uint64_t received = 0;
    uint64_t sent = 0;
    DurationCount took;
  };

  Count& Of(int method) { return counts_[static_cast<size_t>(method)]; }

  std::vector<Count> counts_;  // As the methods of MethodTable.
};

}  // namespace paramd

#endif  // PARAMD_NET_CALL_COUNTS_H_
