#ifndef PARAMD_COORDINATOR_CORE_DISPATCHER_H_
#define PARAMD_COORDINATOR_CORE_DISPATCHER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "coordinator/core/checkpoint_schedule.h"
#include "coordinator/core/checkpoints.h"
#include "coordinator/core/ending.h"
#include "coordinator/core/evaluations.h"
#include "coordinator/core/fill_relay.h"
#include "coordinator/core/joins.h"
#include "coordinator/core/leaving.h"
#include "coordinator/core/mode_changes.h"
#include "coordinator/core/portion_ledger.h"
#include "coordinator/core/retirement.h"
#include "coordinator/core/run_record.h"
#include "coordinator/core/step_ledger.h"
#include "coordinator/core/summary_writer.h"
#include "coordinator/core/take_over.h"
#include "coordinator/core/turn.h"
#include "proto/paramd/v1/cluster.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/core.h"

namespace paramd {

// A coordinator from the inside: routes each event to the part that it is for,
// delivers the facts that it raises, and then asks the parts in the order of
// Advance what they have to do.
//
// Invariants: what must survive is appended to the configuration log before
// anyone is told. A worker learns its generation only when every server has it
// in its configuration. Every server has at most one control call under way,
// and in sync mode one Decide beside it. There, sessions and contributors
// change only while every server has applied the newest decided step.
//
// Not thread-safe: the core of a Coordinator, which owns it.
class Dispatcher : private JobProgress {
 public:
  explicit Dispatcher(const CoordinatorOptions& options);

  // As of Coordinator.
  void Start(Time now, Outbox* out);
  void Receive(Message message, Time now, Outbox* out);
  void Completed(IoResult result, Time now, Outbox* out);
  void Tick(Time now, Outbox* out);
  Time next_tick() const;
  void Drain(Time now, Outbox* out);

  // Whom everything waits for, and why; empty: nobody.
  std::string waiting_for() const;
  std::string overdue(Time now) const;
  void FillStatus(v1::StatusReply* status) const;

 private:
  using ServerCall = ServerSeen::Call;
  using Server = ServerSeen;
  using Worker = WorkerSeen;

  Turn Begin(Time now, Outbox* out) {
    return Turn(now, out, job_, &configuration_, &work_);
  }
  void Route(const Message& message, Turn* turn);
  void Deliver(Turn* turn);
  void On(const WorkerSilent& silent, Turn* turn);
  void On(const CheckpointCommitted& committed, Turn* turn);
  void On(const CheckpointFailed& failed, Turn* turn);
  void On(const SnapshotToLeaveWith& wanted, Turn* turn);
  void On(const ModeLogged& logged, Turn* turn);
  void On(const Admitted& admitted, Turn* turn);
  void On(const SessionOver& over, Turn* turn);
  void On(const WorkerHeard& heard, Turn* turn);
  void On(const HeardOfEnd& heard, Turn* turn);
  void On(const FenceIsDue& due, Turn* turn);
  void On(const HoldsUpStep& holds_up, Turn* turn);
  void On(const ServerHeard& heard, Turn* turn);
  void On(const ServerFailed& failed, Turn* turn);
  void On(const BackToCheckpoint& back, Turn* turn);
  void On(const InputUsed& used, Turn* turn);
  void On(const Reached& reached, Turn* turn);
  const v1::Configuration& configuration() const {
    return configuration_.get();
  }

  // ---- how far the job is
  uint64_t global_step() const override;
  uint64_t StepAt(const Cuts& cuts) const override;
  v1::SavedInput InputLeft(const Cuts& cuts) const override;
  bool InputFinished() const override;
  uint32_t EpochsFinished() const override;
  bool IsBetweenSteps() const override;
  std::string StepWaitsFor() const override;
  absl::Duration LongestStep() const override;
  uint64_t ToldStep() const;

  // ---- starting
  void OnLogRead(const IoResult& result, Turn* turn);
  void OnTermTaken(const IoResult& result, Turn* turn);
  void OnCheckpointFound(const IoResult& result, Turn* turn);
  absl::Status CheckFound(const v1::FindCheckpointResult& found) const;
  void GoOnFrom(const TakeOver::Newest& newest);
  // Why servers take it; empty: they keep what they hold.
  std::string WhyRestore(const TakeOver::Newest& newest) const;
  void TakeOverServers(const TakeOver::Newest& newest, Turn* turn);
  void RestoreServers(const TakeOver::Newest& newest, const std::string& why,
                      Turn* turn);
  // Those that the servers know go on under this coordinator.
  void TakeOverSessions(const TakeOver::Newest& newest,
                        const std::vector<v1::Version>& lives);
  void BeginRunning(Time now);
  void OnLayoutLogged(const IoResult& result, Turn* turn);
  uint64_t DecaySteps() const;
  void PlanConfiguration(const TakeOver::Newest& newest, Turn* turn);

  // Looks for the newest checkpoint that nobody found damaged.
  void FindCheckpoint(Turn* turn);
  // Begins anew from an older checkpoint.
  void PassOver(const std::string& why, Turn* turn);
  bool IsPassedOver(const std::string& path) const;

