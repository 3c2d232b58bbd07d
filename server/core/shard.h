#ifndef PARAMD_SERVER_CORE_SHARD_H_
#define PARAMD_SERVER_CORE_SHARD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "base/time.h"
#include "proto/paramd/v1/cluster.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "server/core/handed_slices.h"
#include "server/core/lost_pushes.h"
#include "server/core/memory_budget.h"
#include "server/core/optimizer_kernels.h"
#include "server/core/pull_gate.h"
#include "server/core/push_numbers.h"
#include "server/core/session_progress.h"
#include "server/core/shard_content.h"
#include "server/core/shard_filler.h"
#include "server/core/sync_step.h"
#include "server/core/unseen_file.h"
#include "tensor/core.h"

namespace paramd {

// A parameter server: holds the slices that the coordinator's configuration
// gives it, answers pulls, applies pushes exactly once, freezes and writes
// itself when told, and ends when the job does.
//
// Invariants:
//  - Nothing of a coordinator below the highest term heard is obeyed, and no
//    push is applied between the recall by a new one and its configuration: what
//    it was told of the pushes here stays true.
//  - What is meant for another process, though it be the same server of the same
//    generation, is refused before it is looked at: two runs count alike.
//  - Only the sessions of the configuration push; an earlier generation never
//    does again. What was sent to an earlier life of the server is not applied.
//  - A refused call changed nothing.
//  - One that drains applies nothing after the snapshot it leaves with, for which
//    workers stopped: pushes behind its cut would be lost.
//  - In sync mode nothing is applied but decided steps (see SyncStep).
//  - No worker reads while it is further ahead than the mode allows, see
//    PullGate.
//  - What is kept for callers is bounded: sessions by the configuration,
//    parked calls by kMostParked, snapshots by one.
//  - Memory is asked for before it is taken: a MemoryBudget says whether a push,
//    a pull or a step may go on.
//
// It asks the process for three kinds of work: ReadSlices, ReadWarmStart and
// WriteShard.
//
// Not thread-safe: see Core.
class Shard : public Core {
 public:
  struct Options {
    // Which server this is, and which life of the process: random, not zero.
    uint32_t index = 0;
    uint64_t incarnation = 0;
    // Key of the random lives of blocks; never the same for two processes.
    uint64_t life_seed = 0;
    // How long Written, and a pull that is too far ahead, is kept before it is
    // answered with WAIT.
    absl::Duration park_timeout = absl::Seconds(5);
    // How long a finished server stays for those who have not heard of it.
    absl::Duration finish_timeout = absl::Seconds(10);
    // Without a word from a coordinator for this long the process ends, to be
    // restarted: nobody would ever tell it the end. The first holds until one
    // has configured it.
    absl::Duration start_timeout = absl::Minutes(10);
    absl::Duration coordinator_patience = absl::Minutes(10);
    // A server that drains does so without a coordinator that was silent for
    // longer; readers wait for no worker that was.
    absl::Duration lease = absl::Seconds(10);
    // After how long it is worth asking again while slices are being filled.
    absl::Duration retry_after = absl::Milliseconds(20);
    // Sync mode: of gradients that wait for others.
    uint64_t sync_park_bytes = 256 << 20;
    // Of all that a MemoryBudget counts; 0: no limit.
    uint64_t memory_limit_bytes = 0;
    // As in ShardContent::Options.
    double spike_factor = 0;
    const OptimizerKernels* kernels = &MachineKernels();
    // Of a checkpoint that is restored, how much is read at once. Twice as much
    // is held, beside the content.
    uint64_t restore_window_bytes = 16 << 20;
    // Of a pull's answer.
    size_t max_reply_bytes = (4 << 20) + (64 << 10);
  };

  explicit Shard(const Options& options);

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  // Waits for a snapshot, until it hears that this one is committed; where
  // there is nothing to save or no coordinator to ask, it leaves at once.
  void Drain(Time now, Outbox* out) override;
  std::string overdue(Time now) const override;

