#ifndef PARAMD_COORDINATOR_CORE_COORDINATOR_H_
#define PARAMD_COORDINATOR_CORE_COORDINATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "coordinator/core/base_files.h"
#include "coordinator/core/checkpoint_metrics.h"
#include "coordinator/core/fill_relay.h"
#include "coordinator/core/input_holders.h"
#include "coordinator/core/job_audit.h"
#include "coordinator/core/loss_report.h"
#include "coordinator/core/members.h"
#include "coordinator/core/mode_change.h"
#include "coordinator/core/portions.h"
#include "coordinator/core/retired_checkpoints.h"
#include "coordinator/core/run_record.h"
#include "coordinator/core/shard_relay.h"
#include "coordinator/core/snapshot_round.h"
#include "coordinator/core/step_times.h"
#include "coordinator/core/summaries.h"
#include "coordinator/core/sync_steps.h"
#include "coordinator/core/take_over.h"
#include "proto/paramd/v1/cluster.pb.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/core.h"

namespace paramd {

// Decides everything that must be the same everywhere: members and their
// generations, the layout, snapshots, the input's portions, the end.
//
//   reading log ─► taking term ─► recalling ─► finding checkpoint ─► logging
//   layout ─► filling ─► adopting ─► running ─► evaluating ─► saving ─► writing
//   result ─► logging end ─► telling end ─► done
//
// Invariants: what must survive is appended to the configuration log before
// anyone is told. A worker learns its generation only when every server has it
// in its configuration. At most one snapshot is open. Every server has at most
// one control call under way, and in sync mode one Decide beside it. There,
// sessions and contributors change only while every server has applied the
// newest decided step.
//
// Not thread-safe: a core. It keeps nothing of its caller's.
class Coordinator : public Core {
 public:
  struct Options {
    v1::JobConfig job;  // Checked, with every default filled in.
    std::string job_digest;
    std::string run_id;  // Of a new run; a log that is there has its own.
    std::vector<v1::Variable> variables;
    uint32_t servers = 1;
    uint32_t workers = 1;
    uint64_t examples = 0;  // In the training set.
    v1::DataSet data;       // The training set itself; workers must have it too.
    uint64_t nonce_seed = 0;
    // Of a server's file that goes through here, how much at once.
    uint32_t window_bytes = 4 << 20;
    // Of a slice for such a server.
    uint32_t fill_bytes = 1 << 20;
  };

  explicit Coordinator(const Options& options);

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  // Takes a checkpoint, tells the servers that drain too, and leaves when the
  // chief's own worker has left; before the job runs, or where the end is being
  // written, it goes on as ever or leaves at once.
  void Drain(Time now, Outbox* out) override;

  // Whom everything waits for, and why; empty: nobody.
  std::string waiting_for() const;
  std::string overdue(Time now) const override;
  void FillStatus(v1::StatusReply* status) const;

 private:
  enum class Phase {
    kReadingLog,
    kTakingTerm,
    kRecalling,
    kFindingCheckpoint,
    kLoggingLayout,
    kFilling,
    kAdopting,
    kRunning,
    kEvaluating,
    kSaving,
    kWritingResult,
    kLoggingEnd,
    kTellingEnd,
    kDone,
  };
  using ServerCall = ServerSeen::Call;
  using Server = ServerSeen;
  using Worker = WorkerSeen;
  using Joining = JoiningSeen;
  using IoHandler = void (Coordinator::*)(const IoResult&, Time, Outbox*);

  // ---- starting
  void StartIo(Outbox::Head head, IoHandler handler, Outbox* out,
               BufferChain payload = {});
  // One entry is appended at a time, in this order: storage need not keep one.
  void Append(v1::LogEntry entry, IoHandler handler, Outbox* out);
  void AppendNext(Outbox* out);
  static absl::Status TermLost(absl::string_view how);
  void OnLogRead(const IoResult& result, Time now, Outbox* out);
  void OnTermTaken(const IoResult& result, Time now, Outbox* out);
  void OnCheckpointFound(const IoResult& result, Time now, Outbox* out);
  absl::Status CheckFound(const v1::FindCheckpointResult& found) const;
  void GoOnFrom(const TakeOver::Newest& newest);
  // Why servers take it; empty: they keep what they hold.
  std::string WhyRestore(const TakeOver::Newest& newest) const;
  void TakeOverServers(const TakeOver::Newest& newest, Outbox* out);
  void RestoreServers(const TakeOver::Newest& newest, const std::string& why,
                      Outbox* out);
  // Those that the servers know go on under this coordinator.
  void TakeOverSessions(const TakeOver::Newest& newest,
                        const std::vector<v1::Version>& lives);
  void BeginRunning(Time now);
  void OnLayoutLogged(const IoResult& result, Time now, Outbox* out);
  uint64_t DecaySteps() const;
  void PlanConfiguration(const TakeOver::Newest& newest, Time now,
                         Outbox* out);

