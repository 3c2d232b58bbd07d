#include "compute/device/device_claims.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

std::string TemporaryDirectory() {
  const char* const said = std::getenv("TMPDIR");
  return said == nullptr || *said == '\0' ? "/tmp" : said;
}

}  // namespace

DeviceClaims::DeviceClaims() : DeviceClaims(TemporaryDirectory()) {}

DeviceClaims::DeviceClaims(std::string directory)
    : directory_(std::move(directory)) {}

DeviceClaims::~DeviceClaims() {
  for (const auto& held : held_) close(held.second);
}

DeviceClaims& DeviceClaims::OfProcess() {
  static DeviceClaims* const claims = new DeviceClaims();
  return *claims;
}

bool DeviceClaims::Claim(absl::string_view gpu) {
  MutexLock lock(&mutex_);
  if (held_.count(std::string(gpu)) > 0) return true;
  const std::string path = absl::StrCat(directory_, "/paramd-", gpu, ".lock");
  // Others' processes take it too.
  int file = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 && errno == EACCES) {
    // Linux lets nobody create another user's file again
    // (fs.protected_regular).
    file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  }
  if (file < 0) return true;
  if (flock(file, LOCK_EX | LOCK_NB) == 0) {
    held_[std::string(gpu)] = file;
    return true;
  }
  const bool is_taken = errno == EWOULDBLOCK;
  close(file);
  return !is_taken;
}

}  // namespace paramd
