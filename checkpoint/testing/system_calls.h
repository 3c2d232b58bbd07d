#ifndef PARAMD_CHECKPOINT_TESTING_SYSTEM_CALLS_H_
#define PARAMD_CHECKPOINT_TESTING_SYSTEM_CALLS_H_

#include <cstdint>

namespace paramd::testing {

// The calls on files that a test makes, of which one goes wrong. A program that
// links this has its own open, write, pread, fsync, close, rename, mkdir,
// unlink, stat and their like in front of libc's, for all that it links; so the
// code under test knows nothing of it.
//
// fsync(2) only counts here: what a killed process wrote is there all the same.
// What a machine without power would lose is known, and lost on request.
//
// Not thread-safe: counts the calls of all threads. One at a time.
class SystemCalls {
 public:
  enum class Fault {
    kNone,
    kError,       // The call fails with `error`, done or not.
    kEveryError,  // So does each whose number is a multiple of `at`.
    kKill,        // The process dies before it.
    kPowerLoss,   // The same, and what was not synced is torn or undone.
    kFull,        // Of writes from there on the first is torn, all others fail.
    kShort,       // Every read and write is of a few bytes.
  };

  // From now on call number `at`, from 1 on, goes wrong.
  explicit SystemCalls(Fault fault, uint64_t at = 0, int error = 0);
  // From now on none does.
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  // Since this began.
  uint64_t count() const;
};

}  // namespace paramd::testing

#endif  // PARAMD_CHECKPOINT_TESTING_SYSTEM_CALLS_H_
