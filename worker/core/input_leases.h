#ifndef PARAMD_WORKER_CORE_INPUT_LEASES_H_
#define PARAMD_WORKER_CORE_INPUT_LEASES_H_

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/control.pb.h"
#include "tensor/core.h"
#include "worker/core/worker_turn.h"

namespace paramd {

// The portions of the input that a worker has in one session, where steps take
// from what is handed out: asked for, computed, and used up when the pushes of
// all of it have ended.
//
// Invariant: batches are taken in order and no two overlap; a portion is used
// up only from its beginning. A request keeps its number until it is answered,
// so the coordinator hands out nothing twice for it.
//
// Not thread-safe: part of a worker's core.
class InputLeases {
 public:
  // Examples [begin, end) of a portion, and of its epoch's order.
  struct Range {
    uint64_t portion = 0;
    uint32_t epoch = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  explicit InputLeases(Time now) : ask_at_(now) {}

  // ---- asking the coordinator
  bool may_ask() const { return call_ == 0 && !no_more_; }
  Time ask_at() const { return ask_at_; }
  // REQUIRES: may_ask().
  void Ask(const v1::Header& header, WorkerTurn* turn);
  bool IsAnswer(const Message& message) const {
    return call_ != 0 && message.call == call_;
  }
  // What came back. False if it is no answer of a coordinator of `term` or
  // later: the same is asked again a little later. What it brings is fetched.
  bool Take(const Message& message, uint64_t term, WorkerTurn* turn);
  // Another coordinator takes nothing of what its predecessor was asked.
  void AskAnew(Time now);

  // ---- steps
  // The next examples of one portion, at most `most`. Nothing if there are
  // none.
  absl::optional<Range> TakeExamples(uint64_t most);
  // How many times TakeExamples would give some.
  uint64_t BatchesLeft(uint64_t batch) const;
  // The push of what was taken up to `end` of this portion has ended.
  void Used(uint64_t portion, uint64_t end);

  // ---- what is told
  // The coordinator has said that none will come; that there is none now.
  bool no_more() const { return no_more_; }
  bool none_now() const { return none_now_; }
  bool empty() const { return portions_.empty(); }
  // Of the first portion; 0: there is none.
  uint32_t epoch() const;
  // What is left behind the pushes that have ended, and behind the open one of
  // these examples.
  void FillCut(const absl::optional<Range>& open, v1::WorkerCut* cut) const;
  // For a coordinator that has taken the session over.
  v1::HeldInput Held(uint64_t term) const;

 private:
  struct Lease {
    v1::Portion portion;
    uint64_t taken = 0;  // Offset up to which steps have begun,
    uint64_t used = 0;   // and up to which their pushes have ended.
  };

  std::deque<Lease> portions_;  // Bound: three portions.
  CallId call_ = 0;             // 0: none under way.
  Time ask_at_;
  uint64_t number_ = 0;    // Of the newest request.
  bool answered_ = true;   // That request.
  uint64_t finished_ = 0;  // Id up to which all are used up.
  uint64_t last_id_ = 0;   // Newest id known.
  bool no_more_ = false;
  bool none_now_ = false;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_INPUT_LEASES_H_
