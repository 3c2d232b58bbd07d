#ifndef PARAMD_PROCESS_TERMINAL_BYTE_PROGRESS_H_
#define PARAMD_PROCESS_TERMINAL_BYTE_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/types/optional.h"

#include "base/time.h"
#include "process/terminal/console.h"

namespace paramd {

// How a long reading or writing comes along: on a terminal one line that is
// refreshed in place, at most ten times a second, until End or the end of this
// object; nothing elsewhere.
//
//   verifying 000001-00000010.step-9382: 43 % of 12.3 GB, 1.1 GB/s
//
// Not thread-safe. The console outlives it.
class ByteProgress {
 public:
  ByteProgress(Console* console, std::function<Time()> now)
      : console_(console), now_(std::move(now)) {}
  ~ByteProgress() { End(); }
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  // What is being done from now on: "verifying 000001-00000010.step-9382".
  void Begin(std::string what);
  // So much of it has been done.
  void Update(uint64_t bytes, uint64_t total);
  // It is over: the line goes.
  void End() { console_->ShowBlock(""); }

 private:
  Console* const console_;
  const std::function<Time()> now_;
  std::string what_;
  Time began_;
  absl::optional<Time> shown_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINAL_BYTE_PROGRESS_H_
