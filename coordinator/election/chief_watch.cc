#include "coordinator/election/chief_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr absl::Duration kWatchFor = absl::Seconds(10);
constexpr absl::Duration kAskAgain = absl::Seconds(1);

}  // namespace

ChiefWatch::ChiefWatch(std::unique_ptr<ChiefRecord> record,
                       const std::string& address)
    : record_(std::move(record)),
      chief_(address),
      thread_([this] { Loop(); }) {}

ChiefWatch::~ChiefWatch() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  record_->Cancel();
  if (thread_.joinable()) thread_.join();
}

std::string ChiefWatch::address() const {
  const MutexLock lock(&mutex_);
  return chief_.address();
}

void ChiefWatch::Loop() {
  bool was_away = false;
  while (true) {
    const absl::Status looked = Look();
    const Time until = MonotonicNow() + kAskAgain;
    MutexLock lock(&mutex_);
    if (stopping_) return;
    if (!std::exchange(was_away, !looked.ok()) && !looked.ok()) {
      Log(LogLevel::kWarning,
          absl::StrCat(
              record_->keeper(),
              " is away; the chief that is known counts until it is back"),
          {{"chief", chief_.address()}, {"why", looked.message()}});
    }
    if (looked.ok()) continue;
    while (!stopping_ && MonotonicNow() < until) {
      stopped_.WaitFor(&mutex_, until - MonotonicNow());
    }
  }
}

absl::Status ChiefWatch::Look() {
  ASSIGN_OR_RETURN(const auto holder, record_->Look());
  {
    const MutexLock lock(&mutex_);
    if (chief_.Found(holder)) {
      Log(LogLevel::kInfo, "the chief is elsewhere",
          {{"chief", chief_.address()}});
    }
  }
  return record_->WaitForChange(kWatchFor);
}

}  // namespace paramd
