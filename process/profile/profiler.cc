#include "process/profile/profiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "process/profile/named_stacks.h"
#include "process/profile/stack_sampler.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Not a whole part of the periods at which programs do things.
constexpr absl::Duration kInterval = absl::Microseconds(10100);
constexpr absl::Duration kLongestRetry = absl::Seconds(1);
// To put names to what was sampled.
constexpr absl::Duration kNaming = absl::Milliseconds(100);

}  // namespace

Profiler::~Profiler() {
  cancelled_ = true;
  std::thread last;
  {
    const MutexLock lock(&mutex_);
    last = std::move(thread_);
  }
  if (last.joinable()) last.join();
}

absl::StatusOr<v1::ProfileReply> Profiler::Answer(
    const v1::ProfileRequest& request) {
  const absl::Duration duration = absl::Milliseconds(request.duration_ms());
  if (duration < kShortest || duration > kLongest) {
    return Invalid(
        process_,
        absl::StrCat("a profile takes ", absl::FormatDuration(kShortest),
                     " to ", absl::FormatDuration(kLongest), ", not ",
                     absl::FormatDuration(duration)));
  }
  const MutexLock lock(&mutex_);
  const bool is_asked_again = has_begun_ && request.nonce() == nonce_;
  if (is_asked_again && !is_sampling_) return known_;
  if (!is_sampling_) Begin(request);
  const absl::Duration left = std::max(kNaming, end_ - MonotonicNow());
  return RefuseForNow(
      v1::Refusal::RETRY, process_, std::min(left, kLongestRetry),
      request.nonce() == nonce_
          ? absl::StrCat(process_, " is being profiled")
          : absl::StrCat(
                process_, " is being profiled by somebody else, for ",
                absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))),
                " more"));
}

void Profiler::Begin(const v1::ProfileRequest& request) {
  if (thread_.joinable()) thread_.join();  // It has ended, or is about to.
  const absl::Duration duration = absl::Milliseconds(request.duration_ms());
  has_begun_ = true;
  is_sampling_ = true;
  nonce_ = request.nonce();
  end_ = MonotonicNow() + duration;
  thread_ = std::thread([this, duration] { Sample(duration); });
}

absl::StatusOr<v1::ProfileReply> Profiler::Measure(
    absl::Duration duration) const {
  ASSIGN_OR_RETURN(
      const StackSamples samples,
      SampleStacks(duration, kInterval, [this] { return cancelled_.load(); }));
  v1::ProfileReply profile;
  profile.set_process(process_);
  profile.set_lost(samples.lost);
  profile.set_cpu_us(
      static_cast<uint64_t>(absl::ToInt64Microseconds(samples.cpu)));
  // Names take a while, and nobody asks any more.
  if (!cancelled_) AddNamedStacks(samples, &profile);
  return profile;
}

void Profiler::Sample(absl::Duration duration) {
  absl::StatusOr<v1::ProfileReply> profile = Measure(duration);
  const MutexLock lock(&mutex_);
  known_ = std::move(profile);
  is_sampling_ = false;
}

}  // namespace paramd
