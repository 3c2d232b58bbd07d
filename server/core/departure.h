#ifndef PARAMD_SERVER_CORE_DEPARTURE_H_
#define PARAMD_SERVER_CORE_DEPARTURE_H_

#include <string>

#include "base/time.h"
#include "proto/paramd/v1/control.pb.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"

namespace paramd {

// When the process of a server ends: the job has finished, it was told to go,
// or no coordinator has called for too long.
//
// Invariant: a process that drains waits for a snapshot only while a
// coordinator calls; one that is finished stays until everybody knows, or
// finish_timeout: its default where the job ended before a configuration came.
// So a coordinator that was heard to say the end need not be heard again.
//
// Not thread-safe: a part of a Shard.
class Departure {
 public:
  explicit Departure(const ShardView& view) : view_(view) {}

  const bool& draining() const { return draining_; }
  const bool& finished() const { return finished_; }
  // How the job has ended; of one that is finished.
  const v1::Finished& end() const { return end_; }

  // A coordinator has called, or the process begins.
  void Hear(Time now) { heard_ = now; }
  // The process is to go: with a snapshot if there is something to save and a
  // coordinator to ask, else at once.
  void Drain(ShardTurn* turn);
  // The job has finished, or failed: this process ends as all others do.
  void OnFinish(const v1::FinishRequest& request, ShardTurn* turn);
  // Goes where no coordinator calls any more; true if it does.
  bool GivesUp(ShardTurn* turn) const;
  // Goes when it has been finished for long enough.
  void Advance(ShardTurn* turn);
  Time next_tick() const;

  // Whom it waits for to be saved, and to be called; empty: nobody.
  std::string WaitsToBeSaved() const;
  std::string WaitsToBeCalled(Time now) const;

 private:
  // Whether the content may be more than what it was filled with.
  bool HoldsPushes() const;
  bool IsLeaseOver(Time now) const;
  void LeaveUndrained(ShardTurn* turn) const;
  // When it has heard of no coordinator for long enough.
  Time LosesPatience() const;

  const ShardView& view_;
  Time heard_;  // When a coordinator last called.
  bool draining_ = false;
  bool finished_ = false;
  v1::Finished end_;
  Time leave_at_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_DEPARTURE_H_
