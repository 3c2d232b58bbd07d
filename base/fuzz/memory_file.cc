#include "base/fuzz/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd::fuzz {

MemoryFile::MemoryFile()
    : fd_(memfd_create("input", MFD_CLOEXEC)),
      path_(absl::StrCat("/proc/self/fd/", fd_)) {
  CHECK(fd_ >= 0, "there is memory for a file");
}

MemoryFile::~MemoryFile() { close(fd_); }

void MemoryFile::Write(absl::string_view content) {
  CHECK(ftruncate(fd_, 0) == 0, "a file in memory can be cut");
  const ssize_t written = pwrite(fd_, content.data(), content.size(), 0);
  CHECK(written == static_cast<ssize_t>(content.size()),
        "a file in memory can be written");
}

int MemoryFile::Duplicate() const {
  const int fd = dup(fd_);
  CHECK(fd >= 0, "there is a descriptor left");
  return fd;
}

}  // namespace paramd::fuzz
