#include "coordinator/summary/summary_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "coordinator/summary/tf_record.h"
#include "coordinator/summary/written_scalars.h"

namespace paramd {
namespace {

constexpr absl::string_view kPrefix = "events.out.tfevents.";

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

// The seconds of the name of an event file; -1 if it is none.
int64_t SecondsOf(absl::string_view name) {
  int64_t seconds = -1;
  if (!absl::ConsumePrefix(&name, kPrefix) ||
      !absl::SimpleAtoi(name.substr(0, name.find('.')), &seconds)) {
    return -1;
  }
  return seconds;
}

summary::Event EventAt(uint64_t step, absl::Time now) {
  summary::Event event;
  event.set_wall_time(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  event.set_step(static_cast<int64_t>(step));
  return event;
}

template <typename Scalars>
void AddScalars(const Scalars& scalars, summary::Event* event) {
  for (const auto& [tag, scalar] : scalars) {
    auto* const value = event->mutable_summary()->add_value();
    value->set_tag(tag);
    value->set_simple_value(static_cast<float>(scalar));
  }
}

}  // namespace

SummaryWriter::SummaryWriter(std::string directory)
    : directory_(std::move(directory)) {}

SummaryWriter::~SummaryWriter() {
  if (file_ != nullptr) file_->Finish().IgnoreError();
}

absl::Status SummaryWriter::Write(const v1::WriteSummary& summary,
                                  absl::Time now) {
  if (file_ == nullptr) RETURN_IF_ERROR(Open(now));
  if (summary.restarted()) {
    summary::Event start = EventAt(summary.step(), now);
    start.mutable_session_log()->set_status(summary::SessionLog::START);
    RETURN_IF_ERROR(Append(start));
    RETURN_IF_ERROR(WriteAgain(summary.step(), now));
  }
  if (summary.scalars().empty()) return absl::OkStatus();
  summary::Event event = EventAt(summary.step(), now);
  const std::map<std::string, double> by_tag(summary.scalars().begin(),
                                             summary.scalars().end());
  AddScalars(by_tag, &event);
  return Append(event);
}

absl::Status SummaryWriter::WriteAgain(uint64_t step, absl::Time now) {
  ASSIGN_OR_RETURN(auto names, ListDirectory(directory_));
  names.erase(std::remove_if(
                  names.begin(), names.end(),
                  [](const std::string& name) { return SecondsOf(name) < 0; }),
              names.end());
  const auto scalars = WrittenScalarsAt(step, directory_, names);
  if (scalars.empty()) return absl::OkStatus();
  summary::Event event = EventAt(step, now);
  AddScalars(scalars, &event);
  return Append(event);
}

absl::Status SummaryWriter::Open(absl::Time now) {
  // One that is gone is not made again: it may be on another file system.
  if (!made_) RETURN_IF_ERROR(MakeDirectories(directory_));
  made_ = true;
  ASSIGN_OR_RETURN(const auto names, ListDirectory(directory_));
  int64_t seconds = absl::ToUnixSeconds(now);
  for (const std::string& name : names) {
    seconds = std::max(seconds, SecondsOf(name) + 1);
  }
  const std::string path = absl::StrFormat(
      "%s/%s%010d.%s.%d", directory_, kPrefix, seconds, HostName(), getpid());
  ASSIGN_OR_RETURN(file_, NewFile::Create(path));
  summary::Event version = EventAt(0, now);
  version.set_file_version("brain.Event:2");
  version.mutable_source_metadata()->set_writer("paramd");
  const absl::Status begun = Append(version);
  // On a full disk each try would leave one in which nothing is.
  if (!begun.ok()) unlink(path.c_str());
  return begun;
}

absl::Status SummaryWriter::Append(const summary::Event& event) {
  const absl::Status written =
      file_->Append(absl::string_view(TfRecord(event.SerializeAsString())));
  if (written.ok()) return written;
  // What it has stays; the rest of the record would be taken for its end.
  file_->Finish().IgnoreError();
  file_.reset();
  return written;
}

}  // namespace paramd
