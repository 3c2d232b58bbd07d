#ifndef PARAMD_SERVER_CORE_SESSION_PROGRESS_H_
#define PARAMD_SERVER_CORE_SESSION_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// How far the sessions of one life of a server have come, and which input has
// been used by pushes that are wholly in: what a coordinator that takes over
// has to know. A push of which some block was in already when this life began,
// out of a checkpoint, never counts as whole: its input is used again rather
// than not at all.
//
// Not thread-safe: belongs to a Shard.
class SessionProgress {
 public:
  // A life begins that owns so many blocks. Who lives stays as it is.
  void Begin(uint64_t blocks);

  // Those that live, by worker, from now on: they are never forgotten.
  void SetLiving(const std::map<uint32_t, v1::SessionId>& sessions);

  // What a coordinator says is left of the input, by what workers have
  // reported. Only the newest word counts: the input only gets less.
  void SetLeft(const v1::SavedInput& left);

  // So many blocks of this chunk were applied, none of them before, while the
  // backup since `backup` was told of them; zero: there was none. True if the
  // push is wholly in now and that backup was told only a part of it: it has to
  // be told that the push is whole.
  bool Applied(const v1::PushRequest& request, uint64_t blocks,
               const v1::ConfigurationVersion& backup = {});

  // What is to be said of it.
  void Fill(v1::RecallReply* reply) const;
  // The same for a backup, again and again: a backup can't know by itself when
  // a push is whole if some of its blocks came before.
  void Save(v1::ReplicateRequest::State* state) const;
  void GoOnFrom(const v1::ReplicateRequest::State& state);

  // Beyond these the oldest sessions that have ended, and input just used, are
  // forgotten.
  static constexpr size_t kMostSessions = 4096;
  static constexpr size_t kMostRanges = 4096;

 private:
  // Term, counter, worker.
  using SessionKey = std::tuple<uint64_t, uint64_t, uint32_t>;
  struct Session {
    uint64_t sequence = 0;            // The newest push,
    uint64_t blocks = 0;              // and how many blocks of it are in.
    uint64_t whole = 0;               // The newest that is wholly in.
    v1::ConfigurationVersion backup;  // Since when, as the newest one began.
  };

  void ForgetEnded();
  void Use(uint32_t epoch, uint64_t begin, uint64_t end);
  bool IsLeft(uint32_t epoch, uint64_t begin, uint64_t end) const;

  uint64_t blocks_ = 0;
  std::set<SessionKey> living_;  // Bound: the workers of a configuration.
  // Bound: kMostSessions, or as many as live.
  std::map<SessionKey, Session> sessions_;
  v1::SavedInput left_;
  bool has_left_ = false;
  // Ends by epoch and begin; apart, and what of it is left by left_. Bound:
  // kMostRanges.
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> used_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SESSION_PROGRESS_H_
