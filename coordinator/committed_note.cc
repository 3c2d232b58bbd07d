#include "coordinator/committed_note.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"

namespace paramd {
namespace {

constexpr uint64_t kMostBytes = uint64_t{64} << 10;

}  // namespace

CommittedNote::CommittedNote(std::string run_directory)
    : path_(absl::StrCat(std::move(run_directory), "/committed")) {}

absl::Status CommittedNote::Committed(const std::string& directory) {
  if (directory == known_) return absl::OkStatus();
  const std::string temporary = absl::StrCat(path_, ".tmp-", getpid());
  RETURN_IF_ERROR(RemoveTree(temporary));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(absl::StrCat(directory, "\n")));
  RETURN_IF_ERROR(file->FinishAs(path_));
  known_ = directory;
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
      absl::StripSuffix(*note, "\n"),
      "': is it mounted, and is this the directory that the run had? (delete '",
      path_, "' to begin the run anew)"));
}

}  // namespace paramd
