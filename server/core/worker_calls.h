#ifndef PARAMD_SERVER_CORE_WORKER_CALLS_H_
#define PARAMD_SERVER_CORE_WORKER_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/time.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "server/core/backup_stream.h"
#include "server/core/pull_gate.h"
#include "server/core/push_numbers.h"
#include "server/core/session_progress.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"

namespace paramd {

// What workers ask of a server: pulls, pushes, and where their clocks are.
//
// Invariants: a refused call changed nothing. A push is applied at once outside
// of sync mode, and there becomes a contribution to the step. No worker reads
// while it is further ahead than the mode allows, see PullGate. What is kept of
// sessions is bounded by the configuration.
//
// Not thread-safe: a part of a Shard.
class WorkerCalls {
 public:
  WorkerCalls(const ShardOptions& options, const ShardView& view);

  // To be called before anything else of an event.
  void Wake(Time now) { pulls_.Wake(now); }
  // The view has another configuration.
  void OnConfiguration(Time now);
  // What the coordinator says is left of the input.
  void OnInputLeft(const v1::SavedInput& left) { progress_.SetLeft(left); }
  // The content is new, and has nothing of what was pushed before.
  void BeginLife();
  // A life begins with the same content.
  void TakeOver() { push_numbers_.Begin(view_.generation); }
  // The server of which this place is the backup has done this.
  void OnTold(const v1::ReplicateRequest& told);
  // What a backup has to know.
  v1::ReplicateRequest::State StateToTell() const;
  // Sync mode: whose steps pulls wait for; null: in no step.
  void Follow(const SyncStep* step) { pulls_.Follow(step); }

  // Each answers, a pull when the mode lets its reader.
  void OnPull(const Message& message, const v1::PullRequest& request,
              ShardTurn* turn);
  void OnPush(const Message& message, const v1::PushRequest& request,
              ShardTurn* turn);
  void OnTellClock(const Message& message, const v1::TellClockRequest& request,
                   ShardTurn* turn);
  // Answers pulls that no longer wait, or did for too long, and pushes that the
  // backup has.
  void Advance(ShardTurn* turn);
  // What these say the backup has too, or needs not have.
  void AnswerKept(std::vector<BackupStream::Answer> answers, ShardTurn* turn);
  Time next_tick() const { return pulls_.next_tick(); }

  // What a coordinator that takes over has to know.
  void FillRecalled(v1::RecallReply* reply) const;
  // Whom pulls wait for; empty: nobody for long.
  std::string overdue(Time now) const;
  void FillStatus(v1::ServerStats* stats) const { pulls_.FillStatus(stats); }

 private:
  // What would be refused is refused at once, before it is kept.
  absl::Status CheckReader(PeerId from, const v1::PullRequest& request) const;
  // `rows`: the pull's payload.
  void AnswerPull(CallId call, const v1::PullRequest& request,
                  const BufferChain& rows, ShardTurn* turn);
  absl::Status Pull(const v1::PullRequest& request, const BufferChain& rows,
                    v1::PullReply* reply, BufferChain* payload,
                    ShardTurn* turn);
  absl::Status Push(const Message& message, const v1::PushRequest& request,
                    v1::PushReply* reply, ShardTurn* turn);
  // Sync mode: RETRY while the next step waits for the backup to be filled.
  absl::Status CheckStepMayBegin(const v1::PushRequest& request) const;
  // To a push.
  void Answer(BackupStream::Answer answer, ShardTurn* turn);
  // What the blocks of a push hold after it, unless its sender must wait.
  void PullBehind(PeerId from, const v1::PushRequest& request,
                  v1::PushReply* reply, BufferChain* payload, ShardTurn* turn);
  // Notes what the session lost with an earlier life, if it says so: then true.
  bool HearLoss(const v1::PushRequest& request, ShardTurn* turn);
  absl::Status CheckClock(PeerId from, const v1::Header& header) const;

  const ShardView& view_;
  PullGate pulls_;
  PushNumbers push_numbers_;  // Of this life.
  SessionProgress progress_;  // Of this life, by pushes outside of sync mode.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_WORKER_CALLS_H_
