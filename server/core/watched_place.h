#ifndef PARAMD_SERVER_CORE_WATCHED_PLACE_H_
#define PARAMD_SERVER_CORE_WATCHED_PLACE_H_

#include "absl/status/status.h"

#include "base/time.h"
#include "proto/paramd/v1/control.pb.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"

namespace paramd {

// The call by which a coordinator watches this place of a server. It is kept
// until there is something to say that is not in its request, or for as long as
// the request allows. So a process that is to end is let go within
// milliseconds.
//
// Bound: one call is kept; a second one has the first answered.
//
// Not thread-safe: a part of a Shard.
class WatchedPlace {
 public:
  explicit WatchedPlace(const ShardView& view) : view_(view) {}

  // Whether a coordinator that calls may watch: else JOB_FINISHED, OLD_TERM or,
  // if it means another process, NOT_READY.
  absl::Status Check(const v1::WatchRequest& request) const;
  // Keeps it. REQUIRES: Check lets it pass.
  void Keep(CallId call, const v1::WatchRequest& request, ShardTurn* turn);
  // A coordinator has asked so lately that it will ask again.
  bool IsWatched(Time now) const { return now < watched_until_; }
  // Unless it asks again.
  Time watched_until() const { return watched_until_; }
  // Answers if it is time. To be called after everything else of an event.
  void Advance(ShardTurn* turn);
  Time next_tick() const { return call_ == 0 ? Time::Never() : until_; }

 private:
  void Answer(ShardTurn* turn);
  v1::ConfigurationVersion StoppedFor() const;
  bool HasNews() const;

  const ShardView& view_;
  CallId call_ = 0;  // 0: none.
  v1::WatchRequest request_;
  Time until_;
  Time watched_until_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_WATCHED_PLACE_H_
