#ifndef PARAMD_NET_HEALTH_H_
#define PARAMD_NET_HEALTH_H_

#include <functional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

#include "base/time.h"
#include "net/stream_server.h"
#include "proto/grpc/health/v1/health.pb.h"

namespace paramd {

// grpc.health.v1.Health: Check and Watch, for anybody. The services:
//   "", "readiness"  the process listens and would accept its coordinator. Not
//                    serving from SetDraining() on.
//   "liveness"       the loop answers; it depends on nothing else.
//   "restored"       the process holds its shard, or is to hold none.
// Another is NOT_FOUND to Check, SERVICE_UNKNOWN to Watch.
//
// At most 64 calls watch; more are refused with OVER_LIMIT and a retry hint.
//
// Not thread-safe: lives on the loop thread. Outlives the calls of the server
// that it is added to.
class Health {
 public:
  // `restored` is asked at every Check and, while somebody watches it, once a
  // second.
  explicit Health(std::function<bool()> restored);
  ~Health();

  void AddTo(StreamServer* server);
  void SetDraining();
  // Tells who watches what has changed.
  void Tick(Time now);
  Time next_tick() const;

 private:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;
  class CheckCall;
  class WatchCall;

  // SERVICE_UNKNOWN if there is no such service.
  Status StatusOf(absl::string_view service) const;

  const std::function<bool()> restored_;
  bool draining_ = false;
  Time next_look_;
  std::set<WatchCall*> watching_;  // Owned by the server.
};

}  // namespace paramd

#endif  // PARAMD_NET_HEALTH_H_
