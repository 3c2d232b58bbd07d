#include "coordinator/failure_note.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "google/protobuf/util/json_util.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "proto/job_end.h"
#include "proto/stopped_job.h"

namespace paramd {
namespace {

constexpr uint64_t kLongestNote = uint64_t{64} << 10;

// What a file says, and when it was written; empty if there is none.
std::string ReadNote(const std::string& path, std::string* content) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) return "";
  const auto text = ReadWholeFile(path, kLongestNote);
  if (!text.ok()) return "";
  *content = *text;
  return absl::StrCat(found.st_mtim.tv_sec, ".", found.st_mtim.tv_nsec, " ",
                      found.st_ino, " ", *text);
}

// Nothing: it makes no sense.
absl::optional<v1::Finished> ParseNote(const std::string& content) {
  v1::Finished finished;
  if (!google::protobuf::util::JsonStringToMessage(content, &finished).ok()) {
    return absl::nullopt;
  }
  return finished;
}

}  // namespace

FailureNote::FailureNote(const std::string& run_directory)
    : failed_(absl::StrCat(run_directory, "/failure.json")),
      stopped_(absl::StrCat(run_directory, "/stopped.json")) {
  std::string content;
  known_ = Present(&content);
}

std::string FailureNote::WhyStopped(const std::string& run_directory) {
  std::string content;
  ReadNote(absl::StrCat(run_directory, "/stopped.json"), &content);
  const auto finished = ParseNote(content);
  return finished.has_value() ? finished->reason() : "";
}

absl::Status FailureNote::Write(const absl::Status& why) const {
  const std::string& path = IsStoppedJob(why) ? stopped_ : failed_;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto printed = google::protobuf::util::MessageToJsonString(
      ToFinished(why), &text, options);
  if (!printed.ok()) return absl::InternalError(printed.ToString());
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  RETURN_IF_ERROR(RemoveTree(temporary));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(absl::string_view(text)));
  return file->FinishAs(path);
}

void FailureNote::Remove() const {
  ::unlink(failed_.c_str());
  ::unlink(stopped_.c_str());
}

std::string FailureNote::Present(std::string* content) const {
  std::string present = ReadNote(failed_, content);
  return present.empty() ? ReadNote(stopped_, content) : present;
}

absl::Status FailureNote::Read() {
  std::string content;
  std::string present = Present(&content);
  if (present == known_) return absl::OkStatus();
  known_ = present;
  const auto finished = ParseNote(content);
  return finished.has_value() ? EndFor(*finished) : absl::OkStatus();
}

}  // namespace paramd
