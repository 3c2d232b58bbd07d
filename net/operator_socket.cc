#include "net/operator_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

constexpr int kOperatorBacklog = 16;

struct SocketPlace {
  std::string directory;
  std::string name;
};

SocketPlace PlaceOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// The same directory by a short name, in this process.
std::string ShortName(int directory, const std::string& name) {
  return absl::StrCat("/proc/self/fd/", directory, "/", name);
}

int OpenDirectory(const std::string& directory) {
  return open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

absl::Status Cannot(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot listen on the socket '", path, "': ", why));
}

// Binds and listens under a name that nobody knows, then takes `name`.
absl::Status ListenAs(int directory, int fd, const std::string& name) {
  const std::string new_name = absl::StrCat(name, ".", getpid());
  const std::string short_name = ShortName(directory, new_name);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (short_name.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError("the file's name is too long");
  }
  memcpy(address.sun_path, short_name.data(), short_name.size());
  unlinkat(directory, new_name.c_str(), 0);
  // Nobody connects before it listens, and then its mode is what it is to be.
  const bool listens =
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
          0 &&
      fchmodat(directory, new_name.c_str(), 0600, 0) == 0 &&
      listen(fd, kOperatorBacklog) == 0 &&
      renameat(directory, new_name.c_str(), directory, name.c_str()) == 0;
  if (listens) return absl::OkStatus();
  const int error = errno;
  unlinkat(directory, new_name.c_str(), 0);
  return absl::InvalidArgumentError(strerror(error));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OperatorSocket>> OperatorSocket::Bind(
    const std::string& path) {
  const SocketPlace place = PlaceOf(path);
  const int directory = OpenDirectory(place.directory);
  if (directory < 0 && errno == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat("there is no directory '", place.directory, "'"));
  }
  if (directory < 0) return Cannot(path, strerror(errno));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  std::unique_ptr<OperatorSocket> made(
      new OperatorSocket(directory, fd, place.name));
  if (fd < 0) return Cannot(path, strerror(errno));
  struct stat there = {};
  if (fstatat(directory, place.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) ==
          0 &&
      !S_ISSOCK(there.st_mode)) {
    return Cannot(path, "a file that is not a socket has that name");
  }
  const absl::Status listening = ListenAs(directory, fd, place.name);
  if (!listening.ok()) return Cannot(path, listening.message());
  if (fstatat(directory, place.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) ==
      0) {
    made->inode_ = there.st_ino;
  }
  return made;
}

OperatorSocket::~OperatorSocket() {
  struct stat there = {};
  if (inode_ != 0 &&
      fstatat(directory_, name_.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      there.st_ino == inode_) {
    unlinkat(directory_, name_.c_str(), 0);
  }
  if (fd_ >= 0) close(fd_);
  close(directory_);
}

absl::StatusOr<std::unique_ptr<OperatorAddress>> OperatorAddress::Of(
    const std::string& path) {
  const SocketPlace place = PlaceOf(path);
  const int directory = OpenDirectory(place.directory);
  struct stat there = {};
  if (directory < 0 || fstatat(directory, place.name.c_str(), &there, 0) != 0 ||
      !S_ISSOCK(there.st_mode)) {
    if (directory >= 0) close(directory);
    return absl::NotFoundError(
        absl::StrCat("there is no socket '", path,
                     "': it is there while its process runs, on that machine"));
  }
  return std::unique_ptr<OperatorAddress>(new OperatorAddress(
      directory, absl::StrCat("unix:", ShortName(directory, place.name))));
}

OperatorAddress::~OperatorAddress() { close(directory_); }

bool OperatorAddress::IsAlive() const {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;  // Not known; whoever calls it finds out.
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = target_.substr(target_.find(':') + 1);
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const bool refused = connect(fd, reinterpret_cast<const sockaddr*>(&address),
                               sizeof(address)) != 0 &&
                       errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

}  // namespace paramd
