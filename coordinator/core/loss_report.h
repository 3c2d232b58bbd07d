#ifndef PARAMD_COORDINATOR_CORE_LOSS_REPORT_H_
#define PARAMD_COORDINATOR_CORE_LOSS_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// The acknowledged pushes that the job has lost with the memory of servers. A
// server that was restored learns of them from each session that pushes to it
// again. Of a session that never does, the coordinator knows what it said last:
// its cut when a snapshot is sealed, or what it had acknowledged when it ended.
// That is added to a snapshot's manifest, if the server's own list has nothing
// about the session.
//
// Of a session that ended without saying so that is what its last heartbeat
// said, which are the pushes that the job counts; the session may have had a
// few more.
//
// Not thread-safe: lives inside the coordinator's core.
class LossReport {
 public:
  using List = google::protobuf::RepeatedPtrField<v1::LostPushes>;

  // What the present life of a server knows, all of it.
  void Told(uint32_t server, const v1::ServerLife& generation,
            const List& lost);
  // A new life of a server is to restore the newest checkpoint. What it lost of
  // the sessions that have ended, which it will never hear.
  std::vector<v1::LostPushes> Restoring(uint32_t server,
                                        const v1::ServerLife& generation);
  // A new life of a server goes on with what the last one held, and has lost
  // nothing that that one had not.
  void TakenOver(uint32_t server, const v1::ServerLife& generation);
  // The present life of a server, and the one that was filled with what it
  // holds: the same, or an earlier one that it took over.
  struct Life {
    v1::ServerLife generation;
    v1::ServerLife filled;
  };
  // Begins with what a coordinator finds whose servers keep what they hold: the
  // newest checkpoint (null: none), the life of each server, how far the
  // sessions came that have ended with the last coordinator, oldest first (so
  // far every server has them), and those that go on. REQUIRES: no server was
  // restored by itself since that checkpoint.
  using SessionName = std::pair<uint32_t, v1::SessionId>;  // By worker.
  void TakeOver(const v1::Manifest* newest, const std::vector<Life>& lives,
                const std::vector<v1::SavedSession>& sessions,
                const std::vector<SessionName>& going_on);
  // All servers go back to the newest checkpoint, and the input with them: what
  // came since is computed again, and not lost.
  void Rewind();
  // A session has ended, after its cut for this snapshot, if it made one.
  struct Cut {
    v1::SnapshotNumber snapshot;
    uint64_t sequence = 0;
  };
  void Ended(uint32_t worker, const v1::SessionId& generation,
             uint64_t acknowledged, const Cut& cut);

  // A snapshot is sealed: all that the present sessions pushed up to here, and
  // those that have ended up to their cuts, is in it or lost.
  void Sealing(const v1::SnapshotNumber& snapshot,
               std::vector<v1::SavedSession> present);
  // Completes the lists of that snapshot's manifest, and takes out the sessions
  // that lost nothing. What it added for the first time.
  std::vector<v1::LostPushes> Complete(v1::Manifest* manifest);
  // That manifest is the newest checkpoint.
  void Committed();

  // That some server has lost; one that several lost counts once.
  uint64_t pushes() const;

  // Sessions that ended since the newest checkpoint; the oldest are forgotten.
  static constexpr size_t kMostEnded = 4096;

 private:
  // By worker: the newest push of which generation is in.
  using Positions = std::map<uint32_t, std::pair<v1::SessionId, uint64_t>>;
  // A server's file in a checkpoint.
  struct Content {
    Positions positions;
    List lost;
  };
  using Session = std::tuple<uint32_t, uint64_t, uint64_t>;
  struct Server {
    // Its present life.
    v1::ServerLife generation;
    // The one that was filled, with what is in `restored`: the present one, or
    // an earlier one with which it goes on.
    v1::ServerLife filled;
    bool goes_on = false;
    Content restored;
    // By the lives before the present one since it was filled. Bound: that of
    // LostPushes, for each life.
    std::set<Session> heard;
    List told;
    std::vector<v1::LostPushes> added;  // Beside what the server knows.
  };

  static Positions PositionsOf(const v1::ShardFile& file);
  static Session SessionOf(uint32_t worker, const v1::SessionId& generation);
  static void LivesAs(const v1::ServerLife& generation, Server* server);
  void HeardBefore(uint32_t worker, const v1::SessionId& generation);
  // Whether the server goes on with what that life of it held.
  static bool IsOf(const Server& server, const v1::ServerLife& life);
  // Adds the sessions that the server's lives since it was filled have heard:
  // they list each, though they may have lost nothing of it.
  static void AddHeard(uint32_t index, const Server& server, const List& lost,
                       std::set<Session>* heard);
  void CompleteFile(v1::ShardFile* file, std::vector<v1::LostPushes>* found);
  // Adds what the server lost of a session that it has not heard, beyond what
  // it has by `positions` and what is listed.
  // `in`: pushes of the session that the newest checkpoint has, or lists.
  void Add(const v1::SavedSession& session, uint64_t in, uint32_t index,
           const Positions& positions, const List& listed,
           std::vector<v1::LostPushes>* found);

  std::map<uint32_t, Server> servers_;
  struct EndedSession {
    v1::SavedSession session;
    Cut cut;
    uint64_t in = 0;  // Up to its cut for the newest checkpoint.
    // What of it belongs into this snapshot.
    uint64_t UpTo(const v1::SnapshotNumber& snapshot) const;
  };
  std::deque<EndedSession> ended_;  // Bound: kMostEnded.
  // Of the snapshot that was sealed last: its sessions, how many of ended_ are
  // among them, and what its files have.
  v1::SnapshotNumber sealing_;
  struct SealedSession {
    v1::SavedSession session;
    uint64_t in = 0;
  };
  std::vector<SealedSession> sealed_;
  size_t sealed_ended_ = 0;
  std::map<uint32_t, Content> sealed_contents_;
  std::map<uint32_t, Content> committed_contents_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_LOSS_REPORT_H_
