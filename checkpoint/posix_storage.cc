#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "checkpoint/file_error.h"
#include "checkpoint/storage.h"

namespace paramd {
namespace {

// One write(2): large enough that its cost does not count, small enough that a
// signal is noticed soon.
constexpr size_t kWriteBytes = size_t{8} << 20;
// The disk begins to write when so much has come, not with the fsync at the
// end: 500 MB took 1.5 times as long as a plain writer without.
constexpr off_t kBeginWriting = off_t{32} << 20;

int OpenRetrying(const char* path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// On NFS "no space" may come from fsync or close only, so all are checked.
class PosixWriter : public Storage::Writer {
 public:
  PosixWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixWriter() override {
    if (fd_ >= 0) ::close(fd_);
    if (!keep_) ::unlink(path_.c_str());
  }

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const size_t length = std::min(bytes.size(), kWriteBytes);
      const ssize_t written = ::write(fd_, bytes.data(), length);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        return FileError(written < 0 ? errno : ENOSPC, "write", path_);
      }
      bytes.remove_prefix(written);
      written_ += written;
      if (written_ - begun_ < kBeginWriting) continue;
      // A hint: what it fails with, fsync fails with too.
      ::sync_file_range(fd_, begun_, written_ - begun_, SYNC_FILE_RANGE_WRITE);
      begun_ = written_;
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (::fsync(fd_) != 0) return FileError(errno, "sync", path_);
    const int closed = ::close(std::exchange(fd_, -1));
    if (closed != 0 && errno != EINTR) return FileError(errno, "close", path_);
    keep_ = true;
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  int fd_;
  off_t written_ = 0;
  off_t begun_ = 0;  // What the disk was told to write.
  bool keep_ = false;
};

class PosixReader : public Storage::Reader {
 public:
  PosixReader(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}
  ~PosixReader() override { ::close(fd_); }

  absl::Status ReadAt(uint64_t offset,
                      absl::Span<std::byte> out) const override {
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
  uint64_t size() const override { return size_; }

 private:
  const std::string path_;
  const int fd_;
  const uint64_t size_;
};

// As the file system knows it: nobody else has its number while it is open.
class PosixHeld : public Storage::Held {
 public:
  PosixHeld(std::string path, int fd, const struct stat& info)
      : path_(std::move(path)), fd_(fd), info_(info) {}
  ~PosixHeld() override { ::close(fd_); }

  absl::Status Check() const override {
    struct stat there;
    if (::stat(path_.c_str(), &there) != 0) {
      return FileError(errno, "find", path_);
    }
    if (there.st_dev == info_.st_dev && there.st_ino == info_.st_ino) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path_, "' leads to ", Name(there),
        " instead of the directory that was opened, ", Name(info_)));
  }

 private:
  static std::string Name(const struct stat& info) {
    return absl::StrCat("inode ", info.st_ino, " of device ",
                        gnu_dev_major(info.st_dev), ":",
                        gnu_dev_minor(info.st_dev));
  }

  const std::string path_;
  const int fd_;
  const struct stat info_;
};

class Posix : public Storage {
 public:
  absl::StatusOr<std::unique_ptr<Held>> Hold(const std::string& path) override {
    const int fd = OpenRetrying(path.c_str(), O_RDONLY | O_DIRECTORY);
    if (fd < 0) return FileError(errno, "open directory", path);
    struct stat info;
    if (::fstat(fd, &info) == 0) {
      return std::make_unique<PosixHeld>(path, fd, info);
    }
    const int error = errno;
    ::close(fd);
    return FileError(error, "look at", path);
  }

  absl::StatusOr<std::unique_ptr<Writer>> Create(
      const std::string& path) override {
    const int fd =
        OpenRetrying(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0) return FileError(errno, "create", path);
    return std::make_unique<PosixWriter>(path, fd);
  }

  absl::StatusOr<std::unique_ptr<Reader>> Open(
      const std::string& path) override {
    // What is no file, a pipe without a writer for one, must not hold us up.
    const int fd = OpenRetrying(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return FileError(errno, "open", path);
    struct stat info;
    const int error = ::fstat(fd, &info) == 0 ? 0 : errno;
    if (error != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd);
      if (error != 0) return FileError(error, "look at", path);
      return absl::FailedPreconditionError(
          absl::StrCat("'", path, "' is not a regular file"));
    }
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return std::make_unique<PosixReader>(path, fd, info.st_size);
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
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
    return names;
  }

  bool IsDirectory(const std::string& path) override {
    struct stat info;
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  absl::Status MakeDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
    const int error = errno;
    // Somebody else may have made it just now.
    if (error == EEXIST && IsDirectory(path)) return absl::OkStatus();
    return FileError(error, "make directory", path);
  }

  absl::Status Sync(const std::string& path) override {
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

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    const int error = errno == ENOTEMPTY ? EEXIST : errno;
    return FileError(error, absl::StrCat("rename '", from, "' to"), to);
  }

  absl::Status Remove(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error) return absl::OkStatus();
    return FileError(error.value(), "delete", path);
  }
};

}  // namespace

Storage& PosixStorage() {
  static Posix* const posix = new Posix();
  return *posix;
}

}  // namespace paramd
