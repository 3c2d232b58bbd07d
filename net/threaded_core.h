#ifndef PARAMD_NET_THREADED_CORE_H_
#define PARAMD_NET_THREADED_CORE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "base/mutex.h"
#include "net/mailbox.h"
#include "net/runtime.h"
#include "tensor/core.h"

namespace paramd {

// A core on a thread of its own, behind one that stands for it in a Runtime.
// What arrives is handed over to the thread; what the core sends is handed back
// and leaves with the next tick. The core notices nothing of it: its thread
// alone calls it, with one event after the other, in the order in which they
// came.
//
// Bound: 16,384 requests wait for the core's thread; one more is refused
// (OVER_LIMIT). A request whose caller has stopped waiting is dropped, but
// counts until its turn comes. Replies and works are bounded by what the core
// itself has asked. What comes after a core's Exit is dropped; its caller gets
// an answer when the process ends or its deadline comes.
//
// Thread safety: as a Core, on the loop thread. The core is used by nobody else
// until this is gone.
class ThreadedCore : public Core {
 public:
  // `wake` is the runtime's Waker. The core is not owned and outlives this.
  ThreadedCore(absl::string_view name, Core* core, std::function<void()> wake);
  // What waits is dropped, and so is what works outside say from now on.
  ~ThreadedCore() override;

  // As in Runtime, on the core's thread: work of this type goes to `handler`,
  // the other to the runtime. REQUIRES: called before Start.
  void HandleIo(const google::protobuf::Descriptor* type,
                Runtime::IoHandler handler);

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override ABSL_LOCKS_EXCLUDED(mutex_);
  Time next_tick() const override ABSL_LOCKS_EXCLUDED(mutex_);
  void Drain(Time now, Outbox* out) override;
  // As of the last second.
  std::string overdue(Time now) const override ABSL_LOCKS_EXCLUDED(mutex_);

  // The core is not given this request any more, if it has not been yet.
  void Withdraw(CallId call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `f` behind the event that the core has now, whatever else waits for
  // it, and waits for that: a turn of the core, as a rule a millisecond.
  // REQUIRES: not on the core's thread.
  void Look(const std::function<void()>& f) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a Look waits: nothing else tells when it has come so far.
  bool LookWaitsForTest() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Call = std::function<void(Time now, Outbox* out)>;
  // A Look that waits.
  struct Looking {
    const std::function<void()>& f;
    bool ended = false;  // Guarded by mutex_.
  };
  // A message whose head is its own.
  struct OwnedMessage {
    Message message;
    Outbox::Head head;
  };

  void Give(Call call);
  // False: it is refused.
  bool Queue(OwnedMessage request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Null: it was withdrawn.
  std::unique_ptr<OwnedMessage> TakeUp(CallId call) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run();
  // On the core's thread.
  void LetLook() ABSL_LOCKS_EXCLUDED(mutex_);
  void Do(const Call& call) ABSL_LOCKS_EXCLUDED(mutex_);
  void StartIos(Outbox* out);
  void HandBack(Outbox out) ABSL_LOCKS_EXCLUDED(mutex_);
  void SayWhomItWaitsFor(Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string name_;
  Core* const core_;
  const std::function<void()> wake_;
  // Shared with works that end when this is gone.
  const std::shared_ptr<Mailbox> events_;
  mutable Mutex mutex_;
  CondVar looked_;
  // Of those who wait in Look.
  std::vector<Looking*> looks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Outbox> done_ ABSL_GUARDED_BY(mutex_);
  // Requests that the core's thread has not taken up, and how many of events_
  // stand for one, withdrawn ones among them.
  absl::flat_hash_map<CallId, std::unique_ptr<OwnedMessage>> requests_
      ABSL_GUARDED_BY(mutex_);
  size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string overdue_ ABSL_GUARDED_BY(mutex_);
  // Of the core's thread.
  absl::flat_hash_map<const google::protobuf::Descriptor*, Runtime::IoHandler>
      io_handlers_;
  bool started_ = false;
  bool exited_ = false;
  bool stopping_ = false;
  Time says_next_;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_NET_THREADED_CORE_H_
