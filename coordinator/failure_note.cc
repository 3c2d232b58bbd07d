#include "coordinator/failure_note.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "proto/job_end.h"

namespace paramd {
namespace {

constexpr uint64_t kLongestNote = uint64_t{64} << 10;

}  // namespace

FailureNote::FailureNote(const std::string& run_directory)
    : path_(absl::StrCat(run_directory, "/failure.json")) {
  std::string content;
  known_ = Present(&content);
}

absl::Status FailureNote::Write(const absl::Status& why) const {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto printed = google::protobuf::util::MessageToJsonString(
      ToFinished(why), &text, options);
  if (!printed.ok()) return absl::InternalError(printed.ToString());
  const std::string temporary = absl::StrCat(path_, ".tmp-", getpid());
  RETURN_IF_ERROR(RemoveTree(temporary));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(absl::string_view(text)));
  return file->FinishAs(path_);
}

void FailureNote::Remove() const { ::unlink(path_.c_str()); }

std::string FailureNote::Present(std::string* content) const {
  struct stat found = {};
  if (::stat(path_.c_str(), &found) != 0) return "";
  const auto text = ReadWholeFile(path_, kLongestNote);
  if (!text.ok()) return "";
  *content = *text;
  return absl::StrCat(found.st_mtim.tv_sec, ".", found.st_mtim.tv_nsec, " ",
                      found.st_ino, " ", *text);
}

absl::Status FailureNote::Read() {
  std::string content;
  std::string present = Present(&content);
  if (present == known_) return absl::OkStatus();
  known_ = present;
  v1::Finished finished;
  if (!google::protobuf::util::JsonStringToMessage(content, &finished).ok()) {
    return absl::OkStatus();
  }
  return EndFor(finished);
}

}  // namespace paramd