  // Looks for the newest checkpoint that nobody found damaged.
  void FindCheckpoint(Outbox* out);
  // Begins anew from an older checkpoint.
  void PassOver(const std::string& why, Outbox* out);
  bool IsPassedOver(const std::string& path) const;

  // ---- servers
  void DriveServers(Time now, Outbox* out);
  // What the server is to be asked next, and when.
  struct Due {
    ServerCall call = ServerCall::kNone;
    Time at = Time::Never();
  };
  Due NextCall(uint32_t server) const;
  // `payload`: what is sent with it.
  Outbox::Head MakeCall(uint32_t server, ServerCall call,
                        BufferChain* payload) const;
  void CallServer(uint32_t server, ServerCall call, Time now, Outbox* out);
  void OnServerReply(uint32_t server, const Message& message, Time now,
                     Outbox* out);
  void OnRecalled(uint32_t server, const v1::RecallReply& reply, Time now,
                  Outbox* out);
  void OnServerFailed(uint32_t server, ServerCall call,
                      const absl::Status& status, Time now, Outbox* out);
  void OnNotRestored(uint32_t index, bool is_damaged, Time now, Outbox* out);
  void SetServerMembers();
  void OnNewServer(uint32_t server, Time now, Outbox* out);
  void RestoreFromNewest(Server* server);
  // Slices for servers that do not see the checkpoint.
  void AdvanceFills(Outbox* out);
  void OnSlicesRead(const IoResult& result, Time now, Outbox* out);
  bool EveryServerHas(const v1::Version& version) const;
  bool EveryServerIsThere() const;

  // ---- workers
  void OnJoin(const Message& message, const v1::JoinRequest& request, Time now,
              Outbox* out);
  void AdmitJoining(Time now, Outbox* out);
  void Admit(uint32_t index, const v1::JoinRequest& request, Time now);
  void AnswerJoin(uint32_t index, Outbox* out);
  void RefuseLateJoins(Time now, Outbox* out);
  void SetWorkerMembers();
  // True, and the call answered, if the worker has not told what it holds.
  bool AskWhatItHolds(const Message& message,
                      const v1::HeartbeatRequest& request, Outbox* out);
  void FenceSilent(Time now, Outbox* out);
  void OnHeartbeat(const Message& message, const v1::HeartbeatRequest& request,
                   Time now, Outbox* out);
  void OnTakePortion(const Message& message, const v1::PortionRequest& request,
                     Time now, Outbox* out);
  // Null, and the call refused, if the header is not of a present session.
  Worker* FindSession(const Message& message, const v1::Header& header,
                      Time now, Outbox* out);
  // Whether workers are told of the snapshot at hand, and to stop, for it or for
  // a change of the mode.
  bool TellsSnapshot() const;
  bool StopsWorkers() const;
  uint64_t LeftOutStep(const Worker& worker) const;
  // The session's input is used behind a cut that is not known yet.
  bool IsBehindUnknownCut(const v1::Header& header) const;
  bool HasNews(const Worker& worker) const;
  v1::HeartbeatReply NewsFor(const Worker& worker) const;
  void AnswerHeartbeat(Worker* worker, Outbox* out);
  void AnswerParked(Time now, Outbox* out);
  void Fence(uint32_t index, Time now, Outbox* out);
  void LogFence(uint32_t index, Outbox* out);
  void OnFenced(const IoResult& result, Time now, Outbox* out);
  bool IsLive(const Worker& worker, Time now) const;
  void NoticePause(Time now);

  // ---- how far workers may be apart
  // The clock that a session begins with: the lowest of those that count, or
  // the highest known if none does.
  uint64_t StartClock(Time now) const;
  uint64_t HighestClock() const;
  void RaiseStartClocks();

  // ---- changing the mode
  void OnSet(const Message& message, const v1::SetRequest& request,
             Outbox* out);
  absl::Status CheckMaySet() const;
  void AdvanceModeChange(Outbox* out);
  bool MayStopForChange() const;
  bool EverybodyStopped() const;
  std::string ModeChangeWaitsFor() const;
  void GiveUpModeChange(absl::string_view why, Outbox* out);
  void NoteLoggedMode(const v1::Configuration& logged);
  void LogMode(Outbox* out);
  void OnModeLogged(const IoResult& result, Time now, Outbox* out);
  void AnswerSet(CallId call, Outbox* out);
  // What is left of the input as the new mode has it, without the sessions.
  void GoOnInMode(const v1::Consistency& mode, Time now, Outbox* out);
  // Nobody's session goes on: all workers join again, as the sentence says.
  void EndSessions(absl::string_view why, Outbox* out);
  // Between its beginning and its end no snapshot is opened and nobody joins.
  bool IsChangingMode() const {
    return change_.has_value() &&
           change_->stage() != ModeChange::Stage::kWaiting;
  }
  // Sessions end with the entry that is being logged.
  bool IsLoggingEndOfSessions() const {
    return change_.has_value() && change_->ends_sessions() &&
           change_->stage() == ModeChange::Stage::kLogging;
  }
  // Pushes, or in sync mode steps, that are to come.
  uint64_t StepsOf(const v1::SavedInput& input,
                   const v1::Consistency& mode) const;

