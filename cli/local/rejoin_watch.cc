#include "cli/local/rejoin_watch.h"

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace paramd {

void RejoinWatch::Started(const std::string& task, Time now) {
  Task& known = tasks_[task];
  ++known.starts;
  known.started = now;
  known.back = false;
}

absl::optional<std::string> RejoinWatch::Pushed(const std::string& task,
                                                Time first_push) {
  const auto known = tasks_.find(task);
  if (known == tasks_.end() || known->second.starts < 2 || known->second.back ||
      first_push < known->second.started) {
    return absl::nullopt;
  }
  known->second.back = true;
  return absl::StrFormat(
      "%s is back: its first push was acknowledged %.2f s after its restart",
      task, absl::ToDoubleSeconds(first_push - known->second.started));
}

}  // namespace paramd
