#include "checkpoint/whole_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"

namespace paramd {
namespace {

// At a directory that nobody else takes for a leftover before it is held.
constexpr int kAttempts = 8;

// ".out." of "/data/out".
std::string HiddenPrefix(const std::string& path) {
  return absl::StrCat(".", path.substr(path.rfind('/') + 1), ".");
}

// Two at work on one directory never meet under one temporary name.
std::string TemporaryName(const std::string& path) {
  std::random_device random;
  const uint64_t nonce = uint64_t{random()} << 32 | random();
  return absl::StrCat(DirectoryOf(path), "/", HiddenPrefix(path),
                      absl::Hex(nonce, absl::kZeroPad16));
}

bool IsNonce(absl::string_view text) {
  return text.size() == 16 &&
         text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

// A directory that somebody is at work in, for as long as this object or its
// process lives. Not thread-safe.
class Hold {
 public:
  explicit Hold(const std::string& directory)
      : fd_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    held_ = fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0;
    is_others_ = fd_ >= 0 && !held_ && errno == EWOULDBLOCK;
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    if (fd_ >= 0) close(fd_);
  }

  // Nobody else is at work there, as far as this storage tells.
  bool held() const { return held_; }
  // Somebody else is. Neither, where the storage has no locks.
  bool is_others() const { return is_others_; }

 private:
  const int fd_;
  bool held_;
  bool is_others_;
};

// What those left that were making `path` when they were killed.
void DeleteLeftovers(const std::string& path) {
  const std::string prefix = HiddenPrefix(path);
  const auto names = ListDirectory(DirectoryOf(path));
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, prefix) ||
        !IsNonce(name.substr(prefix.size()))) {
      continue;
    }
    const std::string left = absl::StrCat(DirectoryOf(path), "/", name);
    const Hold hold(left);
    if (hold.held()) RemoveTree(left).IgnoreError();
  }
}

// The names of what `fill` has written, once the directory has its own. ABORTED
// if another process took the directory for a leftover, before it was held.
absl::StatusOr<std::vector<std::string>> Make(
    const std::string& path, const std::string& temporary,
    absl::FunctionRef<absl::Status(const std::string&)> fill) {
  RETURN_IF_ERROR(MakeDirectories(temporary));
  const Hold hold(temporary);
  if (hold.is_others() || !IsDirectory(temporary)) {
    return absl::AbortedError(
        absl::StrCat("'", temporary, "' was deleted as if it were left over"));
  }
  DeleteLeftovers(path);
  RETURN_IF_ERROR(fill(temporary));
  RETURN_IF_ERROR(SyncDirectory(temporary));
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(temporary));
  RETURN_IF_ERROR(RenamePath(temporary, path));
  RETURN_IF_ERROR(SyncDirectory(DirectoryOf(path)));
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> MakeWholeDirectory(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& directory)> fill) {
  for (int attempt = 1;; ++attempt) {
    const std::string temporary = TemporaryName(path);
    bool is_filled = false;
    auto made = Make(path, temporary, [&](const std::string& directory) {
      is_filled = true;
      return fill(directory);
    });
    if (made.ok()) return made;
    // What writing failed with says more than what clearing up might.
    RemoveTree(temporary).IgnoreError();
    const bool was_lost = !is_filled && (absl::IsAborted(made.status()) ||
                                         absl::IsNotFound(made.status()));
    if (!was_lost || attempt == kAttempts) return made;
  }
}

}  // namespace paramd
