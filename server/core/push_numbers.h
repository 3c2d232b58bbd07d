#ifndef PARAMD_SERVER_CORE_PUSH_NUMBERS_H_
#define PARAMD_SERVER_CORE_PUSH_NUMBERS_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// The newest push of each session that one life of a server has heard of. A
// worker opens push n+1 when push n is acknowledged or given up, so a push is
// ahead of that by at most as many as were given up in a row without this
// server hearing of them. A number far beyond is not the worker's: if it were
// taken for the newest push, everything that the worker sends would be an old
// push from then on.
//
// Not thread-safe: belongs to a Shard.
class PushNumbers {
 public:
  // A push that does not reach a server takes minutes to be given up. One that
  // another server quarantines was sent here too, and is heard unless this
  // server is away.
  static constexpr uint64_t kMostAhead = 1024;

  // A life begins. Nothing is known of sessions that are older than it: they
  // may be anywhere.
  void Begin(const v1::ServerLife& generation);
  // The sessions that live, by worker; others are forgotten.
  void SetLiving(const std::map<uint32_t, v1::SessionId>& sessions);
  // A chunk of this push came. Refused as INVALID, with nothing noted, if its
  // number is too far ahead.
  absl::Status Hear(const v1::Header& header);

 private:
  struct Session {
    v1::SessionId generation;
    uint64_t newest = 0;
  };

  v1::ServerLife life_;
  std::map<uint32_t, Session> sessions_;  // Bound: workers that live.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_PUSH_NUMBERS_H_