  // ---- servers
  void DriveServers(Turn* turn);
  // What the server is to be asked next, and when.
  struct Due {
    ServerCall call = ServerCall::kNone;
    Time at = Time::Never();
  };
  Due NextCall(uint32_t server) const;
  // `payload`: what is sent with it.
  Outbox::Head MakeCall(uint32_t server, ServerCall call,
                        BufferChain* payload) const;
  void CallServer(uint32_t server, ServerCall call, Turn* turn);
  void OnServerReply(uint32_t server, const Message& message, Turn* turn);
  void OnRecalled(uint32_t server, const v1::RecallReply& reply, Turn* turn);
  void OnServerFailed(uint32_t server, ServerCall call,
                      const absl::Status& status, Turn* turn);
  void OnNotRestored(uint32_t index, bool is_damaged, Turn* turn);
  void OnNewServer(uint32_t server, Turn* turn);
  void RestoreFromNewest(Server* server);
  // Slices for servers that do not see the checkpoint.
  void AdvanceFills(Turn* turn);
  void OnSlicesRead(uint32_t server, const v1::Version& generation,
                    const IoResult& result, Turn* turn);

  // ---- workers
  bool HoldsJoins() const;
  void AdvanceJoins(Turn* turn);
  // True, and the call answered, if the worker has not told what it holds.
  bool AskWhatItHolds(const Message& message,
                      const v1::HeartbeatRequest& request, Turn* turn);
  void FenceSilent(Turn* turn);
  void OnHeartbeat(const Message& message, const v1::HeartbeatRequest& request,
                   Turn* turn);
  void OnTakePortion(const Message& message, const v1::PortionRequest& request,
                     Turn* turn);
  // Null, and the call refused, if the header is not of a present session.
  Worker* FindSession(const Message& message, const v1::Header& header,
                      Turn* turn);
  // Whether workers are told of the snapshot at hand, and to stop, for it or
  // for a change of the mode.
  bool StopsWorkers() const;
  uint64_t LeftOutStep(const Worker& worker) const;
  bool HasNews(const Worker& worker) const;
  v1::HeartbeatReply NewsFor(const Worker& worker) const;
  void AnswerHeartbeat(Worker* worker, Turn* turn);
  void AnswerParked(Turn* turn);
  void Fence(uint32_t index, Turn* turn);
  void LogFence(uint32_t index, Turn* turn);
  void OnFenced(uint32_t index, const IoResult& result, Turn* turn);
  void NoticePause(Time now);

  // ---- how far workers may be apart
  // The clock that a session begins with: the lowest of those that count, or
  // the highest known if none does.
  uint64_t StartClock(Time now) const;
  uint64_t HighestClock() const;
  void RaiseStartClocks();

  // ---- changing the mode
  // What is left of the input as the new mode has it, without the sessions.
  void GoOnInMode(const ModeChange& change, Turn* turn);
  // Nobody's session goes on: all workers join again, as the sentence says.
  void EndSessions(absl::string_view why, Turn* turn);

  // ---- snapshots and the end
  void Advance(Turn* turn);
  void AdvanceRunning(Turn* turn);
  // The servers that are not there, or one that is not filled; empty: none.
  std::string ServersAwaited() const;
  bool SomebodyLeavesWithASnapshot() const;
  StepLedger::Obstacles StepObstacles() const;
  ModeChanges::Obstacles Obstacles(std::string waiting_for = "") const;
  v1::Version OpenSnapshot(const SnapshotRound::Options& options, Turn* turn);
  void NoteEndedSessions();
  void WriteResult(Turn* turn);
  bool AllInputUsed() const;
  void FillServers(v1::JobStats* job) const;
  void FillWorkers(v1::JobStats* job) const;
  void FillWorker(const Worker& worker, v1::Member* member) const;
  v1::JobState StateForPeople() const;

  const CoordinatorOptions options_;
  JobPhase phase_ = JobPhase::kReadingLog;
  LiveConfiguration configuration_;
  const JobView job_;
  PendingWork work_;
  Time started_;
  Time starting_since_;  // Or since all servers go back to a checkpoint.
  Time next_periodic_;
  Time last_event_;
  std::vector<Server> servers_;
  std::map<uint32_t, Worker> workers_;  // Bound: options_.workers.
  // Those that went without a word and were not replaced: for people.
  std::map<uint32_t, Worker> lost_workers_;  // Bound: options_.workers.
  uint64_t highest_clock_ = 0;               // Of sessions that are gone.
  Joins joins_;
  PortionLedger input_;
  StepLedger steps_;
  Checkpoints checkpoints_;
  CheckpointSchedule schedule_;
  Retirement retirement_;
  ModeChanges modes_;
  Evaluations evaluations_;
  Leaving leaving_;
  Ending ending_;
  TakeOver take_over_;
  std::map<uint32_t, v1::Version> logged_fences_;  // The newest of each worker.
  FillRelay fills_;
  // Checkpoints that a server could not restore, and whether it may later.
  struct Damaged {
    std::string path;
    v1::FindCheckpoint::Damaged what;
  };
  std::vector<Damaged> damaged_;
  bool damage_may_pass_ = false;
  SummaryWriter summary_writer_;

  RunRecord record_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_DISPATCHER_H_
