#include "base/resource_limits.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/mutex.h"

namespace paramd {
namespace {

constexpr uint64_t kKibibyte = 1024;  // The unit of ulimit -v.

// Threads that do nothing but be there, until it ends.
class IdleThreads {
 public:
  ~IdleThreads() {
    {
      const MutexLock lock(&mutex_);
      over_ = true;
      changed_.NotifyAll();
    }
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

  // False if no further one can be started.
  bool Start() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, Wait, this) != 0) return false;
    threads_.push_back(thread);
    return true;
  }
  size_t size() const { return threads_.size(); }

 private:
  static void* Wait(void* self) {
    auto* const threads = static_cast<IdleThreads*>(self);
    MutexLock lock(&threads->mutex_);
    while (!threads->over_) threads->changed_.Wait(&threads->mutex_);
    return nullptr;
  }

  std::vector<pthread_t> threads_;
  Mutex mutex_;
  CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

// Of this process, at present.
size_t PresentThreads() {
  std::ifstream file("/proc/self/status");
  std::string word;
  size_t count = 1;
  while (file >> word) {
    if (word == "Threads:" && file >> count) break;
  }
  return count;
}

uint64_t PresentAddressSpace() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

rlim_t LimitOf(int resource) {
  rlimit limit = {};
  return getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0
             ? limit.rlim_cur
             : RLIM_INFINITY;
}

int limited_code = 1;
int exhausted_code = 1;

// Without memory of its own.
[[noreturn]] void End(absl::string_view sentence, int code) {
  if (write(STDERR_FILENO, sentence.data(), sentence.size()) < 0) _exit(code);
  _exit(code);
}

[[noreturn]] void OnTerminate() {
  const std::exception_ptr thrown = std::current_exception();
  if (thrown == nullptr) std::abort();
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      End("paramd: no further thread can be started: raise the limit "
          "(ulimit -u, ulimit -v, or pids.max of the control group)\n",
          limited_code);
    }
  } catch (const std::bad_alloc&) {
    if (IsAddressSpaceLimited()) {
      End("paramd: the address space is used up: raise the limit (ulimit -v, "
          "or a grid engine's h_vmem)\n",
          limited_code);
    }
    End("paramd: there is no memory left\n", exhausted_code);
  } catch (...) {
  }
  std::abort();
}

}  // namespace

// The lowest number that is free is the one that is opened.
void OpenStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

absl::Status CheckThreads(size_t needed) {
  const size_t present = PresentThreads();
  size_t started = 0;
  {
    IdleThreads threads;
    while (threads.size() < needed && threads.Start()) continue;
    started = threads.size();
  }
  if (started == needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this process may have ", present + started,
                   " threads and needs ", present + needed,
                   "; raise the limit (ulimit -u, or pids.max of its "
                   "control group) or start fewer processes"));
}

bool IsAddressSpaceLimited() { return LimitOf(RLIMIT_AS) != RLIM_INFINITY; }

absl::Status CheckAddressSpace(uint64_t bytes) {
  if (!IsAddressSpaceLimited() || bytes == 0) return absl::OkStatus();
  void* const taken = mmap(nullptr, bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken != MAP_FAILED) {
    munmap(taken, bytes);
    return absl::OkStatus();
  }
  const uint64_t needed = (PresentAddressSpace() + bytes) / kKibibyte + 1;
  return absl::InvalidArgumentError(absl::StrCat(
      "this process may have ", LimitOf(RLIMIT_AS) / kKibibyte,
      " KiB of address space and needs ", needed,
      ", and more for its model and data; raise the limit (ulimit -v ", needed,
      ", or a grid engine's h_vmem)"));
}

uint64_t StackBytes() {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

void EndWithASentence(int limited, int exhausted) {
  limited_code = limited;
  exhausted_code = exhausted;
  std::set_terminate(OnTerminate);
}

}  // namespace paramd
