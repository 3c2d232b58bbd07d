#include "checkpoint/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

// One write(2): large enough that its cost does not count, small enough that a
// signal is noticed soon.
constexpr size_t kWriteBytes = size_t{8} << 20;
constexpr size_t kReadBytes = size_t{1} << 20;

int OpenRetrying(const char* path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

absl::Status FileError(int error, absl::string_view what,
                       absl::string_view path) {
  std::string reason = std::generic_category().message(error);
  if (!reason.empty()) reason[0] = absl::ascii_tolower(reason[0]);
  return absl::Status(absl::ErrnoToStatusCode(error),
                      absl::StrCat("cannot ", what, " '", path, "': ", reason));
}

absl::StatusOr<std::unique_ptr<NewFile>> NewFile::Create(
    std::string path, const FileCalls& calls) {
  const int fd = OpenRetrying(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (fd < 0) return FileError(errno, "create", path);
  return std::unique_ptr<NewFile>(new NewFile(std::move(path), fd, calls));
}

NewFile::~NewFile() {
  if (fd_ >= 0) calls_.close(fd_);
  if (!keep_) ::unlink(path_.c_str());
}

absl::Status NewFile::Append(absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t length = std::min(bytes.size(), kWriteBytes);
    const ssize_t written = calls_.write(fd_, bytes.data(), length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return FileError(written < 0 ? errno : ENOSPC, "write", path_);
    }
    crc32c_ = Crc32c(bytes.first(written), crc32c_);
    bytes_ += written;
    bytes.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status NewFile::Append(absl::string_view bytes) {
  return Append(BytesOf(bytes));
}

absl::Status NewFile::Finish() {
  if (calls_.sync(fd_) != 0) return FileError(errno, "sync", path_);
  const int closed = calls_.close(std::exchange(fd_, -1));
  if (closed != 0 && errno != EINTR) return FileError(errno, "close", path_);
  keep_ = true;
  return absl::OkStatus();
}

absl::Status NewFile::FinishAs(const std::string& path) {
  RETURN_IF_ERROR(Finish());
  keep_ = false;
  RETURN_IF_ERROR(RenamePath(path_, path));
  keep_ = true;
  return SyncDirectory(DirectoryOf(path));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> ReadableFile::Open(
    std::string path) {
  const int fd = OpenRetrying(path.c_str(), O_RDONLY);
  if (fd < 0) return FileError(errno, "open", path);
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("'", path, "' is not a regular file"));
  }
  return std::unique_ptr<ReadableFile>(
      new ReadableFile(std::move(path), fd, info.st_size));
}

ReadableFile::~ReadableFile() { ::close(fd_); }

absl::Status ReadableFile::ReadAt(uint64_t offset,
                                  absl::Span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got =
        ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, "read", path_);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat("'", path_, "' ends at byte ",
                                              offset, ", before byte ",
                                              offset + out.size()));
    }
    offset += got;
    out.remove_prefix(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t limit) {
  ASSIGN_OR_RETURN(const auto file, ReadableFile::Open(path));
  if (file->size() > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", path, "' has ", file->size(), " bytes; at most ",
                     limit, " are read"));
  }
  std::string content(file->size(), '\0');
  RETURN_IF_ERROR(file->ReadAt(
      0, {reinterpret_cast<std::byte*>(content.data()), content.size()}));
  return content;
}

absl::StatusOr<FileSum> SumFile(
    const std::string& path,
    const std::function<void(uint64_t bytes)>& progress) {
  ASSIGN_OR_RETURN(const auto file, ReadableFile::Open(path));
  FileSum sum;
  std::vector<std::byte> piece(kReadBytes);
  while (sum.bytes < file->size()) {
    const size_t length =
        std::min<uint64_t>(piece.size(), file->size() - sum.bytes);
    const absl::Span<std::byte> out(piece.data(), length);
    RETURN_IF_ERROR(file->ReadAt(sum.bytes, out));
    sum.crc32c = Crc32c(out, sum.crc32c);
    sum.bytes += length;
    if (progress) progress(length);
  }
  return sum;
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& path) {
  DIR* const directory = ::opendir(path.c_str());
  if (directory == nullptr) return FileError(errno, "list", path);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(directory);
  if (error != 0) return FileError(error, "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

absl::Status MakeDirectories(const std::string& path) {
  if (IsDirectory(path)) return absl::OkStatus();
  const std::string above = DirectoryOf(path);
  if (above != path) RETURN_IF_ERROR(MakeDirectories(above));
  if (::mkdir(path.c_str(), 0777) != 0) {
    const int error = errno;
    // Somebody else may have made it just now.
    if (error == EEXIST && IsDirectory(path)) return absl::OkStatus();
    return FileError(error, "make directory", path);
  }
  return SyncDirectory(above);
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = OpenRetrying(path.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) return FileError(errno, "open directory", path);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // EINVAL: the file system keeps names durable by other means.
  if (error != 0 && error != EINVAL) {
    return FileError(error, "sync directory", path);
  }
  return absl::OkStatus();
}

absl::Status RenamePath(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const int error = errno == ENOTEMPTY ? EEXIST : errno;
  return FileError(error, absl::StrCat("rename '", from, "' to"), to);
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return FileError(error.value(), "delete", path);
}

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return FileError(error.value(), "resolve", path);
  std::string text = absolute.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::string DirectoryOf(const std::string& path) {
  const std::string above = std::filesystem::path(path).parent_path().string();
  return above.empty() ? "." : above;
}

}  // namespace paramd
