#include "process/termination_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace paramd {
namespace {

constexpr size_t kMostBytes = 4096;

}  // namespace

void WriteTerminationLog(const std::string& path, absl::string_view reason) {
  if (path.empty()) return;
  // Without blocking, should it be a pipe that nobody reads.
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  struct stat found = {};
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
      ftruncate(fd, 0) == 0) {
    size_t size = std::min(reason.size(), kMostBytes);
    // Not within a character of several bytes.
    while (size > 0 && size < reason.size() && (reason[size] & 0xC0) == 0x80) {
      --size;
    }
    // Nobody is left to be told if this fails.
    [[maybe_unused]] const ssize_t written = write(fd, reason.data(), size);
  }
  close(fd);
}

}  // namespace paramd
