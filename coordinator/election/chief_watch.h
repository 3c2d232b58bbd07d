#ifndef PARAMD_COORDINATOR_ELECTION_CHIEF_WATCH_H_
#define PARAMD_COORDINATOR_ELECTION_CHIEF_WATCH_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"

#include "base/mutex.h"
#include "coordinator/election/candidacy.h"
#include "coordinator/election/chief_record.h"

namespace paramd {

// Where the elected chief listens, for a process that is not the chief: what
// the record said last, also while nobody holds it and while its keeper is
// away.
//
// Thread-safe. A thread of its own looks at the record, until the destructor.
class ChiefWatch {
 public:
  // `address`: what it is until the record says something.
  ChiefWatch(std::unique_ptr<ChiefRecord> record, const std::string& address);
  ~ChiefWatch();
  ChiefWatch(const ChiefWatch&) = delete;
  ChiefWatch& operator=(const ChiefWatch&) = delete;

  std::string address() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Looks at the record, and waits until it may be another one.
  absl::Status Look() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<ChiefRecord> record_;
  mutable Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  FollowedChief chief_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CHIEF_WATCH_H_
