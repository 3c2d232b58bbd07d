#ifndef PARAMD_PROCESS_SIGNAL_WATCHER_H_
#define PARAMD_PROCESS_SIGNAL_WATCHER_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/time/time.h"

#include "base/mutex.h"
#include "base/time.h"
#include "process/signal_pipe.h"

namespace paramd {

// Waits for SIGINT, SIGTERM and SIGHUP on a thread of its own, from a process's
// first step to its last. The first one is handed to the handler of the step
// that is under way, on another thread; it ends the process or asks it to end
// in good order. A repeat within StopSignals::kRepeat counts once; a later one
// is logged and ends the process at once with 128 + its number, whatever the
// handler waits for and whether or not anybody reads stderr.
//
// Thread-safe. One in a process.
class SignalWatcher {
 public:
  using Handler = std::function<void(int signal)>;

  // What arrives from now on waits for the watcher. Called first of all.
  static void Catch();

  explicit SignalWatcher(Handler handler,
                         absl::Duration repeat = StopSignals::kRepeat);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // The next step has begun: a first signal goes to `handler`. The one before
  // is not called any more, nor being called, when this returns.
  void Handle(Handler handler);

  // A process that is there still `patience` after its first signal is ended by
  // `handler`, on the watcher's own thread, whatever the first one's handler
  // waits for; it does not return. Replaces the one before; begins with a
  // signal that comes later.
  void EndWithin(absl::Duration patience, Handler handler);

  // The first signal that came; 0: none yet.
  int signal() const { return signal_; }

 private:
  void Loop();
  void OnSignal(int signal);
  void OnFirst(int signal);
  // Of poll; -1: for ever.
  int MillisecondsLeft();
  void OnPatienceOver();
  // The process ends: nobody waits for the first signal's thread any more.
  void LeaveFirst();

  StopSignals signals_;  // Of the thread.
  std::atomic<int> signal_{0};
  Mutex mutex_;
  Handler handler_ ABSL_GUARDED_BY(mutex_);
  Mutex late_mutex_;  // The other one is held by a handler.
  absl::Duration patience_ ABSL_GUARDED_BY(late_mutex_) =
      absl::InfiniteDuration();
  Handler late_ ABSL_GUARDED_BY(late_mutex_);
  // Of the thread: when the first signal came, and which.
  Time first_at_ = Time::Never();
  int first_signal_ = 0;
  int stop_ = -1;      // An eventfd: readable when the thread shall end.
  std::thread first_;  // Calls the handler; started by the other one.
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_SIGNAL_WATCHER_H_