  // Who this is and what it counted. Fills `server`, nothing of the others.
  void FillStatus(v1::StatusReply* status) const;

  static constexpr size_t kMostParked = 16;
  // A stamp or a seal so far beyond the newest snapshot heard of waits until the
  // coordinator has told of it: between two of its calls it opens fewer.
  static constexpr uint64_t kMostSnapshotsAhead = 16;

 private:
  // Where the content stands.
  //
  //   kNone ──Configure──► kFilling ──────► kFilled
  //                         │    ▲             │
  //                         ▼    └─ a new generation, from all three
  //                      kFailed
  enum class State { kNone, kFilling, kFilled, kFailed };

  // The newest snapshot that was sealed here. Its frozen content lives in the
  // work of writing it, until that ends, or in the file that can't be written
  // here, until its fate is known.
  struct Snapshot {
    v1::Version number;
    std::string directory;
    IoId io = 0;
    bool ended = false;
    absl::Status written;
    v1::ShardFile file;
    // It could not be written where it is wanted.
    absl::optional<UnseenFile> unseen;
  };
  struct Parked {
    CallId call;
    Time deadline;
  };

  // Answers a pull, now or when the mode lets its reader.
  void ReceivePull(const Message& message, const v1::PullRequest& request,
                   Time now, Outbox* out);
  void AnswerPull(CallId call, const v1::PullRequest& request, Outbox* out);
  // Answers what no longer waits, or did for too long.
  void ReleasePulls(Time now, Outbox* out);
  absl::Status CheckReader(PeerId from, const v1::PullRequest& request) const;
  absl::Status TellClock(const Message& message,
                         const v1::TellClockRequest& request, Time now);

  // Each answers one method: fills the reply, or refuses and changes nothing.
  absl::Status Pull(const v1::PullRequest& request, v1::PullReply* reply,
                    BufferChain* payload);
  absl::Status Push(const Message& message, const v1::PushRequest& request,
                    v1::PushReply* reply);
  void Decide(CallId call, const v1::DecideRequest& request, Time now,
              Outbox* out);
  absl::Status Recall(const v1::RecallRequest& request, v1::RecallReply* reply);
  void FillRecalled(v1::RecallReply* reply) const;
  absl::Status Configure(const v1::ConfigureRequest& request, Time now,
                         Outbox* out, v1::ConfigureReply* reply);
  absl::Status Seal(const v1::SealRequest& request, Outbox* out,
                    v1::SealReply* reply);
  void Written(CallId call, const v1::WrittenRequest& request, Time now,
               Outbox* out);
  absl::Status FetchShard(const v1::FetchShardRequest& request,
                          v1::FetchShardReply* reply,
                          BufferChain* payload) const;
  void ForgetUnseen(const v1::ConfigureRequest& request);
  absl::Status Fill(const v1::FillRequest& request, const BufferChain& payload,
                    Time now, v1::FillReply* reply);
  absl::Status Finish(const v1::FinishRequest& request, Time now, Outbox* out);

  bool IsSync() const {
    return configuration_.consistency().mode() == v1::Consistency::SYNC;
  }
  absl::Status CheckContributors() const;
  void ReceivePush(const Message& message, const v1::PushRequest& request,
                   Time now, Outbox* out);
  void ReceiveControl(const Message& message, Time now, Outbox* out);
  // Refuses, with what every refusal of this server says: term and version.
  void RefuseCall(CallId call, const absl::Status& status, Outbox* out) const;

