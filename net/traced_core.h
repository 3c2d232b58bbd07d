#ifndef PARAMD_NET_TRACED_CORE_H_
#define PARAMD_NET_TRACED_CORE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "base/chrome_trace.h"
#include "base/time.h"
#include "proto/traced_push.h"
#include "tensor/core.h"

namespace paramd {

// Adds to an event that a chunk of a push passed in it: of the first one that
// does, all that is known; of a further one which blocks it has; 32 numbers at
// most, and no slice without its block.
void AddChunk(const TracedPush& push, ChromeTrace::Phase phase,
              ChromeTrace::Event* event);

// A core whose turns are recorded for a trace: each message and each result
// that it is given is an event, which lasts until everything that the core
// answers is in its outbox. Chunks of pushes are followed: through the turn
// that sends one (start), the turn that takes it in at the other end and
// applies or keeps it (step), the turn that answers it, if that is a later one
// (step), and the turn that has the answer (end). The core notices nothing of
// it.
//
// While nothing is recorded, a turn costs one relaxed load more.
//
// Thread safety: as the core's.
class TracedCore : public Core {
 public:
  // Both outlive it; `trace` may be null.
  TracedCore(Core* core, ChromeTrace* trace) : core_(core), trace_(trace) {}

  void Start(Time now, Outbox* out) override { core_->Start(now, out); }
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  // Of itself no event: only if a chunk is sent or answered in it.
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return core_->next_tick(); }
  void Drain(Time now, Outbox* out) override { core_->Drain(now, out); }
  std::string overdue(Time now) const override { return core_->overdue(now); }
  void Fail(const absl::Status& why, Time now, Outbox* out) override {
    core_->Fail(why, now, out);
  }

 private:
  // Between the beginning of a turn and its end.
  struct Turn {
    ChromeTrace::Event event;
    absl::optional<CallId> asked;  // The request that it takes in.
    size_t sends = 0;              // In the outbox before it.
    size_t replies = 0;
  };

  // Forgets what was under way when an earlier recording ended.
  bool IsRecording();
  static Turn Begin(const char* name, const Outbox& out);
  void Describe(const Message& message, Turn* turn);
  void FollowSends(const Outbox& out, Turn* turn);
  void FollowReplies(const Outbox& out, Turn* turn);
  void End(Turn turn, const Outbox& out);

  Core* const core_;
  ChromeTrace* const trace_;
  // Chunks by the calls that carry them: ours, and those we have to answer.
  // Bound: the core's calls, and the callers'.
  absl::flat_hash_map<CallId, uint64_t> sent_;
  absl::flat_hash_map<CallId, uint64_t> asked_;
  // Those sent at least once and not answered.
  absl::flat_hash_set<uint64_t> started_;
};

}  // namespace paramd

#endif  // PARAMD_NET_TRACED_CORE_H_
