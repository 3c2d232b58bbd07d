#ifndef PARAMD_PROCESS_TERMINAL_PROGRESS_H_
#define PARAMD_PROCESS_TERMINAL_PROGRESS_H_

#include <thread>

#include "absl/time/time.h"

#include "base/mutex.h"
#include "net/runtime.h"
#include "process/terminal/console.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/remaining_time.h"

namespace paramd {

// Shows how a job that runs in this process alone comes along: a line every
// `period`, made on the loop thread from what the runtime says. Never a block
// that is refreshed in place: this process's own log goes between the lines.
//
// Thread safety: made and destroyed on the thread that runs the runtime, while
// it does not run. The runtime and the console outlive it.
class Progress {
 public:
  // `view` has what does not change; the rest is filled in from the status.
  Progress(ClusterView view, Console* console, Runtime* runtime,
           absl::Duration period);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void Loop();
  void Draw();  // On the runtime's loop thread.

  ClusterView view_;
  RemainingTime remaining_;  // Of the loop thread, as view_.
  Console* const console_;
  Runtime* const runtime_;
  const absl::Duration period_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINAL_PROGRESS_H_
