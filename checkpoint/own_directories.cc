#include "checkpoint/own_directories.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "checkpoint/initial_values.h"
#include "checkpoint/verify.h"
#include "checkpoint/warm_start.h"

namespace paramd {
namespace {

// Empty if it can't be found out, as where the working directory is gone.
std::string FromRoot(const std::string& setting) {
  if (setting.empty()) return "";
  return AbsolutePath(setting).value_or("");
}

std::string LastOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool IsLink(const std::string& path) {
  if (&StorageOf(path) != &PosixStorage()) return false;
  std::error_code error;
  return std::filesystem::is_symlink(path, error);
}

// The directory `name` in `root`; empty if there is none.
absl::StatusOr<std::string> DirectoryIn(const std::string& root,
                                        const std::string& name) {
  if (root.empty()) return std::string();
  const std::string path = absl::StrCat(root, "/", name);
  if (IsLink(path)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path, "' is a link; a checkpoint is a directory where it lies"));
  }
  return IsDirectory(path) ? path : std::string();
}

absl::Status NoName(const std::string& told, absl::string_view of) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", absl::CHexEscape(told), "' does not have the name of ", of));
}

}  // namespace

OwnDirectories::OwnDirectories(const Settings& settings)
    : checkpoints_(FromRoot(settings.checkpoint_directory)),
      warm_start_(FromRoot(settings.warm_start_path)) {}

absl::StatusOr<std::string> OwnDirectories::Prepared(
    const std::string& told) const {
  const std::string name = LastOf(told);
  if (!IsPreparedName(name)) {
    return NoName(told, "a directory that a snapshot is written into");
  }
  return DirectoryIn(checkpoints_, name);
}

absl::StatusOr<std::string> OwnDirectories::Committed(
    const std::string& told) const {
  const std::string name = LastOf(told);
  if (!ParseCheckpointName(name).has_value()) {
    return NoName(told, "a checkpoint");
  }
  return DirectoryIn(checkpoints_, name);
}

absl::StatusOr<std::string> OwnDirectories::WarmStart(
    const std::string& told) const {
  const std::string name = LastOf(told);
  if (name == kInitialValuesFile && told != warm_start_) {
    const std::string path = absl::StrCat(checkpoints_, "/", name);
    std::error_code error;
    const bool is_here = !checkpoints_.empty() && !IsLink(path) &&
                         std::filesystem::is_regular_file(path, error);
    return is_here ? path : std::string();
  }
  if (!warm_start_.empty()) {
    if (told == warm_start_ ||
        told == absl::StrCat(warm_start_, "/", kTrainedFile)) {
      return told;
    }
    for (const std::string& root :
         {warm_start_, absl::StrCat(warm_start_, "/checkpoints")}) {
      if (!ParseCheckpointName(name).has_value() ||
          told != absl::StrCat(root, "/", name)) {
        continue;
      }
      ASSIGN_OR_RETURN(const std::string path, DirectoryIn(root, name));
      return path.empty() ? told : path;
    }
  }
  if (ParseCheckpointName(name).has_value()) {
    ASSIGN_OR_RETURN(const std::string path, DirectoryIn(checkpoints_, name));
    if (!path.empty()) return path;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "initial values are to be read from '", absl::CHexEscape(told),
      "'; warm_start.path here is '", warm_start_,
      "': start every process with the same absolute path"));
}

}  // namespace paramd
