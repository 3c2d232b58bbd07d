#ifndef PARAMD_SERVER_CORE_BACKUP_STREAM_H_
#define PARAMD_SERVER_CORE_BACKUP_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "base/time.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "server/core/shard_content.h"
#include "tensor/core.h"

namespace paramd {

// What a server tells its backup, in the order in which it did it, and the
// answers that wait until the backup has what they say: to pushes, and of sync
// mode to calls of Decide.
//
//   told ──► queue: numbered 1, 2, ... ──► under way ──► taken ──► answers
//   leave
//
// A backup begins with nothing. Slices are cut one after the other, each as it
// is when its first piece is numbered; of a push before that the backup takes
// what it has slices for. So a push is told whole, whatever was cut. In sync
// mode slices are cut only while nothing of a step is here, and contributions
// are told when all have been: so the backup has whole steps.
//
// Invariants: what a number stands for never changes, however often it is sent.
// An answer leaves when the backup has everything that was told before it, even
// while slices are missing: so who pushes is never faster than the backup for
// long.
//
// Bound: full() says when pushes have to wait; beside what they told one slice,
// by reference, lies here.
//
// Not thread-safe: belongs to a Shard.
class BackupStream {
 public:
  // So many calls are under way at most: who has number n knows of an answer to
  // number n - kMostCalls.
  static constexpr size_t kMostCalls = 8;
  // As long as the backup has answered something that was sent so recently, it
  // has not taken over.
  static constexpr absl::Duration kLease = absl::Seconds(1);

  // An answer to a push that is applied here, or to a call of Decide.
  struct Answer {
    PeerId from;
    CallId call = 0;
    std::unique_ptr<v1::PushReply, HeadDeleter> reply;
    v1::PushRequest request;
    std::unique_ptr<v1::DecideReply> decided = nullptr;  // Of Decide: not null.
  };
  static uint64_t CountPushes(const std::vector<Answer>& answers);

  // `life`: of the server. `patience`: without an answer for so long the backup
  // is lost. Calls are numbered on from `next_call`, which outlives it: an
  // answer to another stream is none to this one.
  BackupStream(const v1::Backup& backup, const v1::ServerLife& life,
               absl::Duration patience, CallId* next_call)
      : backup_(backup),
        life_(life),
        patience_(patience),
        next_call_(*next_call) {}
  BackupStream(const BackupStream&) = delete;
  BackupStream& operator=(const BackupStream&) = delete;

  const v1::Backup& backup() const { return backup_; }
  const v1::ServerLife& life() const { return life_; }
  // It may take over, or may not yet.
  void set_member(bool member) { backup_.set_member(member); }

  // ---- what is told
  // A push of which so many blocks were applied, or of a contribution taken, at
  // least one.
  void TellPush(const v1::PushRequest& push, BufferChain payload,
                uint32_t applied, Time now);
  void TellState(v1::ReplicateRequest::State state, Time now);
  // This place is to end; once.
  void TellLeaving(Time now);
  // A step of sync mode that is applied from now on.
  void TellDecision(const v1::DecideRequest& decided, Time now);
  // Pushes have to wait.
  bool full() const { return bytes_ >= kMostBytes || items_.size() >= kMost; }

  // ---- the answers
  void Keep(Answer answer);
  void KeepDecided(CallId call, std::unique_ptr<v1::DecideReply> reply);
  // Those that may leave now.
  std::vector<Answer> TakeAnswers();
  // All of them.
  std::vector<Answer> DropAnswers();

  // ---- the end
  // The backup is to take over: nothing is told any more but what this place
  // has ordered until now.
  void Stop();
  bool stopped() const { return stopped_; }
  // It was stopped, and the backup has had all of that since.
  bool handed_over() const { return handed_over_; }

  // ---- the way
  // Cuts and sends what is due. `content`: null while it is not filled, or a
  // step of sync mode is half there or half applied.
  void Advance(const ShardContent* content, Time now, Outbox* out);
  // To a call of this stream: what it answers.
  void OnReply(const Message& message, Time now);
  Time next_tick() const;

  // ---- how it is
  // Every slice has been told.
  bool has_cut() const { return cut_all_; }
  // The backup has every slice and everything since.
  bool whole() const { return cut_all_ && taken_ >= last_piece_; }
  // Why it is of no use; empty: it takes what it is told.
  const std::string& lost() const { return lost_; }
  // It has said something that it would not if it were as this server is.
  bool diverged() const { return diverged_; }
  // Another one is the server now.
  bool deposed() const { return deposed_; }
  // Nobody has taken over up to here.
  Time confirmed_until() const { return confirmed_ + kLease; }
  uint64_t bytes_told() const { return bytes_told_; }
  uint64_t waiting() const { return items_.size(); }

 private:
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  static constexpr size_t kMost = 16384;

  struct Item {
    std::unique_ptr<v1::ReplicateRequest> head;
    BufferChain payload;
    uint64_t bytes = 0;
    CallId call = 0;  // Under way; 0: not.
    Time send_at;
  };
  struct Call {
    uint64_t number = 0;
    Time sent;
  };

  void Tell(std::unique_ptr<v1::ReplicateRequest> head, BufferChain payload,
            Time now);
  void CutNext(const ShardContent& content, Time now);
  void TellProof(const ShardContent& content, Time now);
  void TakenUpTo(uint64_t number, Time now);
  // Null: it is taken.
  Item* Find(uint64_t number);
  bool MaySend(const Item& item) const;

  v1::Backup backup_;
  const v1::ServerLife life_;
  const absl::Duration patience_;
  uint64_t told_ = 0;       // The newest number.
  uint64_t taken_ = 0;      // All up to this one.
  std::deque<Item> items_;  // From taken_ + 1 to told_.
  uint64_t bytes_ = 0;      // Of items_.
  uint64_t bytes_told_ = 0;
  uint64_t bytes_under_way_ = 0;
  absl::flat_hash_map<CallId, Call> calls_;  // Bound: kMostCalls.
  CallId& next_call_;
  struct Kept {
    uint64_t number;
    Answer answer;
  };
  std::deque<Kept> kept_;  // Bound: the calls of workers.
  size_t next_slice_ = 0;
  bool cut_all_ = false;
  uint64_t last_piece_ = 0;
  // What is compared next.
  size_t proof_slice_ = 0;
  int proof_block_ = 0;
  Time next_proof_;
  Time confirmed_;    // When something that was answered was sent.
  Time progressed_;   // When something was taken, or there was nothing to take.
  Time next_beacon_;  // When it is asked whether it is there.
  std::string lost_;
  bool diverged_ = false;
  bool deposed_ = false;
  bool told_leaving_ = false;
  bool stopped_ = false;
  bool handed_over_ = false;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_BACKUP_STREAM_H_
