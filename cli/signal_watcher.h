#ifndef PARAMD_CLI_SIGNAL_WATCHER_H_
#define PARAMD_CLI_SIGNAL_WATCHER_H_

#include <atomic>
#include <functional>
#include <thread>

namespace paramd {

// Waits for SIGINT and SIGTERM on a thread of its own. The first one is handed
// to `on_signal`, on that thread, which asks the process to end in good order;
// a second one ends it at once with 128 + its number.
//
// Thread-safe. One at a time in a process.
class SignalWatcher {
 public:
  // What arrives from now on waits for the watcher. Called first of all.
  static void Catch();

  explicit SignalWatcher(std::function<void(int signal)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // Watches no more; what comes later waits for the next watcher. Called once
  // at most.
  void Stop();

  // The first signal that came; 0: none yet.
  int signal() const { return signal_; }

 private:
  void Loop();

  const std::function<void(int)> on_signal_;
  std::atomic<int> signal_{0};
  int stop_ = -1;  // An eventfd: readable when the thread shall end.
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_CLI_SIGNAL_WATCHER_H_
