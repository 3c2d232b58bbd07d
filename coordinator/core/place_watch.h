#ifndef PARAMD_COORDINATOR_CORE_PLACE_WATCH_H_
#define PARAMD_COORDINATOR_CORE_PLACE_WATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "coordinator/core/turn.h"

namespace paramd {

// With replication: a call of the coordinator waits at every place of a server,
// for far less time than any lease. So a process that has ended is missed at
// once, and one that is to end says so at once. How it leaves it is told with
// the next call:
//
//                       ┌──► hands over ──► has stopped ──┐ its backup
//                       │                                 │ takes over
//   stays ──► leaves ───┤                                 ▼
//                       └──────── neither the server nor its backup ──► let go
//
// What a place is told is meant for the process that was heard there, and is
// said again with every call; so the parts have to tell it again after each
// event.
//
// Bound: one call for each place.
//
// Not thread-safe: a part of the coordinator's core.
class PlaceWatch {
 public:
  // Several times as often as whoever pushes would notice.
  static constexpr absl::Duration kEvery = absl::Milliseconds(100);
  // A place that nobody needs.
  static constexpr absl::Duration kEverySpare = absl::Seconds(1);

  // Without places it does nothing.
  explicit PlaceWatch(const CoordinatorOptions& options);

  enum class Answer { kNone, kSomebody, kNobody };
  // To a call that it made: whether anybody is in that place; kNone: it is no
  // answer to one.
  Answer OnReply(const Message& message, const Turn& turn);

  // ---- what they say
  // Whether the server of this place is to be looked at for its last answer.
  // Not if a process says again that it stays, and nobody leaves anywhere.
  bool HasNews(uint32_t peer) const {
    const auto place = by_peer_.find(peer);
    return place == by_peer_.end() || places_[place->second].has_news;
  }
  // Which process is there, as was heard last; 0: none, or none was yet.
  uint64_t ProcessAt(uint32_t peer) const { return Of(peer).process; }
  // It has answered, or failed to, since this coordinator began.
  bool IsKnown(uint32_t peer) const { return Of(peer).known; }
  // Nothing was heard of the process there for longer than `limit`.
  bool IsSilent(uint32_t peer, Time now, absl::Duration limit) const {
    return Of(peer).process != 0 && now - Of(peer).heard > limit;
  }
  // The same for a lease, or for 5 s if that is longer, as some places are
  // asked seldom. That is how a machine that is gone is noticed.
  bool IsSilent(uint32_t peer, const JobView& job, Time now) const {
    return IsSilent(peer, now, std::max(job.lease(), 5 * kEverySpare));
  }
  // Somebody is there who stays, and has been heard within a lease.
  bool IsThere(uint32_t peer, const Turn& turn) const;
  // This process is there, and is to end.
  bool IsLeaving(uint32_t peer, uint64_t process) const;
  // One of its places says so, or has said so and is gone.
  bool Leaves(uint64_t process) const;
  // This process has answered there a call that was sent after the process in
  // place `leaving` said that it leaves: so it was alive then.
  bool IsThereSince(uint32_t peer, uint64_t process, uint32_t leaving) const;
  // It has stopped for the backup since then, which has everything.
  bool HasStopped(uint32_t peer, uint64_t process,
                  const v1::ConfigurationVersion& since) const;

  // ---- what they are told
  // An operator has this process leave.
  void Drain(uint32_t peer, uint64_t process);
  // Whoever is there stays, unless a place of its process has heard that
  // already: a process leaves with all its places.
  void Stay(uint32_t peer) { Of(peer).drain = Leaves(Of(peer).process); }
  // The backup since then is to take over.
  void HandOver(uint32_t peer, const v1::ConfigurationVersion& since);
  // What this place holds is no longer needed, as the log says.
  void SetSpare(uint32_t peer, bool spare) { Of(peer).spare = spare; }
  // It is neither the server nor its backup, which the log has: may leave.
  void LetGo(uint32_t peer) { Of(peer).let_go = true; }
  // Whoever is there was told that, or is told with the next call.
  bool IsLetGo(uint32_t peer) const { return Of(peer).let_go; }

  // Asks those that are due.
  void Advance(Turn* turn);
  // The same for one place, if it is watched, and when it is due.
  void AdvanceOne(uint32_t peer, Turn* turn);
  Time due(uint32_t peer, const JobView& job) const;
  // Calls `each` with every place that is watched.
  void ForEach(absl::FunctionRef<void(uint32_t peer)> each) const {
    for (const Place& place : places_) each(place.peer);
  }
  Time next_tick(const JobView& job) const;

 private:
  struct Place {
    uint32_t peer = 0;
    CallId call = 0;  // 0: none.
    Time sent;
    Time next;
    // As was heard.
    Time heard;
    Time asked;  // What was answered last.
    Time leaves_since;
    uint64_t process = 0;
    uint64_t left = 0;  // The process that has left here last.
    bool known = false;
    bool doubted = false;  // Somebody else may be there by now.
    bool has_news = true;  // Of its last answer.
    bool leaving = false;
    v1::ConfigurationVersion stopped;
    // What that process is told.
    bool drain = false;
    v1::ConfigurationVersion hand_over;
    bool let_go = false;
    bool spare = false;  // Whoever is there.
  };
  static bool IsTime(const JobView& job);
  static void AskIfDue(Place* place, Turn* turn);
  Place& Of(uint32_t peer);
  const Place& Of(uint32_t peer) const;
  // This process leaves, and so do all its places; those that are asked seldom
  // are asked now.
  void LeaveTogether(uint64_t process, Time now);
  // Somebody else is there, or nobody.
  void Forget(Place* place, uint64_t process);
  void SetLeaving(Place* place, bool leaving);

  const bool scalable_;
  std::vector<Place> places_;
  int leaving_ = 0;  // Places of which that was heard.
  // Where in them it is, by `peer`: a scalable job has very many.
  absl::flat_hash_map<uint32_t, size_t> by_peer_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_PLACE_WATCH_H_
