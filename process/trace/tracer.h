#ifndef PARAMD_PROCESS_TRACE_TRACER_H_
#define PARAMD_PROCESS_TRACE_TRACER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/chrome_trace.h"
#include "base/mutex.h"
#include "base/time.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Has a process record what it does for those who ask, one at a time, and gives
// it to them.
//
//     idle ── asked ──► recording ── duration is over, asked again ──► known
//      ▲                                                                 │
//      └── whoever asked has all, or is silent and somebody else asks ◄──┘
//
// Until whoever asked has all, or has not asked for a while, everybody else is
// refused.
//
// Each answer says what the process's clock showed, from which whoever asks
// learns where that stands against its own.
//
// Thread-safe.
class Tracer {
 public:
  static constexpr absl::Duration kShortest = absl::Milliseconds(100);
  static constexpr absl::Duration kLongest = absl::Minutes(1);
  // Of the events of one answer, less than a message may have.
  static constexpr size_t kPieceBytes = size_t{256} << 10;
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  // `process`: its name, "ps-1". `trace` outlives this, or its Close.
  // `patience`: how long events are kept for whoever asked once that one asks
  // no more; as long as it records in any case.
  Tracer(std::string process, ChromeTrace* trace,
         absl::Duration patience = kPatience)
      : process_(std::move(process)), trace_(trace), patience_(patience) {}
  ~Tracer() { Close(); }

  // Does not block. Errors: RETRY as long as it records for somebody else, or
  // keeps events for that one; INVALID for a duration out of bounds, or of
  // somebody who has events of another recording than this, or more than there
  // are; JOB_FINISHED once it is closed.
  absl::StatusOr<v1::TraceReply> Answer(const v1::TraceRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // What does the work ends: gives up what is under way, and records nothing
  // any more.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // How long others have to wait; zero: not at all.
  absl::Duration TakenFor(Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Begin(const v1::TraceRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddPiece(uint64_t have, v1::TraceReply* reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string process_;
  Mutex mutex_;
  ChromeTrace* trace_ ABSL_GUARDED_BY(mutex_);  // Null: it is closed.
  const absl::Duration patience_;
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_recording_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t nonce_ ABSL_GUARDED_BY(mutex_) = 0;
  Time end_ ABSL_GUARDED_BY(mutex_);
  Time asked_ ABSL_GUARDED_BY(mutex_);  // By whoever it is for, the last time.
  ChromeTrace::Recording known_ ABSL_GUARDED_BY(mutex_);
  uint64_t total_ ABSL_GUARDED_BY(mutex_) = 0;  // Events that it had.
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_TRACE_TRACER_H_
