#include "process/profile/stack_sampler.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/check.h"
#include "base/clock.h"

namespace paramd {
namespace {

constexpr size_t kDeepest = 64;
// Ten times what 64 busy processors take between two collections.
constexpr size_t kSlots = 8192;
constexpr absl::Duration kCollect = absl::Milliseconds(100);

// A sample on its way from a signal handler to who collects it.
struct Slot {
  std::atomic<bool> is_full = false;
  pid_t thread = 0;
  size_t depth = 0;
  std::array<uintptr_t, kDeepest> addresses = {};
};

// What handlers write and one thread reads. A handler takes the next slot; if
// that has not been read yet, its sample is lost.
struct SlotRing {
  std::atomic<uint64_t> next = 0;
  std::atomic<uint64_t> lost = 0;
  std::array<Slot, kSlots> slots;
};

// Null: nothing is sampled. Handlers that have begun to use it are counted, so
// that it is not freed below them.
std::atomic<SlotRing*> current_ring = nullptr;
std::atomic<int> handlers = 0;
// Somebody samples.
std::atomic<bool> is_sampling = false;

struct Unwinding {
  Slot* slot;
  // Where the signal came: what is called after it is the handler's own.
  uintptr_t interrupted;
  bool has_begun = false;
};

_Unwind_Reason_Code TakeFrame(_Unwind_Context* context, void* data) {
  Unwinding* const unwinding = static_cast<Unwinding*>(data);
  const uintptr_t address = _Unwind_GetIP(context);
  unwinding->has_begun |= address == unwinding->interrupted;
  if (!unwinding->has_begun || address == 0) return _URC_NO_REASON;
  Slot* const slot = unwinding->slot;
  slot->addresses[slot->depth++] = address;
  return slot->depth < kDeepest ? _URC_NO_REASON : _URC_END_OF_STACK;
}

uintptr_t AddressIn(const void* context) {
  const auto* const registers =
      &static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(registers->gregs[REG_RIP]);
#elif defined(__aarch64__)
  return registers->pc;
#else
#error "which register has the address of the next instruction?"
#endif
}

// The unwinder finds its tables without a lock (_dl_find_object, glibc 2.35),
// so it may be called here.
void TakeSample(SlotRing* ring, const void* context) {
  const uint64_t index = ring->next.fetch_add(1, std::memory_order_relaxed);
  Slot* const slot = &ring->slots[index % kSlots];
  if (slot->is_full.load(std::memory_order_acquire)) {
    ring->lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  slot->thread = gettid();
  slot->depth = 0;
  Unwinding unwinding = {slot, AddressIn(context)};
  _Unwind_Backtrace(TakeFrame, &unwinding);
  // Code without tables, as kernels in assembly are: it alone is known.
  if (slot->depth == 0) slot->addresses[slot->depth++] = unwinding.interrupted;
  slot->is_full.store(true, std::memory_order_release);
}

void OnSignal(int, siginfo_t*, void* context) {
  const int saved = errno;
  handlers.fetch_add(1);
  SlotRing* const ring = current_ring.load();
  if (ring != nullptr) TakeSample(ring, context);
  handlers.fetch_sub(1);
  errno = saved;
}

// Stays when sampling ends: a signal may still be on its way, and by default it
// ends the process.
absl::Status InstallHandler() {
  struct sigaction before = {};
  CHECK(sigaction(SIGPROF, nullptr, &before) == 0, "signals have handlers");
  const bool is_ours =
      (before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction == OnSignal;
  if (is_ours) return absl::OkStatus();
  if ((before.sa_flags & SA_SIGINFO) != 0 ||
      (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)) {
    return absl::FailedPreconditionError(
        "another profiler of this process handles SIGPROF");
  }
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  CHECK(sigaction(SIGPROF, &action, nullptr) == 0, "a handler is set");
  return absl::OkStatus();
}

void SetTimer(absl::Duration interval) {
  itimerval timer = {};
  timer.it_interval = absl::ToTimeval(interval);
  timer.it_value = timer.it_interval;
  CHECK(setitimer(ITIMER_PROF, &timer, nullptr) == 0, "a timer is set");
}

absl::Duration CpuOfProcess() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) +
         absl::DurationFromTimeval(usage.ru_stime);
}

// Names of threads, of which one may have ended since it was sampled.
class ThreadNames {
 public:
  const std::string& Of(pid_t thread) {
    const auto known = names_.find(thread);
    if (known != names_.end()) return known->second;
    std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/comm"));
    std::string name;
    if (!std::getline(file, name)) name = "a thread that has ended";
    return names_.emplace(thread, std::move(name)).first->second;
  }

 private:
  std::map<pid_t, std::string> names_;
};

// Reads what lies in slots with these indices.
void Collect(SlotRing* ring, uint64_t begin, uint64_t end, ThreadNames* threads,
             StackSamples* samples) {
  for (uint64_t index = begin; index < end; ++index) {
    Slot& slot = ring->slots[index % kSlots];
    if (!slot.is_full.load(std::memory_order_acquire)) continue;
    Stack stack;
    stack.thread = threads->Of(slot.thread);
    stack.addresses.assign(slot.addresses.begin(),
                           slot.addresses.begin() + slot.depth);
    ++samples->counts[std::move(stack)];
    slot.is_full.store(false, std::memory_order_release);
  }
}

}  // namespace

absl::StatusOr<StackSamples> SampleStacks(
    absl::Duration duration, absl::Duration interval,
    const std::function<bool()>& cancelled) {
  if (is_sampling.exchange(true)) {
    return absl::FailedPreconditionError(
        "this process is being profiled already");
  }
  if (absl::Status installed = InstallHandler(); !installed.ok()) {
    is_sampling = false;
    return installed;
  }
  const auto ring = std::make_unique<SlotRing>();
  uint64_t read = 0;  // Of the ring's indices.
  ThreadNames threads;
  StackSamples samples;
  const absl::Duration cpu_before = CpuOfProcess();
  const Time end = MonotonicNow() + duration;
  current_ring = ring.get();
  SetTimer(interval);
  while (MonotonicNow() < end && !cancelled()) {
    absl::SleepFor(std::min(kCollect, end - MonotonicNow()));
    const uint64_t next = ring->next;
    Collect(ring.get(), std::exchange(read, next), next, &threads, &samples);
  }
  SetTimer(absl::ZeroDuration());
  current_ring = nullptr;
  while (handlers.load() != 0) absl::SleepFor(absl::Microseconds(100));
  // All, since one may have been written when its turn had gone by.
  Collect(ring.get(), 0, kSlots, &threads, &samples);
  samples.lost = ring->lost;
  samples.cpu = CpuOfProcess() - cpu_before;
  is_sampling = false;
  return samples;
}

}  // namespace paramd
