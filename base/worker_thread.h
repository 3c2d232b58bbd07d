#ifndef PARAMD_BASE_WORKER_THREAD_H_
#define PARAMD_BASE_WORKER_THREAD_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

#include "base/mutex.h"

namespace paramd {

// One thread that runs functions in the order of posting: for work that blocks
// or takes long (files, computing), away from the loop thread.
//
// Invariant: functions run one at a time. Bound: 4,096 waiting functions; Post
// waits at the bound (a runtime never has more open works than that).
//
// Thread-safe. The destructor waits for the running function; those still
// waiting are dropped. What the functions use outlives this.
class WorkerThread {
 public:
  // `name` is what the system shows for the thread (15 characters at most).
  explicit WorkerThread(absl::string_view name);
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  void Post(std::function<void()> f) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_BASE_WORKER_THREAD_H_
