#ifndef PARAMD_COORDINATOR_CORE_SESSIONS_H_
#define PARAMD_COORDINATOR_CORE_SESSIONS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "coordinator/core/turn.h"

namespace paramd {

// The workers that have a session: how far each has come, when it was heard,
// and the heartbeat of it that is kept until there is something to say.
//
//   admitted ──► announced ──► fencing ──► fence logged ──► ended
//
// Invariants: a session has a generation of its own. By itself it ends when the
// log has its fence, and is in the configuration until then; or all end at
// once. Of each at most one heartbeat is kept.
//
// Not thread-safe: a part of the coordinator's core.
class Sessions {
 public:
  using Map = std::map<uint32_t, WorkerRecord>;  // By worker.

  // What a worker is told beside the configuration and the job's state.
  struct News {
    v1::SnapshotNumber snapshot;  // To cut for. Zero: none is open.
    bool stop = false;            // It opens no push.
    uint64_t left_out_step = 0;
    uint32_t evaluate_epoch = 0;
    bool evaluate_final = false;
    absl::optional<v1::TestPart> test_part = {};
    std::vector<v1::EpochTraining> training = {};  // With the end.
  };
  using NewsOf = absl::FunctionRef<News(uint32_t worker)>;

  const Map& all() const { return sessions_; }

  // ---- beginning
  // Its clock is the lowest of those that count, or else the highest known; of
  // all that are admitted before Announce the same.
  void Admit(const Admitted& admitted, Turn* turn);
  // Those admitted since are in a new configuration.
  void Announce(Turn* turn);
  // They go on after another coordinator. REQUIRES: nobody has a session.
  void TakeOver(Map sessions) { sessions_ = std::move(sessions); }
  // This configuration has them all.
  void OnConfigured(const v1::ConfigurationVersion& version);
  // Every lease begins now.
  void BeginLeases(Time now);

  // ---- what they say
  // False, and the call refused, if the header is not of a present session;
  // else that is heard. Raises HeardOfEnd.
  bool Accept(const Message& message, const v1::Header& header, Turn* turn);
  // The same of a heartbeat, and if a later one is known.
  bool Accept(const Message& message, const v1::HeartbeatRequest& request,
              Turn* turn);
  // REQUIRES: Accept said so. Answers the one that was kept, and keeps this
  // one.
  void Keep(const Message& message, const v1::HeartbeatRequest& request,
            NewsOf news_of, Turn* turn);
  // Those that have waited for long enough, or that there is news for.
  void Answer(NewsOf news_of, Turn* turn);
  // The same of one of them, if it has a session, and when it is due.
  void AnswerOne(uint32_t worker, NewsOf news_of, Turn* turn);
  Time due(uint32_t worker) const;
  void OnHeard(uint32_t worker, Time now);
  // So many of its pushes are acknowledged, or more.
  void OnPushes(uint32_t worker, uint64_t pushes);
  // Nobody was heard for so long, since this process stood still.
  void OnPause(absl::Duration pause);
  Time next_tick() const;

  // ---- ends
  // All that are silent for longer than their lease. Raises SessionFenced.
  void FenceSilent(Turn* turn);
  // It is to end, if it is not to already. Raises SessionFenced.
  void Fence(uint32_t worker, Turn* turn);
  // When the log has it, the session is no more: raises SessionEnded. That may
  // wait for other tellings; in sync mode only until the last fence is logged.
  void LogFence(uint32_t worker, Turn* turn);
  // Nobody's session goes on: all join again, as the sentence says.
  void EndAll(absl::string_view why, Turn* turn);

  // ---- clocks
  // How far they came without a bound is nobody's backlog.
  void RaiseStartClocks(Turn* turn);

  // ---- for people
  // `is_joining`: its process asks for a session.
  void FillStatus(const JobView& job, Time now,
                  absl::FunctionRef<bool(uint32_t)> is_joining,
                  v1::JobStats* status) const;

 private:
  void RefuseStranger(const Message& message, const v1::Header& header,
                      Turn* turn);
  // Of those that no list names: how many pushes they gave up.
  uint64_t FillJoined(const JobView& job, Time now,
                      absl::FunctionRef<bool(uint32_t)> is_joining,
                      v1::JobStats* status) const;
  static void AnswerIfDue(WorkerRecord* worker, const News& news, Turn* turn);
  void OnFenced(uint32_t worker, const IoResult& result, Turn* turn);
  uint64_t StartClock(const JobView& job, Time now) const;
  uint64_t HighestClock() const;

  Map sessions_;  // Bound: the job's workers, and max_joined_workers.
  // Those of the list that went without a word and were not replaced: for
  // people.
  Map lost_;                    // Bound: the job's workers.
  uint64_t highest_clock_ = 0;  // Of sessions that are gone.
  // Of those who are being admitted: to find it takes a look at all sessions.
  absl::optional<uint64_t> start_clock_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SESSIONS_H_