  // ---- sync mode
  bool IsSync() const {
    return configuration_.consistency().mode() == v1::Consistency::SYNC;
  }
  void AdvanceSync(Time now, Outbox* out);
  // The sessions that are to contribute, by worker.
  using Contributing = std::map<uint32_t, v1::Version>;
  bool MayContribute(const Contributing& sessions, Time now) const;
  void FenceWhoNeverContributes(Time now, Outbox* out);
  absl::Duration ContributionPatience() const;
  void LogContributors(const Contributing& sessions, Outbox* out);
  void OnContributorsLogged(const IoResult& result, Time now, Outbox* out);
  bool MayDecide(uint32_t server) const;
  void DriveDecides(Time now, Outbox* out);
  void OnDecideReply(uint32_t server, const Message& message, Time now,
                     Outbox* out);
  bool MayRewind() const;
  void RewindJob(Time now, Outbox* out);

  // ---- snapshots and the end
  void Advance(Time now, Outbox* out);
  void AdvanceRunning(Time now, Outbox* out);
  void AdvanceDrain(Time now, Outbox* out);
  bool DrainNeedsSnapshot() const;
  bool IsUntouched() const;
  // The servers that are not there, or one that is not filled; empty: none.
  std::string ServersAwaited() const;
  bool CheckpointIsDue(Time now) const;
  void SetNextCheckpoint(Time now);
  void OpenSnapshot(SnapshotRound::Options options, Time now, Outbox* out);
  void AdvanceSnapshot(Time now, Outbox* out);
  void AdvanceCuts(Time now, Outbox* out);
  bool WaitsTooLong(Time now) const;
  std::string SnapshotWaitsFor() const;
  std::string StepWaitsFor() const;
  // The newest session of the worker, if it has one, and the server's life.
  std::string NameOfWorker(uint32_t worker) const;
  std::string NameOfServer(uint32_t server) const;
  std::vector<v1::Version> ServerGenerations() const;
  void NoteEndedSessions();
  static void NoteLost(const std::vector<v1::LostPushes>& lost, Outbox* out);
  // Starts to commit the snapshot, with all that it knows to be lost.
  void Commit(Outbox* out);
  // A server's file, written by itself or window by window through here.
  void OnWritten(uint32_t server, const v1::WrittenReply& reply, Time now,
                 Outbox* out);
  void OnFetched(uint32_t server, const v1::FetchShardReply& reply,
                 const BufferChain& payload, Time now, Outbox* out);
  void OnFetchedWritten(const IoResult& result, Time now, Outbox* out);
  void GiveUpSnapshot(absl::string_view why, Time now, Outbox* out);
  // The same, because it can't be written: the last one only for so long.
  void FailSnapshot(absl::string_view why, Time now, Outbox* out);
  void NoteFailure(const v1::Version& number, absl::string_view why,
                   Outbox* out);
  void LastOneFailed(const absl::Status& why, Time now, Outbox* out);
  // Of a checkpoint with all blocks, about.
  uint64_t BytesOfACheckpoint() const;
  void OnPrepared(const IoResult& result, Time now, Outbox* out);
  void OnCommitted(const IoResult& result, Time now, Outbox* out);
  // Logs that they are retired, then deletes them.
  void Retire(const v1::CommitCheckpointResult& committed, Outbox* out);
  void OnRetired(const IoResult& result, Time now, Outbox* out);
  void DeleteCheckpoints(const std::vector<v1::Version>& retired, Outbox* out);
  void OnDeleted(const IoResult& result, Time now, Outbox* out);
  void OnResultWritten(const IoResult& result, Time now, Outbox* out);
  void OnEndLogged(const IoResult& result, Time now, Outbox* out);
  void TellJoining(Outbox* out);
  void AdvanceEnd(Time now, Outbox* out);
  uint64_t ToldStep() const;
  void AdvanceSummary(Outbox* out);
  void OnSummaryWritten(const IoResult& result, Time now, Outbox* out);
  bool AllInputUsed() const;
  bool InputFinished() const;
  uint32_t EpochsFinished() const;
  uint32_t EpochToEvaluate() const;
  void ChangeState(v1::JobState state);
  void NextVersion();
  uint64_t global_step() const;
  void FillServers(v1::JobStats* job) const;
  void FillWorkers(v1::JobStats* job) const;
  void FillWorker(const Worker& worker, v1::Member* member) const;
  v1::JobState StateForPeople() const;
  absl::Duration lease() const;
  absl::Duration heartbeat() const;