  absl::Status CheckProcess(const v1::Header& header) const;
  absl::Status CheckTerm(uint64_t term) const;
  absl::Status CheckRun(const std::string& run_id,
                        const std::string& job_digest) const;
  absl::Status CheckRunning() const;
  absl::Status CheckFilled() const;
  absl::Status CheckStaying() const;
  // Whether a snapshot of this number can have been opened by now.
  absl::Status CheckSnapshot(const v1::Version& number) const;
  absl::Status CheckSeal(const v1::SealRequest& request) const;
  // Notes what the session lost with an earlier life, if it says so.
  void HearLoss(const v1::PushRequest& request, Outbox* out);
  // What the blocks of a push hold behind it, unless its sender must wait.
  void PullBehind(PeerId from, const v1::PushRequest& request, Time now,
                  v1::PushReply* reply, BufferChain* payload);
  // Who may push, whatever mode it is.
  absl::Status CheckPusher(const Message& message,
                           const v1::Header& header) const;
  absl::Status CheckMeant(const v1::Header& header) const;
  absl::Status CheckConfigured() const;
  absl::Status CheckTakenOver(const v1::Header& header) const;
  absl::Status CheckSession(const Message& message,
                            const v1::Header& header) const;
  absl::Status CheckKnown(const v1::Header& header) const;
  absl::Status CheckMember(const v1::Configuration& configuration,
                           Outbox* out) const;
  absl::Status Accept(const v1::Configuration& configuration, Time now,
                      Outbox* out);
  void BeginFilling(const v1::ServerMember& self, Time now, Outbox* out);
  void FenceSessions();
  // Takes over the contributors of a configuration; the step stands beside the
  // content from when there are some, and until the mode is another one. Refused
  // with nothing changed.
  absl::Status ConfigureSync(const v1::Configuration& configuration,
                             Outbox* out);
  // Sends what the step has answered, and goes on applying it.
  void ContinueSync(Time now, Outbox* out);
  void EndSync(const absl::Status& why, Outbox* out);
  void AnswerSync(Outbox* out);
  // Path of what is read for it; empty: initial values are drawn.
  std::string FilledFrom() const;
  void NoteFilled(Outbox* out) const;
  void NoteProgress(Time now, Outbox* out);
  ShardFiller::Options FillerOptions();
  ShardFiller::Checkpoint CheckpointOf(const v1::ServerMember& self) const;
  // Starts what is to be read next.
  void ReadOn(Outbox* out);
  // Fills in a piece of what is there; kFilled with the last one.
  void FillOn(Time now, Outbox* out);
  // What filler_ wanted was read, or not.
  void HearRead(const IoResult& result, Time now, Outbox* out);
  absl::Status TakeRead(const IoResult& result);
  void FailFilling(const absl::Status& why);
  void LeaveUndrained(Time now, Outbox* out) const;
  // Whether what it holds may be more than what it was filled with.
  bool HoldsPushes() const;
  void AnswerParked(Outbox* out);
  void AnswerWritten(CallId call, Outbox* out) const;
  const v1::ServerMember* FindSelf(
      const v1::Configuration& configuration) const;
  bool IsOfAnEarlierProcess(const v1::Configuration& told) const;
  std::string Name() const;
  // When it has heard of no coordinator for long enough.
  Time LosesPatience() const;

  const Options options_;
  RandomStream lives_;

  uint64_t term_ = 0;
  v1::Version generation_;
  v1::Configuration configuration_;
  std::map<uint32_t, v1::Version> sessions_;
  PullGate gate_;

  State state_ = State::kNone;
  absl::Status failure_;
  MemoryBudget memory_;
  std::unique_ptr<ShardContent> content_;
  LostPushes lost_;  // With earlier lives of content_.
  PushNumbers push_numbers_;  // Of this one.
  SessionProgress progress_;  // Of this one, by pushes outside of sync mode.
  std::unique_ptr<SyncStep> sync_;  // Sync mode, while filled; or null.
  Time apply_at_ = Time::Never();
  std::unique_ptr<ShardFiller> filler_;    // While kFilling.
  std::unique_ptr<HandedSlices> handed_;  // If the coordinator brings them.
  Time fill_at_ = Time::Never();
  Time next_progress_;
  IoId next_io_ = 1;

  absl::optional<Snapshot> snapshot_;
  std::vector<Parked> parked_;  // Written, for snapshot_.

  bool draining_ = false;
  v1::Version drained_by_;  // Sealed while draining, and workers stopped.

  Time heard_;  // When a coordinator last called.
  bool finished_ = false;
  Time leave_at_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_H_
