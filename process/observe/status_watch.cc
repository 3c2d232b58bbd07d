#include "process/observe/status_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "process/observe/cluster_report.h"
#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

constexpr absl::Duration kPatienceAtTheEnd = absl::Seconds(10);

bool IsAboutToEnd(const v1::JobStats& job) {
  return job.state() == v1::FINISHING || !job.stopping().empty();
}

}  // namespace

void StatusWatch::Take(const absl::StatusOr<v1::ClusterReport>& found,
                       Time now) {
  const bool has_job = found.ok() && found->has_job();
  // One without a job tells more than none.
  is_newest_ = has_job || (found.ok() && !report_.has_job());
  if (is_newest_) {
    report_ = *found;
    taken_ = now;
  }
  if (has_job || !heard_.has_value()) heard_ = now;
  if (has_job) {
    if (found->job().state() == v1::FINISHED) end_ = absl::OkStatus();
    return;
  }
  away_ = found.ok() ? absl::StrCat("the coordinator can't be reached (",
                                    found->job_error(), ")")
                     : std::string(found.status().message());
  const absl::Duration patience = IsAboutToEnd(report_.job())
                                      ? std::min(patience_, kPatienceAtTheEnd)
                                      : patience_;
  const absl::Duration silent = now - *heard_;
  if (silent < patience) return;
  end_ = found.ok()
             ? absl::OkStatus()
             : absl::Status(
                   found.status().code(),
                   absl::StrCat(away_, ", for ",
                                SecondsText(absl::ToDoubleSeconds(silent)),
                                " now"));
}

std::string StatusWatch::TextAt(Time now) const {
  const std::string text = RenderReport(report_);
  if (is_newest_) return text;
  return absl::StrCat(away_, "; what follows is ",
                      SecondsText(absl::ToDoubleSeconds(now - taken_)),
                      " old:\n\n", text);
}

}  // namespace paramd
