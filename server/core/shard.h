#ifndef PARAMD_SERVER_CORE_SHARD_H_
#define PARAMD_SERVER_CORE_SHARD_H_

#include <string>

#include "absl/status/status.h"

#include "base/time.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "server/core/departure.h"
#include "server/core/replication.h"
#include "server/core/restorer.h"
#include "server/core/session_gate.h"
#include "server/core/shard_options.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"
#include "server/core/snapshot_keeper.h"
#include "server/core/step_keeper.h"
#include "server/core/watched_place.h"
#include "server/core/worker_calls.h"
#include "tensor/core.h"

namespace paramd {

// A parameter server: holds the slices that the coordinator's configuration
// gives it, answers pulls, applies pushes exactly once, freezes and writes
// itself when told, and ends when the job does.
//
// Each event goes to the part it belongs to; then, in this order: the step of
// sync mode, pulls that wait. Parts see each other through a ShardView alone.
// What more than one of them has to do, a configuration above all, is written
// here.
//
// Invariants, beside those of its parts:
//  - A refused call changed nothing.
//  - What is kept for callers is bounded.
//  - Memory is asked for before it is taken: a MemoryBudget says whether a
//    push, a pull or a step may go on.
//
// Not thread-safe: see Core.
class Shard : public Core {
 public:
  using Options = ShardOptions;

  explicit Shard(const Options& options);
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  // Waits for a snapshot, until it hears that this one is committed, or for its
  // backup to take over; where there is nothing to save or no coordinator to
  // ask, it leaves at once.
  void Drain(Time now, Outbox* out) override;
  std::string overdue(Time now) const override;
  // The coordinator has let this place go: it has ended, and its job has not.
  bool let_go() const { return departure_.let_go(); }
  // It has ended as the server, though it was to hand that over.
  bool is_missed() const { return departure_.is_missed(); }

  // Who this is and what it counted. Fills `server`, nothing of the others.
  void FillStatus(v1::StatusReply* status) const;
  // Of its content (see ShardContent); 0 while it has none.
  uint32_t Checksum() const {
    return data_.content == nullptr ? 0 : data_.content->Checksum();
  }

 private:
  // For the parts, which are made before it.
  const ShardView& view() const { return view_; }
  ShardTurn Begin(Time now, Outbox* out) {
    return ShardTurn(now, out, view_, &data_, &next_io_);
  }
  void Route(const Message& message, ShardTurn* turn);
  // A call of a coordinator.
  void RouteControl(const Message& message, ShardTurn* turn);

  // Each answers one method: fills the reply, or refuses and changes nothing.
  absl::Status Recall(const v1::RecallRequest& request, v1::RecallReply* reply,
                      ShardTurn* turn);
  absl::Status Configure(const v1::ConfigureRequest& request,
                         v1::ConfigureReply* reply, ShardTurn* turn);
  absl::Status Seal(const v1::SealRequest& request, v1::SealReply* reply,
                    ShardTurn* turn);
  absl::Status Finish(const v1::FinishRequest& request, ShardTurn* turn);
  void Watch(CallId call, const v1::WatchRequest& request, ShardTurn* turn);

  // A configuration that is newer than the known one.
  absl::Status Accept(const v1::Configuration& told, ShardTurn* turn);
  absl::Status MakeContent(const v1::Configuration& told);
  // The content is new: nothing of the earlier one counts any more.
  void BeginLife(ShardTurn* turn);
  // A newer one in which this place is the server's backup.
  absl::Status AcceptAsBackup(const v1::Configuration& told, ShardTurn* turn);
  // A newer one in which it goes on as the server with what it has as backup.
  absl::Status TakeOver(const v1::Configuration& told, ShardTurn* turn);
  // Another place is the server, and another one its backup.
  void Forget(const v1::Header& header, ShardTurn* turn);
  void FollowSettings(const v1::Configuration& told);
  // Tells the backup, if there is one, and answers what waits for none.
  void FollowBackup(ShardTurn* turn);
  // The content is complete.
  void BeginServing(ShardTurn* turn);
  absl::Status ConfigureSteps(const v1::Configuration& told, ShardTurn* turn);
  void HearLogLevel(const v1::Configuration& told, ShardTurn* turn);
  void EndSteps(const absl::Status& why, ShardTurn* turn);

  const Options options_;
  ShardData data_;
  IoId next_io_ = 1;
  SessionGate gate_;
  WatchedPlace watched_;
  Departure departure_;
  Restorer restorer_;
  Replication replication_;
  SnapshotKeeper snapshots_;
  StepKeeper steps_;
  WorkerCalls calls_;
  std::string log_level_;  // That an operator set; empty: none.
  const ShardView view_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_H_
