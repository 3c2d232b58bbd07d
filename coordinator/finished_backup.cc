#include "coordinator/finished_backup.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/held_directory.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

absl::Status CopyFile(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const auto source, ReadableFile::Open(from));
  ASSIGN_OR_RETURN(const auto copy, NewFile::Create(to));
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < source->size(); at += piece.size()) {
    piece.resize(std::min(kPieceBytes, source->size() - at));
    RETURN_IF_ERROR(source->ReadAt(at, absl::MakeSpan(piece)));
    RETURN_IF_ERROR(copy->Append(absl::MakeConstSpan(piece)));
  }
  return copy->Finish();
}

absl::Status CopyTree(const std::string& from, const std::string& to) {
  if (!IsDirectory(from)) return CopyFile(from, to);
  RETURN_IF_ERROR(MakeDirectories(to));
  ASSIGN_OR_RETURN(const auto names, ListDirectory(from));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(
        CopyTree(absl::StrCat(from, "/", name), absl::StrCat(to, "/", name)));
  }
  return SyncDirectory(to);
}

// Whether all that is left at `from` is at `to` too, as far as names, sizes and
// the first kPieceBytes of files tell.
bool IsPartOf(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::is_directory(from, error)) {
    const uintmax_t size = fs::file_size(from, error);
    if (error || fs::file_size(to, error) != size || error) return false;
    std::vector<char> first(std::min<uintmax_t>(size, kPieceBytes));
    std::vector<char> second(first.size());
    return std::ifstream(from, std::ios::binary)
               .read(first.data(),
                     static_cast<std::streamsize>(first.size())) &&
           std::ifstream(to, std::ios::binary)
               .read(second.data(),
                     static_cast<std::streamsize>(second.size())) &&
           first == second;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    if (!IsPartOf(entry.path(), to / entry.path().filename())) return false;
  }
  return !error && fs::is_directory(to, error);
}

// `name` from one directory to the other, which may lie on another file system.
// It has its new name when it is complete there; if it has that already, what
// is left at the old place goes.
absl::Status Move(const std::string& name, const std::string& from_directory,
                  const std::string& to_directory) {
  const std::string from = absl::StrCat(from_directory, "/", name);
  const std::string to = absl::StrCat(to_directory, "/", name);
  const std::string copy = absl::StrCat(to_directory, "/.copy-", name);
  std::error_code error;
  if (fs::exists(to, error) && IsPartOf(from, to)) {
    RETURN_IF_ERROR(RemoveTree(copy));
    return RemoveTree(from);
  }
  fs::rename(from, to, error);
  if (error == std::errc::cross_device_link) {
    RETURN_IF_ERROR(RemoveTree(copy));
    RETURN_IF_ERROR(CopyTree(from, copy));
    RETURN_IF_ERROR(RenamePath(copy, to));
    RETURN_IF_ERROR(SyncDirectory(to_directory));
    return RemoveTree(from);
  }
  if (error) {
    return absl::InternalError(absl::StrCat("cannot move '", from, "' to '", to,
                                            "': ", error.message()));
  }
  return SyncDirectory(to_directory);
}

absl::Status MoveCheckpoints(const std::string& from, const std::string& to) {
  if (!IsDirectory(from)) return absl::OkStatus();
  RETURN_IF_ERROR(MakeDirectories(to));
  ASSIGN_OR_RETURN(const auto names, ListDirectory(from));
  for (const std::string& name : names) {
    // What is hidden is half-written or half-deleted, but for the marker.
    if (absl::StartsWith(name, ".") && name != kMarkerFile) continue;
    RETURN_IF_ERROR(Move(name, from, to));
  }
  return RemoveTree(from);
}

}  // namespace

absl::Status TakeOutOfBackup(const std::string& backup,
                             const std::string& run_directory) {
  const std::string log = absl::StrCat(run_directory, "/configuration");
  if (IsDirectory(log) &&
      !IsPartOf(absl::StrCat(backup, "/configuration"), log)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "'", log, "' is there already: the run's checkpoint stays in '", backup,
        "'"));
  }
  // It would miss them where they were.
  RETURN_IF_ERROR(RemoveTree(absl::StrCat(run_directory, "/committed")));
  RETURN_IF_ERROR(MoveCheckpoints(absl::StrCat(backup, "/checkpoints"),
                                  absl::StrCat(run_directory, "/checkpoints")));
  RETURN_IF_ERROR(Move("configuration", backup, run_directory));
  std::error_code error;
  fs::remove(backup, error);  // Not if it holds something.
  return absl::OkStatus();
}

}  // namespace paramd
