#ifndef PARAMD_SERVER_CORE_SNAPSHOT_KEEPER_H_
#define PARAMD_SERVER_CORE_SNAPSHOT_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "server/core/local_shard_file.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"

namespace paramd {

// The newest snapshot that was sealed on a server: it is frozen, written, and
// reported as written. Asks the process for WriteShard.
//
// Invariants: one snapshot is kept at most; whoever waits to hear that an
// earlier one is written has been refused. A server that drains has applied
// nothing behind the snapshot that it leaves with, for which workers stopped:
// pushes after its cut would be lost.
//
// Not thread-safe: a part of a Shard.
class SnapshotKeeper {
 public:
  // Calls of Written that wait; beyond, OVER_LIMIT.
  static constexpr size_t kMostParked = 16;

  explicit SnapshotKeeper(const ShardView& view) : view_(view) {}

  // The snapshot that this server leaves with; zero: none, or not yet.
  const v1::SnapshotNumber& drained_by() const { return drained_by_; }

  // A new coordinator: none of an earlier one's snapshots will be sealed.
  void OnRecall(uint64_t term, ShardTurn* turn);
  // What is told of snapshots with a configuration.
  void OnConfigure(const v1::ConfigureRequest& request, ShardTurn* turn);
  // Says what this server leaves with; it leaves when that is committed.
  void AnswerConfigure(const v1::ConfigureRequest& request,
                       v1::ConfigureReply* reply, ShardTurn* turn) const;

  // Freezes the content and has it written; the same again changes nothing.
  // Refused, with nothing changed, where it may not be sealed here and now.
  absl::Status OnSeal(const v1::SealRequest& request, v1::SealReply* reply,
                      ShardTurn* turn);
  // Answers when it is written or cannot be; with WAIT if that takes long.
  void OnWritten(CallId call, const v1::WrittenRequest& request,
                 ShardTurn* turn);
  // A part of the file that could not be written where it is wanted, or of its
  // description, if that is too long for the answer to Written.
  absl::Status OnFetch(const v1::FetchShardRequest& request,
                       v1::FetchShardReply* reply, BufferChain* payload) const;

  // Whether this is the writing of the newest snapshot; and its end.
  bool Wants(IoId io) const;
  void OnWriteEnded(IoResult result, ShardTurn* turn);

  // The content is replaced; what was frozen belongs to the earlier one.
  void Drop();
  // Answers all who wait, with what is known.
  void AnswerParked(ShardTurn* turn);
  // Those that have waited for long enough.
  void AnswerLate(ShardTurn* turn);
  Time next_tick() const;

 private:
  // Its frozen content lives in the work of writing it, until that ends, or in
  // the file that can't be written here, until its fate is known.
  struct Snapshot {
    v1::SnapshotNumber number;
    std::string directory;
    IoId io = 0;
    bool ended = false;
    absl::Status written;
    v1::ShardFile file;
    // It could not be written where it is wanted.
    absl::optional<LocalShardFile> unseen;
    // The encoding of `file`, if it is too long for an answer.
    absl::optional<LocalShardFile> description;
  };
  struct Parked {
    CallId call;
    Time deadline;
  };

  // The caller may say something of a snapshot of this number.
  absl::Status CheckCaller(const v1::Header& header) const;
  absl::Status CheckSeal(const v1::SealRequest& request) const;
  // OK, with true, if this snapshot is the one that is kept.
  absl::StatusOr<bool> IsKept(const v1::SealRequest& request) const;
  absl::Status CheckWritten(const v1::WrittenRequest& request) const;
  void Freeze(const v1::SealRequest& request, ShardTurn* turn);
  void AnswerWritten(CallId call, ShardTurn* turn) const;
  absl::Status WhyNotWritten() const;
  // What is to be fetched from this offset on; null: nothing is.
  const LocalShardFile* Kept(const v1::SnapshotNumber& number,
                             uint64_t offset) const;

  const ShardView& view_;
  absl::optional<Snapshot> snapshot_;
  std::vector<Parked> parked_;  // Written, for snapshot_; the oldest first.
  // Sealed while draining, and workers stopped.
  v1::SnapshotNumber drained_by_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SNAPSHOT_KEEPER_H_
