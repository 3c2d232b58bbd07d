#ifndef PARAMD_COORDINATOR_CHIEF_LEASE_H_
#define PARAMD_COORDINATOR_CHIEF_LEASE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// Sees to it that only one process is the chief of a run: by a lock, which the
// system frees when the process is gone, and by a file beside it that names the
// chief and is written anew at each heartbeat. If the last chief was a process
// of this machine, a lock that is free decides at once. A lock that is held
// counts for the process that the file names if that is seen to live; otherwise
// it may be the lock of a process that is dying, or of a machine that lost
// power. In all other cases, and for a process of another machine, what counts
// is whether the file changes within three heartbeats.
//
// Limit: one start of a machine is taken for one view of its locks. Two
// containers on one host that mount the run's directory separately, without
// locks in common, are not kept apart by this, only by the log.
//
// Which chief's decisions count is the configuration log's matter: this only
// keeps a second one from beginning, and tells the first one that it has been
// replaced.
//
// Files: configuration/chief and configuration/chief.lock in the run's
// directory.
//
// Thread safety: Take, CheckFree, Keep and LetGo on one thread. The file is
// written by a thread of its own between Keep and LetGo. The destructor lets
// go.
class ChiefLease {
 public:
  struct Options {
    std::string run_directory;
    std::string host;
    uint32_t pid = 0;
    uint64_t incarnation = 0;
    // One that is known to have ended. 0: none.
    uint64_t replaces = 0;
    // Somebody else has decided that this process is the chief (an election):
    // it waits for nobody, and the one in the file loses the run.
    bool is_elected = false;
    absl::Duration heartbeat = absl::Seconds(1);
    // Which start of which machine this is; a test has several.
    std::string boot = BootOfThisMachine();
    std::function<void(absl::Duration)> wait = absl::SleepFor;
    std::function<bool(uint32_t)> lives = AnotherLives;
  };
  // What /proc says; empty if it says nothing.
  static std::string BootOfThisMachine();
  // That /proc shows a process `pid` of this program that is neither this one
  // nor ending. Another program has only got a number that was a chief's
  // before.
  static bool AnotherLives(uint32_t pid);

  // ALREADY_EXISTS naming host and process if a living one is the chief. It
  // takes no time to find that one of this machine lives or has freed its lock,
  // and up to three heartbeats otherwise. Other errors name the file.
  static absl::StatusOr<std::unique_ptr<ChiefLease>> Take(
      const Options& options);

  // The same for chiefs of this machine alone, and changes nothing: OK if a
  // process of another machine may be the chief.
  static absl::Status CheckFree(const std::string& run_directory);

  ~ChiefLease();
  ChiefLease(const ChiefLease&) = delete;
  ChiefLease& operator=(const ChiefLease&) = delete;

  // Says from now on that this process lives. `on_lost` is called once, on
  // another thread, with ALREADY_EXISTS naming it, when another one is the
  // chief. REQUIRES: called once.
  void Keep(std::function<void(absl::Status)> on_lost);
  // Ends Keep; nobody has to wait for this process any more.
  void LetGo();

 private:
  enum class Locked { kYes, kByAnother, kUnknown };

  explicit ChiefLease(const Options& options);

  absl::Status Begin();
  Locked TryLock();
  absl::Status Write();
  void Loop(const std::function<void(absl::Status)>& on_lost)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // That a chief other than this one and the one before it wrote `lease`.
  bool IsOfAnother(const v1::ChiefLease& lease) const;
  // False when it is lost; a file that can't be read or written changes
  // nothing.
  bool Beat(const std::function<void(absl::Status)>& on_lost);

  const Options options_;
  const std::string path_;
  int lock_ = -1;
  bool has_lock_ = false;
  bool is_ours_ = false;
  // Who had it before: what that one still writes, late, evicts nobody.
  uint64_t passed_over_ = 0;
  bool complained_ = false;
  v1::ChiefLease lease_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CHIEF_LEASE_H_
