#ifndef PARAMD_WORKER_STAGES_STAGE_CALLS_H_
#define PARAMD_WORKER_STAGES_STAGE_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "proto/paramd/v1/stage.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/core.h"

namespace paramd {

// The calls of a worker's threads to the processes of its stages. They travel
// as calls of the worker's core, around which this one lies: whatever else that
// core sends or gets passes unchanged.
//
// When the worker's core has ended since the job has, its stages are told so,
// and this one ends when they have answered, or a little later. A worker that
// is to be started again leaves them waiting for it.
//
// Invariant: a call ends exactly once, at its deadline at the latest; after
// Close, or the end of the core, with CANCELLED.
//
// Thread safety: Call, CallEach, Pause, SetWaiting, generation and Close on any
// thread; the rest as a core. Outlived by the core around which it lies.
class StageCalls : public Core {
 public:
  struct Request {
    PeerId to;
    Head head;
    BufferChain payload;
    absl::Duration deadline;
  };
  struct Answer {
    absl::Status status;
    Head head;  // Null if status is not OK.
    BufferChain payload;
  };
  using Done = std::function<void(Answer)>;
  // How often a stage hears that its worker is there, which may have nothing to
  // be computed for long.
  static constexpr absl::Duration kGreetEvery = absl::Seconds(10);

  // The worker `index`, whose stages are tasks [first, first + count).
  struct Options {
    uint32_t index = 0;
    uint64_t incarnation = 0;
    uint32_t first = 0;
    uint32_t count = 0;
  };
  explicit StageCalls(const Options& options) : options_(options) {}

  // Before it runs. `core` outlives this; `wake`: Runtime::Waker.
  Core* Around(Core* core, std::function<void()> wake);

  // `done` is called on the loop thread, or here if it is closed.
  void Call(Request request, Done done) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the calls that `next` gives, as long as it gives one, and has `take`
  // each answer by the call's number, in any order, on this thread; then `next`
  // is asked again. OK when none is open and none is given. The first error of
  // `take`, after which none is begun and none is taken.
  absl::Status CallEach(
      absl::FunctionRef<absl::optional<Request>()> next,
      absl::FunctionRef<absl::Status(size_t, const Answer&)> take)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits. False, at once, if it is closed.
  bool Pause(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);
  // No call goes out any more: whoever waits is let go.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whom lane `lane` waits for, for people; empty: for nobody.
  void SetWaiting(uint32_t lane, std::string whom) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the worker's session, as far as it has one.
  v1::SessionId generation() const ABSL_LOCKS_EXCLUDED(mutex_);

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  void Drain(Time now, Outbox* out) override;
  std::string overdue(Time now) const override;
  void Fail(const absl::Status& why, Time now, Outbox* out) override;

 private:
  // That a stage has computed one operation for long, from its answers.
  struct Computing {
    Time since;
    Time said;
  };
  void HearFrom(const Message& message, Time now);
  // What it was told of a session.
  void Listen(const Message& message) ABSL_LOCKS_EXCLUDED(mutex_);
  void Answered(Message message, Time now, Outbox* out)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Says that the worker is there: soon again, if the stage does not answer.
  void Greet(uint32_t stage, Outbox* out) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnGreeted(uint32_t stage, const absl::Status& status, Time now,
                 Outbox* out) ABSL_LOCKS_EXCLUDED(mutex_);
  v1::StageHeader Header() const ABSL_LOCKS_EXCLUDED(mutex_);
  CallId NextCall() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends what was asked for.
  void SendAll(Outbox* out) ABSL_LOCKS_EXCLUDED(mutex_);
  // The core may have exited: then the stages are told, if they are to be.
  void TellTheEnd(Outbox* out) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  Core* core_ = nullptr;
  std::function<void()> wake_;
  // Of each stage when it is greeted next; Never: it is being so.
  std::vector<Time> next_greet_;
  std::map<CallId, uint32_t> greetings_;  // Under way.
  std::map<PeerId, Computing> computing_;
  bool draining_ = false;
  // Of the core, which is called no more.
  bool exited_ = false;
  absl::Status exit_status_;
  absl::Status failed_;        // Another core of the process.
  std::set<CallId> tellings_;  // Of stages that have not answered yet.

  mutable Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  CallId next_call_ ABSL_GUARDED_BY(mutex_) = 1;
  std::deque<std::pair<CallId, Request>> asked_ ABSL_GUARDED_BY(mutex_);
  // Bound: lanes and devices, times kStagePiecesAtOnce.
  std::map<CallId, Done> open_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::string> waits_ ABSL_GUARDED_BY(mutex_);
  v1::SessionId generation_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_CALLS_H_
