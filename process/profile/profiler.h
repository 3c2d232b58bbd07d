#ifndef PARAMD_PROCESS_PROFILE_PROFILER_H_
#define PARAMD_PROCESS_PROFILE_PROFILER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "base/time.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Answers those who ask a process what it spends its processors' time on: one
// at a time, on a thread of its own.
//
//     idle ── asked ──► sampling ── duration is over ──► known
//                          ▲                               │
//                          └── asked with another nonce ───┘
//
// Thread-safe.
class Profiler {
 public:
  static constexpr absl::Duration kShortest = absl::Milliseconds(100);
  static constexpr absl::Duration kLongest = absl::Minutes(5);

  // `process`: its name, "ps-1".
  explicit Profiler(std::string process) : process_(std::move(process)) {}
  // Gives up what is under way.
  ~Profiler();

  // Does not block. Errors: RETRY as long as it samples, for this one or for
  // somebody else; INVALID for a duration out of bounds; what SampleStacks
  // says.
  absl::StatusOr<v1::ProfileReply> Answer(const v1::ProfileRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Begin(const v1::ProfileRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::ProfileReply> Measure(absl::Duration duration) const;
  void Sample(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string process_;
  std::atomic<bool> cancelled_ = false;
  Mutex mutex_;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_sampling_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t nonce_ ABSL_GUARDED_BY(mutex_) = 0;
  Time end_ ABSL_GUARDED_BY(mutex_);
  absl::StatusOr<v1::ProfileReply> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_PROFILE_PROFILER_H_
