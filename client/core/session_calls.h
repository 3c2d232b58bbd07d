#ifndef PARAMD_CLIENT_CORE_SESSION_CALLS_H_
#define PARAMD_CLIENT_CORE_SESSION_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "client/core/session_operation.h"
#include "tensor/core.h"

namespace paramd {

// The calls that a session has under way: what each is for, how many a server
// may have, and how long those took that brought weights.
//
// Invariant: a call is answered once; what comes after that, or after its
// server has left its place, is no answer.
//
// Not thread-safe: part of a session.
class SessionCalls {
 public:
  struct Call {
    uint64_t op = 0;
    size_t chunk = 0;
    uint32_t server = 0;
    uint64_t bytes = 0;
    Time sent;
  };

  explicit SessionCalls(const SessionOptions& options);

  void SetServers(size_t servers) { servers_.resize(servers); }
  // By server, of a chunk.
  std::vector<uint64_t> MostBytes() const;

  // Whether a call for this chunk may be made beside those that are under way.
  bool HasRoom(uint64_t op, const BlockChunk& chunk) const;
  // Its number.
  CallId Begin(const Call& call);
  // Whether a call with such a number is a session's.
  static bool IsOne(CallId call);
  // The call that this answers; nullopt: none.
  absl::optional<Call> End(const Message& answer);
  // The server is in another place: what is under way to the last one counts
  // as not answered, and as nothing that would keep new calls back.
  void LeavePlace(uint32_t server);

  void NotePullTime(uint32_t server, absl::Duration time);
  // The median of the last ones; zero if there was none, or no such server.
  absl::Duration PullLatency(uint32_t server) const;

 private:
  struct Server {
    int calls = 0;
    std::map<uint64_t, uint64_t> bytes;     // Under way, of each operation.
    bool in_shared_memory = false;          // As its last answer said.
    std::deque<absl::Duration> pull_times;  // At most 64.
  };

  uint64_t MostBytes(const Server& server) const;

  const uint64_t chunk_bytes_;
  const int calls_per_server_;
  CallId next_call_;
  absl::flat_hash_map<CallId, Call> calls_;  // Bound: calls_per_server each.
  std::vector<Server> servers_;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_SESSION_CALLS_H_
