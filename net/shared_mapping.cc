#include "net/shared_mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(std::atomic<uint32_t>::is_always_lock_free,
              "a word works between processes");

absl::Status CannotMake() {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory to share: ", strerror(errno)));
}

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("memory to share ", what));
}

}  // namespace

absl::StatusOr<SharedMapping::Made> SharedMapping::Make() {
  const int fd = memfd_create("paramd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return CannotMake();
  if (ftruncate(fd, kBytes) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    const absl::Status status = CannotMake();
    close(fd);
    return status;
  }
  auto mapping = Map(fd);
  if (!mapping.ok()) {
    close(fd);
    return mapping.status();
  }
  return Made{*std::move(mapping), fd};
}

// Only memfd_create gives files that can be sealed, and only those of tmpfs are
// made of ordinary pages: huge ones that have run out end whoever touches them.
absl::StatusOr<std::shared_ptr<SharedMapping>> SharedMapping::Open(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Bad("is a file of another kind");
  if ((seals & kSeals) != kSeals) return Bad("is not sealed");
  struct statfs system = {};
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return Bad("is not made of ordinary pages");
  }
  struct stat file = {};
  if (fstat(fd, &file) != 0 || file.st_size != static_cast<off_t>(kBytes)) {
    return Bad(absl::StrCat("has ", file.st_size, " bytes; expected ", kBytes));
  }
  return Map(fd);
}

absl::StatusOr<std::shared_ptr<SharedMapping>> SharedMapping::Map(int fd) {
  void* const begin =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (begin == MAP_FAILED) {
    return Bad(absl::StrCat("cannot be mapped: ", strerror(errno)));
  }
  return std::shared_ptr<SharedMapping>(
      new SharedMapping(static_cast<std::byte*>(begin)));
}

SharedMapping::~SharedMapping() { munmap(begin_, kBytes); }

absl::Span<std::byte> SharedMapping::arena(Arena arena) const {
  const size_t before = arena == Arena::kClient ? 0 : kArenaBytes;
  return {begin_ + 2 * kWordBytes + before, kArenaBytes};
}

std::atomic<uint32_t>& SharedMapping::word(Arena arena, size_t unit) const {
  CHECK(unit < kUnits, "each unit has a word");
  const size_t before = arena == Arena::kClient ? 0 : kWordBytes;
  return reinterpret_cast<std::atomic<uint32_t>*>(begin_ + before)[unit];
}

}  // namespace paramd
