#include "coordinator/committed_note.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"

namespace paramd {
namespace {

constexpr uint64_t kMostBytes = uint64_t{64} << 10;

}  // namespace

CommittedNote::CommittedNote(std::string run_directory)
    : path_(absl::StrCat(std::move(run_directory), "/committed")) {}

absl::Status CommittedNote::Committed(const std::string& directory,
                                      const std::string& marker) {
  const std::string note = absl::StrCat(directory, "\n", marker);
  if (note == known_) return absl::OkStatus();
  const std::string temporary = absl::StrCat(path_, ".tmp-", getpid());
  RETURN_IF_ERROR(RemoveTree(temporary));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(note));
  RETURN_IF_ERROR(file->FinishAs(path_));
  known_ = note;
  return absl::OkStatus();
}

absl::Status CommittedNote::CheckNoneIsMissing(
    const std::string& directory) const {
  const auto note = ReadWholeFile(path_, kMostBytes);
  if (absl::IsNotFound(note.status())) return absl::OkStatus();
  RETURN_IF_ERROR(note.status());
  return absl::UnavailableError(absl::StrCat(
      "no checkpoint is found in '", directory,
      "', though this run has committed some in '",
      note->substr(0, note->find('\n')),
      "': is it mounted, and is this the directory that the run had? (delete '",
      path_, "' to begin the run anew)"));
}

absl::Status CommittedNote::CheckIsSame(const std::string& directory,
                                        const std::string& marker) const {
  const auto note = ReadWholeFile(path_, kMostBytes);
  if (absl::IsNotFound(note.status())) return absl::OkStatus();
  RETURN_IF_ERROR(note.status());
  const size_t line_end = note->find('\n');
  const std::string last =
      line_end == std::string::npos ? "" : note->substr(line_end + 1);
  if (last.empty() || last == marker) return absl::OkStatus();
  const auto name = [](absl::string_view text) {
    return text.empty() ? absl::string_view("none")
                        : absl::StripSuffix(text, "\n");
  };
  return absl::UnavailableError(absl::StrCat(
      "'", directory,
      "' has checkpoints of this run, but is not the directory "
      "of its newest, '",
      note->substr(0, line_end), "': its marker is ", name(marker),
      "; that one's is ", name(last), ": is that one mounted? (delete '", path_,
      "' to go on from what is found here)"));
}

}  // namespace paramd
