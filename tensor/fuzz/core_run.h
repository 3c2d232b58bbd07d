#ifndef PARAMD_TENSOR_FUZZ_CORE_RUN_H_
#define PARAMD_TENSOR_FUZZ_CORE_RUN_H_

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "base/time.h"
#include "tensor/core.h"
#include "tensor/fuzz/events.h"

namespace paramd::fuzz {

// 0 to 7: worker, 8 to 15: server, 16 to 19: coordinator, else outside; again
// from 24 on.
PeerId PeerOf(uint8_t who);
// The same the other way round, of the first eight of a kind.
uint8_t NumberOf(PeerId peer);

// Delivers events to a core, as a transport would that is told them by a fuzz
// target's input, and CHECKs what any core owes:
//  - a call is answered once, and a refusal says why;
//  - calls have a deadline, and names that no other open one has;
//  - what was refused or has ended wants nothing more, unless it is its turn to
//    end;
//  - it does not tick all the time;
//  - calls that it has not answered are bounded (kMostOpen).
//
// Not thread-safe; the core outlives it.
class CoreRun {
 public:
  static constexpr size_t kMostOpen = 1000;

  // Fills the result of work that is done, whatever the event says; for work
  // that is trusted, as a computation of the process's own is. False: it is
  // what the event says.
  using Work =
      std::function<bool(const Outbox::IoItem& item, IoResult* result)>;

  // Calls the core with requests of `methods` alone ("Pull"): a transport lets
  // no others through.
  CoreRun(Core* core, std::vector<absl::string_view> methods)
      : core_(*core), methods_(std::move(methods)) {}

  void set_work(Work work) { work_ = std::move(work); }

  // Starts the core, and delivers events until it exits.
  void Run(absl::string_view bytes);
  // The same step by step. Deliver does nothing after the exit.
  void Start();
  void Deliver(const Event& event);

  bool exited() const { return exited_; }
  // Calls of the core that have no answer yet, the oldest first.
  absl::Span<const Outbox::SendItem> sends() const { return sends_; }
  absl::Span<const Outbox::IoItem> ios() const { return ios_; }
  // What the core answered last; null: nothing yet.
  const google::protobuf::Message* last_reply() const {
    return last_reply_.get();
  }

 private:
  void Call(const Event& event);
  void Answer(const Event& event);
  void EndWork(const Event& event);
  void PassTime(const Event& event);
  void Tick();
  void Receive(const Message& message);
  void Collect(Outbox* out);

  Core& core_;
  const std::vector<absl::string_view> methods_;
  Work work_;
  Time now_ = Time::FromNanoseconds(1'000'000'000);
  CallId next_call_ = 1;
  std::set<CallId> open_;  // Calls to the core.
  std::vector<Outbox::SendItem> sends_;
  std::vector<Outbox::IoItem> ios_;
  Head last_reply_;
  bool exited_ = false;
};

}  // namespace paramd::fuzz

#endif  // PARAMD_TENSOR_FUZZ_CORE_RUN_H_
