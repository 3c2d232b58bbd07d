#include "cli/rejoin_watch.h"

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace paramd {
namespace {

// See Worker::NoteFirstPush.
constexpr absl::string_view kLineBegin = "first push of generation ";
constexpr absl::string_view kLineEnd = " acknowledged";

}  // namespace

void RejoinWatch::Started(const std::string& task, Time now) {
  Task& known = tasks_[task];
  ++known.starts;
  known.started = now;
  known.back = false;
}

absl::optional<std::string> RejoinWatch::Printed(const std::string& task,
                                                 absl::string_view line,
                                                 Time now) {
  const auto known = tasks_.find(task);
  if (known == tasks_.end() || known->second.starts < 2 || known->second.back ||
      !absl::StrContains(line, kLineBegin) ||
      !absl::StrContains(line, kLineEnd)) {
    return absl::nullopt;
  }
  known->second.back = true;
  return absl::StrFormat(
      "%s is back: its first push was acknowledged %.2f s after its restart",
      task, absl::ToDoubleSeconds(now - known->second.started));
}

}  // namespace paramd
