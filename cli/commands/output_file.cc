#include "cli/commands/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "cli/commands/unfinished_file.h"
#include "cli/process/incarnation.h"

namespace paramd {
namespace {

// Of its name, in the hidden one: both fit into any file system.
constexpr size_t kMostOfName = 128;

absl::Status CannotWrite(absl::string_view flag, const std::string& path,
                         absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", path, "': ", why));
}

absl::Status CannotWrite(absl::string_view flag, const std::string& path,
                         int error) {
  return CannotWrite(flag, path, std::strerror(error));
}

// From the root, and where a link leads.
std::string Resolved(const std::string& path) {
  std::error_code error;
  const std::filesystem::path there = std::filesystem::canonical(path, error);
  if (!error) return there.string();
  return std::filesystem::absolute(path, error).string();
}

// "/data/.trace.json.0123456789abcdef": two who write it never meet.
std::string HiddenName(const std::string& path) {
  return absl::StrCat(DirectoryOf(path), "/.",
                      path.substr(path.rfind('/') + 1).substr(0, kMostOfName),
                      ".", absl::Hex(DrawIncarnation(), absl::kZeroPad16));
}

absl::Status WriteInPlace(absl::string_view flag, const std::string& path,
                          absl::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return CannotWrite(flag, path, errno);
}

absl::Status WriteWhole(const std::string& path, absl::string_view text) {
  const std::string hidden = HiddenName(path);
  const UnfinishedFile unfinished(hidden);
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file,
                   NewFile::Create(hidden));
  RETURN_IF_ERROR(file->Append(text));
  return file->FinishAs(path);
}

}  // namespace

absl::Status WriteOutputFile(absl::string_view flag, const std::string& path,
                             absl::string_view text) {
  RETURN_IF_ERROR(CheckOutputFile(flag, path));
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return WriteInPlace(flag, path, text);
  }
  const absl::Status written = WriteWhole(Resolved(path), text);
  if (written.ok()) return written;
  return CannotWrite(flag, path, written.message());
}

absl::Status CheckOutputFile(absl::string_view flag, const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return CannotWrite(flag, path, EISDIR);
    if (::access(path.c_str(), W_OK) != 0) {
      return CannotWrite(flag, path, errno);
    }
    if (!S_ISREG(info.st_mode)) return absl::OkStatus();
  } else if (errno != ENOENT || path.empty()) {
    return CannotWrite(flag, path, errno);
  }
  // It gets a new file, whether it has one or not.
  const std::string directory = DirectoryOf(Resolved(path));
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    return CannotWrite(flag, path, errno);
  }
  return absl::OkStatus();
}

}  // namespace paramd
