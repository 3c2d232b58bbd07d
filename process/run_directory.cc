#include "process/run_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "coordinator/configuration_log.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

fs::path ToPath(absl::string_view text) { return fs::path(std::string(text)); }

absl::Status CannotMake(absl::string_view path, const std::error_code& error) {
  const std::string sentence =
      absl::StrCat("cannot make the directory '", path, "': ", error.message());
  if (error == std::errc::permission_denied ||
      error == std::errc::read_only_file_system ||
      error == std::errc::not_a_directory) {
    return absl::PermissionDeniedError(sentence);
  }
  return absl::InternalError(sentence);
}

// Of a run: weights, logs and the operators' sockets are nobody else's.
constexpr mode_t kRunMode = 0700;

absl::Status MakeAll(absl::string_view path) {
  std::error_code error;
  fs::create_directories(ToPath(path), error);
  if (error) return CannotMake(path, error);
  return absl::OkStatus();
}

// The largest N of the directories `<root>/<name>-N`, of those alone whose run
// has begun unless `any`; 0 if there is none.
uint64_t LargestNumber(absl::string_view root, absl::string_view name,
                       bool any) {
  uint64_t largest = 0;
  std::error_code error;
  fs::directory_iterator entries(ToPath(root), error);
  if (error) return 0;
  for (const fs::directory_entry& entry : entries) {
    const std::string entry_name = entry.path().filename().string();
    absl::string_view rest = entry_name;
    uint64_t number = 0;
    if (absl::ConsumePrefix(&rest, name) && absl::ConsumePrefix(&rest, "-") &&
        absl::SimpleAtoi(rest, &number) && entry.is_directory(error) &&
        (any || HasBegun(entry.path().string()))) {
      largest = std::max(largest, number);
    }
  }
  return largest;
}

std::string Numbered(absl::string_view root, absl::string_view name,
                     uint64_t number) {
  return absl::StrCat(root, "/", name, "-", number);
}

}  // namespace

absl::StatusOr<std::string> MakeRunDirectory(absl::string_view root,
                                             absl::string_view name) {
  RETURN_IF_ERROR(MakeAll(root));
  const uint64_t largest = LargestNumber(root, name, /*any=*/true);
  for (uint64_t number = largest + 1;; ++number) {
    const std::string path = Numbered(root, name, number);
    // mkdir(2) decides between two that chose the same number.
    if (mkdir(path.c_str(), kRunMode) == 0) return path;
    if (errno != EEXIST) {
      return CannotMake(path, std::error_code(errno, std::generic_category()));
    }
  }
}

absl::StatusOr<std::string> NewestRunDirectory(absl::string_view root,
                                               absl::string_view name,
                                               bool any) {
  const uint64_t number = LargestNumber(root, name, any);
  if (number == 0) {
    return absl::NotFoundError(absl::StrCat("there is no run of '", name,
                                            "' in '", root, "' to go on with"));
  }
  return Numbered(root, name, number);
}

absl::Status UseRunDirectory(absl::string_view path, bool may_hold_a_run) {
  std::error_code error;
  const fs::path run = PathFromRoot(path);
  RETURN_IF_ERROR(MakeAll(run.parent_path().string()));
  // One that is there keeps its mode; what is no directory is an error.
  if (mkdir(run.c_str(), kRunMode) != 0) RETURN_IF_ERROR(MakeAll(path));
  if (!may_hold_a_run && !fs::is_empty(ToPath(path), error) && !error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run directory '", path,
                     "' is not empty; --resume goes on with what is there"));
  }
  return absl::OkStatus();
}

absl::Status CheckRunStartedIn(absl::string_view path) {
  std::error_code error;
  if (HoldsARun(path) || fs::is_directory(ToPath(path) / "logs", error)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(
      "there is no run to go on with: ",
      fs::exists(ToPath(path), error) ? "none was started in" : "there is no",
      " directory '", path, "'; check run_dir, or begin one without --resume"));
}

bool HoldsARun(absl::string_view path) {
  std::error_code error;
  return fs::is_directory(ToPath(path) / "configuration", error);
}

bool HasBegun(absl::string_view path) {
  if (!HoldsARun(path)) return false;
  const auto entries =
      DirectoryLog(absl::StrCat(path, "/configuration")).ReadAll();
  return !entries.ok() || std::any_of(entries->begin(), entries->end(),
                                      [](const v1::LogEntry& entry) {
                                        return entry.has_configuration();
                                      });
}

std::string PathFromRoot(absl::string_view path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(ToPath(path), error);
  if (error) return std::string(path);
  std::string text = absolute.lexically_normal().string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::string ShortPath(absl::string_view path) {
  std::error_code error;
  const std::string here = fs::current_path(error).string();
  absl::string_view rest = path;
  if (!error && here != "/" && absl::ConsumePrefix(&rest, here) &&
      absl::ConsumePrefix(&rest, "/") && !rest.empty()) {
    return std::string(rest);
  }
  return std::string(path);
}

}  // namespace paramd
