#include "cli/commands/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "process/incarnation.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(
    absl::string_view flag, const std::string& path) {
  RETURN_IF_ERROR(CheckOutputFile(flag, path));
  std::unique_ptr<OutputFile> file(new OutputFile(flag, path));
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    file->stream_ = std::fopen(path.c_str(), "wbe");
  } else {
    file->target_ = Resolved(path);
    file->hidden_ = HiddenName(file->target_);
    file->unfinished_.emplace(file->hidden_);
    file->stream_ = std::fopen(file->hidden_.c_str(), "wbxe");
  }
  if (file->stream_ == nullptr) return CannotWrite(flag, path, errno);
  return file;
}

OutputFile::~OutputFile() {
  if (stream_ != nullptr) std::fclose(stream_);
  if (!hidden_.empty()) unlink(hidden_.c_str());
}

absl::Status OutputFile::Finish() {
  std::FILE* const stream = std::exchange(stream_, nullptr);
  const bool is_written = std::fflush(stream) == 0 &&
                          std::ferror(stream) == 0 &&
                          (hidden_.empty() || fsync(fileno(stream)) == 0);
  const int error = errno;
  const bool is_closed = std::fclose(stream) == 0;
  if (!is_written || !is_closed) {
    return CannotWrite(flag_, path_, is_written ? errno : error);
  }
  if (hidden_.empty()) return absl::OkStatus();
  if (std::rename(hidden_.c_str(), target_.c_str()) != 0) {
    return CannotWrite(flag_, path_, errno);
  }
  hidden_.clear();
  const absl::Status synced = SyncDirectory(DirectoryOf(target_));
  return synced.ok() ? synced : CannotWrite(flag_, path_, synced.message());
}

absl::Status WriteOutputFile(absl::string_view flag, const std::string& path,
                             absl::string_view text) {
  ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                   OutputFile::Open(flag, path));
  if (std::fwrite(text.data(), 1, text.size(), file->stream()) != text.size()) {
    return CannotWrite(flag, path, errno);
  }
  return file->Finish();
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