  const Options options_;
  Phase phase_ = Phase::kReadingLog;
  Time started_;
  Time starting_since_;  // Or since all servers go back to a checkpoint.
  Time next_periodic_;
  Time last_event_;
  v1::Configuration configuration_;
  uint64_t generation_counter_ = 0;
  // Of the newest number of a snapshot. One that was given up takes another, by
  // which servers learn that it will never be sealed.
  uint64_t snapshot_counter_ = 0;
  std::vector<Server> servers_;
  std::map<uint32_t, Worker> workers_;   // Bound: options_.workers.
  // Those that went without a word and were not replaced: for people.
  std::map<uint32_t, Worker> lost_workers_;  // Bound: options_.workers.
  std::map<uint32_t, Joining> joining_;      // Bound: options_.workers.
  uint64_t highest_clock_ = 0;           // Of sessions that are gone.
  absl::optional<v1::Consistency> logged_mode_;  // The newest in the log.
  // As of the newest change to or from sync in the log.
  absl::optional<uint64_t> logged_decay_steps_;
  absl::optional<ModeChange> change_;
  Portions portions_;  // Of the input; in sync mode steps_ has it.
  SyncSteps steps_;
  bool logging_contributors_ = false;
  v1::Contributors logged_contributors_;  // Or being logged.
  std::map<uint32_t, v1::Version> contributing_;  // Their sessions.
  uint32_t contributors_awaited_ = 0;  // By the first step.
  // From when on the first step is not kept for them any more.
  Time contribute_at_ = Time::Never();
  // When something else than workers last kept the open step.
  Time step_kept_;
  // A server came back without its shard: all go back to the checkpoint.
  bool rewinding_ = false;
  absl::optional<SnapshotRound> snapshot_;
  BaseFiles bases_;
  TakeOver take_over_;
  std::map<uint32_t, v1::Version> logged_fences_;  // The newest of each worker.
  InputHolders holders_;
  ShardRelay relay_;
  FillRelay fills_;
  // Checkpoints that a server could not restore, and whether it may later.
  struct Damaged {
    std::string path;
    v1::FindCheckpoint::Damaged what;
  };
  std::vector<Damaged> damaged_;
  bool damage_may_pass_ = false;
  StepTimes step_times_;
  Summaries summaries_;
  bool summary_failed_ = false;  // That was said.
  uint64_t step_before_ = 0;  // Of sessions that are gone, before a restart too.
  uint64_t next_checkpoint_step_ = 0;
  Time next_checkpoint_at_ = Time::Never();  // If a step was made since.
  // From when on a snapshot is to save steps of sync mode, in another mode.
  Time next_save_of_steps_ = Time::Never();
  bool draining_ = false;
  Time drain_started_;
  v1::Version drain_number_;  // The snapshot to leave with. Zero: none yet.
  Time next_drain_snapshot_;  // Not before: the last one may have failed.
  uint32_t epochs_evaluated_ = 0;
  v1::Evaluation evaluation_;
  v1::CommitCheckpointResult checkpoint_;
  uint64_t checkpoint_step_ = 0;
  v1::SavedInput checkpoint_input_;
  v1::Version checkpoint_number_;
  double checkpoint_ms_ = 0;
  CheckpointMetrics metrics_;
  LossReport loss_;
  JobAudit audit_;
  bool mode_changed_ = false;  // To or from sync, in this run.
  bool commit_started_ = false;
  uint64_t checkpoints_failed_ = 0;
  std::string checkpoint_failure_;  // Of the newest. Empty: it was committed.
  int final_failures_ = 0;
  Time final_failing_since_;
  Time next_final_snapshot_;  // Not before: the last one has failed.
  bool everybody_knows_ = false;
  // Workers without a session that have not asked since the end.
  std::set<uint32_t> yet_to_hear_;
  Time end_deadline_;

  uint64_t next_log_number_ = 1;
  // The first one's append is under way. Bound: a fence for each worker, a few
  // retired checkpoints and a few entries of the job.
  std::deque<std::pair<IoId, v1::LogEntry>> appends_;
  std::string run_id_;
  RunRecord record_;
  RetiredCheckpoints retired_;
  int deletions_ = 0;  // Under way.
  CallId next_call_ = 1;
  IoId next_io_ = 1;
  std::map<IoId, IoHandler> ios_;
  std::map<IoId, uint32_t> fences_;  // Which worker a fence's append is about.
  // Of which server, and of which generation of it, a slice is read.
  std::map<IoId, std::pair<v1::Version, uint32_t>> fill_reads_;
  // Of which snapshot and server a window is written.
  std::map<IoId, std::pair<v1::Version, uint32_t>> windows_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_COORDINATOR_H_
