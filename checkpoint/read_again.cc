#include "checkpoint/read_again.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace paramd {
namespace {

// A file server that fails over takes longer, and its clients wait for it in
// the kernel. What comes as an error is over sooner, or stays.
constexpr absl::Duration kPauses[] = {
    absl::Milliseconds(100), absl::Milliseconds(500), absl::Seconds(2)};

std::atomic<void (*)(absl::Duration)> pause_for_test{nullptr};

void Pause(absl::Duration duration) {
  void (*const pause)(absl::Duration) = pause_for_test.load();
  pause == nullptr ? absl::SleepFor(duration) : pause(duration);
}

}  // namespace

bool MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnknown:           // EIO
    case absl::StatusCode::kAborted:           // ESTALE
    case absl::StatusCode::kDeadlineExceeded:  // ETIMEDOUT
    case absl::StatusCode::kUnavailable:       // EHOSTDOWN, ENETUNREACH
      return true;
    default:
      return false;
  }
}

absl::Status ReadAgain(absl::FunctionRef<absl::Status()> read) {
  absl::Status status = read();
  int times = 1;
  for (const absl::Duration pause : kPauses) {
    if (!MayPass(status)) return status;
    Pause(pause);
    status = read();
    ++times;
  }
  if (!MayPass(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), ", ", times, " times"));
}

void PauseReadsForTest(void (*pause)(absl::Duration)) {
  pause_for_test.store(pause);
}

}  // namespace paramd
