#ifndef PARAMD_COORDINATOR_CORE_CHECKPOINTS_H_
#define PARAMD_COORDINATOR_CORE_CHECKPOINTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "coordinator/core/base_files.h"
#include "coordinator/core/checkpoint_accounts.h"
#include "coordinator/core/shard_relay.h"
#include "coordinator/core/snapshot_calls.h"
#include "coordinator/core/snapshot_round.h"
#include "coordinator/core/turn.h"

namespace paramd {

// Takes one snapshot after the other, from the directory to the manifest, and
// knows the newest checkpoint.
//
// Invariants: at most one snapshot is open. One that was given up takes another
// number, by which servers learn that it will never be sealed. What the newest
// checkpoint is changes with its commit alone.
//
// Not thread-safe: a part of the coordinator's core.
class Checkpoints : public SnapshotCalls {
 public:
  // A checkpoint; of no path: the job's initial values.
  struct Checkpoint {
    v1::CommitCheckpointResult files;
    v1::SnapshotNumber number;
    uint64_t step = 0;
    v1::SavedInput input;
    double milliseconds = 0;              // That it took; 0: it was found.
    absl::optional<Time> committed = {};  // Unset: it was found.

    const std::string& path() const { return files.path(); }
  };

  explicit Checkpoints(const CoordinatorOptions& options);

  // ---- the newest checkpoint
  const Checkpoint& newest() const { return newest_; }
  // The job begins from this one.
  void GoOnFrom(Checkpoint found) { newest_ = std::move(found); }
  CheckpointAccounts& accounts() { return accounts_; }

  // ---- a snapshot
  // The one that is under way; null: none is.
  const SnapshotRound* round() const { return round_ ? &*round_ : nullptr; }
  // REQUIRES: none is under way. Its number.
  v1::SnapshotNumber Open(SnapshotRound::Options options, Turn* turn);
  // Cuts, seals and commits when it is time to. Raises SessionOver, and what
  // Fail raises.
  void Advance(Turn* turn);
  // It is given up, since somebody is lost or all go back. No change if nothing
  // of a server's is open in it.
  void GiveUp(absl::string_view why, Turn* turn);
  // The same in any phase, because it can't be written; raises
  // CheckpointFailed. REQUIRES: one is under way.
  void Fail(const absl::Status& why, Turn* turn);

  // ---- what is heard meanwhile; of another snapshot: no change
  void OnCut(uint32_t worker, const v1::WorkerCut& cut);
  void OnInputUsed(uint32_t worker, const std::vector<v1::Portion>& portions);
  // The session has ended, and had used this too.
  void OnSessionEnded(uint32_t worker, const WorkerRecord& session,
                      const std::vector<v1::Portion>& used, const JobView& job);
  // A server's answer to a call of it. True if the server is sealed and to
  // apply nothing more, should it be leaving.
  bool OnAnswer(uint32_t server, const Message& answer, Turn* turn);
  void OnCallFailed(const v1::SnapshotNumber& snapshot, const absl::Status& why,
                    Turn* turn);
  // Nobody was heard for so long, since this process stood still.
  void OnPause(absl::Duration pause);

  // ---- what is to be asked and told
  Numbers numbers() const override;
  ServerRecord::Call CallFor(uint32_t server) const override;
  Outbox::Head MakeCall(uint32_t server, ServerRecord::Call call,
                        const v1::Header& header) const override;
  // Whether workers are told of it. In sync mode it is enough to decide no step
  // meanwhile.
  bool TellsWorkers(const JobView& job) const;

  // ---- for people
  // REQUIRES: one is under way. Empty: nobody.
  std::string waiting_for(const JobView& job) const;
  // Of the newest one that failed; empty: it was committed.
  const std::string& failure() const { return failure_; }
  void FillStatus(Time now, v1::JobStats* job) const;

 private:
  // A server's file, written by itself or window by window through here.
  void OnWritten(uint32_t server, const v1::WrittenReply& reply, Turn* turn);
  void OnFetched(uint32_t server, const v1::FetchShardReply& reply,
                 const BufferChain& payload, Turn* turn);
  void OnPrepared(const IoResult& result, Turn* turn);
  void OnFetchedWritten(uint32_t server, const v1::SnapshotNumber& number,
                        const IoResult& result, Turn* turn);
  void OnCommitted(const IoResult& result, Turn* turn);
  void EndWait(Turn* turn);
  void Commit(Turn* turn);
  void Drop(absl::string_view why, Turn* turn);

  absl::optional<SnapshotRound> round_;
  uint64_t counter_ = 0;
  bool commit_started_ = false;
  BaseFiles bases_;
  ShardRelay relay_;
  CheckpointAccounts accounts_;
  Checkpoint newest_;
  uint64_t failures_ = 0;
  std::string failure_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_CHECKPOINTS_H_
