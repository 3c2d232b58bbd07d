#ifndef PARAMD_NET_MAILBOX_H_
#define PARAMD_NET_MAILBOX_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"

#include "base/mutex.h"

namespace paramd {

// Functions on their way from any thread to one loop thread. Shared by the loop
// and by whoever may still post when the loop is gone, hence held by
// shared_ptr.
//
// Invariant: from the first Post after a Take to the next Take, `wake` is
// called exactly once. Bound: 65,536 functions; more is a broken invariant,
// since open work is bounded elsewhere.
//
// Thread-safe.
class Mailbox {
 public:
  // `wake` tells the loop that there is something; it is called with the lock
  // held, so none is under way after Close. Null: the loop uses Wait.
  explicit Mailbox(std::function<void()> wake = nullptr);

  // Dropped if the mailbox is closed.
  void Post(std::function<void()> f) ABSL_LOCKS_EXCLUDED(mutex_);
  // Everything posted, in order. Called by the loop.
  std::vector<std::function<void()>> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when there is something to take or after `timeout`.
  void Wait(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops what is in it and what will be posted.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  CondVar posted_;
  const std::function<void()> wake_;
  std::vector<std::function<void()>> functions_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paramd

#endif  // PARAMD_NET_MAILBOX_H_
