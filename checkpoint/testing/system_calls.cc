// Its own definitions of these functions exclude inline ones.
#undef _FORTIFY_SOURCE

#include "checkpoint/testing/system_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

// libc's function behind the one of the same name here.
#define REAL(name)                                                    \
  ([] {                                                               \
    static const auto real =                                          \
        reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name)); \
    return real;                                                      \
  }())

namespace paramd::testing {
namespace {

using Fault = SystemCalls::Fault;

constexpr size_t kShortBytes = 7;

struct State {
  Fault fault = Fault::kNone;
  uint64_t at = 0;
  int error = 0;
  uint64_t calls = 0;
  bool is_full = false;  // A write was torn.
  // What would not survive: files of which something is not synced, and names
  // whose directory is not.
  std::set<std::string> torn;
  std::vector<std::pair<std::string, std::string>> renamed;
};
State* state = nullptr;  // Null: all calls are libc's.

std::string PathOf(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, length) : "";
}

std::string ParentOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

void LosePower() {
  for (const std::string& path : state->torn) {
    struct stat info;
    if (REAL(stat)(path.c_str(), &info) == 0 &&
        truncate(path.c_str(), info.st_size / 2) != 0) {
      std::perror("truncate");
    }
  }
  std::reverse(state->renamed.begin(), state->renamed.end());
  for (const auto& [from, to] : state->renamed) {
    REAL(rename)(to.c_str(), from.c_str());
  }
}

// Whether the call at hand is the one that fails, with errno set.
bool Fails() {
  if (state == nullptr) return false;
  ++state->calls;
  const bool every = state->fault == Fault::kEveryError;
  if ((every ? state->calls % state->at != 0 : state->calls != state->at) ||
      state->fault == Fault::kFull) {
    return false;
  }
  if (state->fault == Fault::kPowerLoss) LosePower();
  if (state->fault != Fault::kError && !every) kill(getpid(), SIGKILL);
  errno = state->error;
  return true;
}

// Of the three standard ones nothing is counted.
bool Fails(int fd) { return fd > 2 && Fails(); }

// Whether there is no space for what is written there, with errno set. There
// is for half of the first that comes.
bool IsFull(int fd, size_t* length) {
  if (state == nullptr || state->fault != Fault::kFull || fd <= 2 ||
      state->calls < state->at) {
    return false;
  }
  errno = state->error;
  *length /= 2;
  return std::exchange(state->is_full, true) || *length == 0;
}

size_t LengthOf(size_t length) {
  return state != nullptr && state->fault == Fault::kShort
             ? std::min(length, kShortBytes)
             : length;
}

void Wrote(int fd) {
  if (state != nullptr && fd > 2) state->torn.insert(PathOf(fd));
}

void Synced(int fd) {
  const std::string path = PathOf(fd);
  state->torn.erase(path);
  auto& renamed = state->renamed;
  renamed.erase(std::remove_if(renamed.begin(), renamed.end(),
                               [&](const auto& names) {
                                 return ParentOf(names.second) == path;
                               }),
                renamed.end());
}

void Renamed(const std::string& from, const std::string& to) {
  if (state == nullptr) return;
  state->renamed.emplace_back(from, to);
  std::set<std::string> torn;
  for (const std::string& path : state->torn) {
    const bool moved = path == from || path.rfind(from + "/", 0) == 0;
    torn.insert(moved ? to + path.substr(from.size()) : path);
  }
  state->torn = std::move(torn);
}

}  // namespace

SystemCalls::SystemCalls(Fault fault, uint64_t at, int error) {
  state = new State();
  state->fault = fault;
  state->at = at;
  state->error = error;
}

SystemCalls::~SystemCalls() { delete std::exchange(state, nullptr); }

uint64_t SystemCalls::count() const { return state->calls; }

}  // namespace paramd::testing

using paramd::testing::Fails;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  return Fails() ? -1 : REAL(open)(path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  return Fails() ? -1 : REAL(openat)(directory, path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t length) {
  if (Fails(fd) || paramd::testing::IsFull(fd, &length)) return -1;
  paramd::testing::Wrote(fd);
  length = paramd::testing::LengthOf(length);
  return REAL(write)(fd, bytes, length);
}

ssize_t pread(int fd, void* bytes, size_t length, off_t offset) {
  if (Fails(fd)) return -1;
  return REAL(pread)(fd, bytes, paramd::testing::LengthOf(length), offset);
}

int fsync(int fd) {
  if (Fails(fd)) return -1;
  if (paramd::testing::state != nullptr) paramd::testing::Synced(fd);
  return 0;
}

// A close that fails has closed all the same.
int close(int fd) {
  const bool fails = Fails(fd);
  const int error = errno;
  const int closed = REAL(close)(fd);
  if (!fails) return closed;
  errno = error;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  if (Fails()) return -1;
  const int renamed = REAL(rename)(from, to);
  if (renamed == 0) paramd::testing::Renamed(from, to);
  return renamed;
}

int mkdir(const char* path, mode_t mode) noexcept {
  return Fails() ? -1 : REAL(mkdir)(path, mode);
}

int unlink(const char* path) noexcept {
  return Fails() ? -1 : REAL(unlink)(path);
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  return Fails() ? -1 : REAL(unlinkat)(directory, path, flags);
}

DIR* opendir(const char* path) {
  return Fails() ? nullptr : REAL(opendir)(path);
}

struct dirent* readdir(DIR* directory) {
  return Fails() ? nullptr : REAL(readdir)(directory);
}

int stat(const char* path, struct stat* info) noexcept {
  return Fails() ? -1 : REAL(stat)(path, info);
}

int fstat(int fd, struct stat* info) noexcept {
  return Fails(fd) ? -1 : REAL(fstat)(fd, info);
}

}  // extern "C"
