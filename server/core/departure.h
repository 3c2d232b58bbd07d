#ifndef PARAMD_SERVER_CORE_DEPARTURE_H_
#define PARAMD_SERVER_CORE_DEPARTURE_H_

#include <cstdint>
#include <string>

#include "base/time.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"
#include "server/core/watched_place.h"

namespace paramd {

// When the process of a server ends: the job has finished, it was told to go,
// or no coordinator has called for too long.
//
// A place of a server with a backup goes when the coordinator lets it, because
// it is then neither the server nor its backup. A backup may be the last that
// holds the content, as a server may be gone before anybody knows. So where
// nobody lets it go it waits for as long as a server would, unless it hears
// from its server that it is there.
//
// Invariant: a process that drains waits for a snapshot, or to be let go, only
// while a coordinator calls. One whose job has finished stays until everybody
// knows, or for finish_timeout (the setting's default if the job ended before a
// configuration came). So once a coordinator was heard to say that the job has
// ended, it need not be heard again.
//
// Not thread-safe: a part of a Shard.
class Departure {
 public:
  // `watched` outlives it.
  Departure(const ShardView& view, const WatchedPlace& watched)
      : view_(view), watched_(watched) {}

  const bool& draining() const { return draining_; }
  const bool& finished() const { return finished_; }
  // The coordinator has let it go, and not at the end of the job.
  bool let_go() const { return let_go_; }
  // It was told to leave, and ends while it is still the server: its backup was
  // lost meanwhile, so nobody is the server until it is started again.
  bool is_missed() const;
  // How the job has ended; of one that is finished.
  const v1::Finished& end() const { return end_; }

  // A coordinator has called, or the process begins.
  void Hear(Time now) { heard_ = now; }
  // What the server has told this place, its backup, in the order of numbers.
  void HearServer(const v1::ReplicateRequest& told);
  // The process is to go: as the coordinator that watches it says, else with a
  // snapshot if there is something to save and a coordinator to ask, else at
  // once. Again: no change.
  void Drain(ShardTurn* turn);
  // The same, told by the coordinator and not by a signal.
  void DrainAsTold(ShardTurn* turn);
  // Nothing of what it holds is needed any more, says the coordinator. No
  // change if it does not drain.
  void LetGo(ShardTurn* turn);
  // The job has finished, or failed: this process ends as all others do.
  void OnFinish(const v1::FinishRequest& request, ShardTurn* turn);
  // Goes where no coordinator calls any more; true if it does. One that stood
  // still itself (SIGSTOP, a machine that was paused) begins to wait anew.
  bool GivesUp(ShardTurn* turn);
  // Goes when it has been finished for long enough.
  void Advance(ShardTurn* turn);
  Time next_tick() const;

  // Whom it waits for to be saved, and to be called; empty: nobody.
  std::string WaitsToBeSaved() const;
  std::string WaitsToBeCalled(Time now) const;

 private:
  // Whether the content may be more than what it was filled with.
  bool HoldsPushes() const;
  // It is the backup of a server that may have gone before it was to go itself,
  // and the coordinator that knows it as that is the newest one.
  bool MayBeTheLast() const;
  bool IsLeaseOver(Time now) const;
  // Nobody is there any more to let it go, and it has nothing to save.
  bool IsForgotten(Time now) const;
  void LeaveUndrained(ShardTurn* turn) const;
  // When it has heard of no coordinator for long enough.
  Time LosesPatience() const;

  const ShardView& view_;
  const WatchedPlace& watched_;
  Time heard_;  // When a coordinator last called.
  bool draining_ = false;
  bool awaits_leave_ = false;     // To be let go, or saved.
  bool is_told_ = false;          // To drain, by the coordinator.
  uint64_t heard_before_ = 0;     // Number that the server had told until then.
  bool server_is_there_ = false;  // It has said so since, or that it leaves.
  bool finished_ = false;
  bool let_go_ = false;
  v1::Finished end_;
  Time leave_at_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_DEPARTURE_H_
