#ifndef PARAMD_SERVER_CORE_REPLICATION_H_
#define PARAMD_SERVER_CORE_REPLICATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "base/time.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "server/core/backup_intake.h"
#include "server/core/backup_stream.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"

namespace paramd {

// What this place of a server does for the other one. As the server it tells
// its backup what it does; as the backup it takes that in; and it turns from
// one into the other when the coordinator says so. Without replication none of
// this happens.
//
//           a stream since …                  took_over
//   alone ◄─────────────────► with a backup     ┌───────── backup
//     ▲                                         │             ▲
//     └─────────────────────────────────────────┘             │ since …
//   idle ─────────────────────────────────────────────────────┘ (from any)
//
// Invariant: this place answers as the server only if no other place has taken
// over. While it has a backup that may take over, it answers only as long as
// that backup has confirmed that it has not; and after it has taken over
// itself, not before the last place has stopped, unless that is known to have
// ended. A place that leaves stops before its backup is told to take over.
//
// Not thread-safe: a part of a Shard.
class Replication {
 public:
  explicit Replication(const ShardView& view) : view_(view), intake_(view) {}

  // Why this place may not answer as the server, though it is filled.
  const absl::Status& serving() const { return serving_; }
  const BackupIntake& intake() const { return intake_; }
  // To be called before anything else of an event.
  void Wake(Time now);

  // ---- the view has another configuration
  // In which this place is the server. The answers that need not wait for a
  // backup any more.
  std::vector<BackupStream::Answer> OnConfiguration(
      v1::ReplicateRequest::State state, ShardTurn* turn);
  // In which it is the backup, and begins as one.
  void BeginAsBackup(ShardTurn* turn);
  // In which it takes over from the backup it was. REQUIRES: MayTakeOver.
  void TakeOver(ShardTurn* turn);
  // What this place holds nobody needs: it is idle.
  void Forget(ShardTurn* turn);
  // Of a configuration.
  bool MayTakeOver(const v1::ServerMember& self) const;

  // The backup since then is to take over, as this place leaves: answers nobody
  // from now on, until another configuration has it go on. No change if that is
  // not its backup, or lacks something.
  void StopFor(const v1::ConfigurationVersion& since, ShardTurn* turn);

  // ---- calls
  void OnReplicate(const Message& message, const v1::ReplicateRequest& request,
                   const BackupIntake::Told& told, ShardTurn* turn) {
    intake_.OnReplicate(message, request, told, turn);
  }
  static void OnReply(const Message& message, ShardTurn* turn);
  // Tells the backup what is due.
  void Advance(ShardTurn* turn) const;
  Time next_tick() const;

  void AnswerConfigure(v1::ConfigureReply* reply) const;
  void FillStatus(v1::ServerStats* stats) const;

 private:
  // Calls of the server's are refused so that they may be in all the same.
  void DropStream(ShardTurn* turn);
  v1::ReplicaRole Role() const;

  const ShardView& view_;
  BackupIntake intake_;
  absl::Status serving_;
  Time serves_from_;  // Behind a take-over.
  CallId next_call_ = 1;
  uint64_t told_before_ = 0;  // Bytes, to earlier backups.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_REPLICATION_H_
