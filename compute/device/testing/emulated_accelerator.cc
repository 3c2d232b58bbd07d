#include "compute/device/testing/emulated_accelerator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "compute/device/nccl_ring.h"
#include "compute/device/testing/emulated_sum.h"

namespace paramd {
namespace {

constexpr std::align_val_t kAlignment{64};

// Bytes of it are those of a NaN.
std::byte* NewMemory(size_t bytes) {
  void* const memory = ::operator new(std::max<size_t>(bytes, 1), kAlignment);
  std::memset(memory, 0xff, bytes);
  return static_cast<std::byte*>(memory);
}

void DeleteMemory(void* memory) { ::operator delete(memory, kAlignment); }

}  // namespace

// An event. Thread-safe.
class EmulatedAccelerator::Signal {
 public:
  // Of the host's thread: the number that a stream reaches by Reach.
  uint64_t Set() { return ++set_; }
  uint64_t set() const { return set_; }

  void Reach(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    reached_ = std::max(reached_, number);
    time_ = MonotonicNow();
    changed_.NotifyAll();
  }
  void WaitFor(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (reached_ < number) changed_.Wait(&mutex_);
  }
  // When it was reached as it was set last.
  absl::optional<Time> Reached() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (reached_ < set_) return absl::nullopt;
    return time_;
  }

 private:
  uint64_t set_ = 0;
  Mutex mutex_;
  CondVar changed_;
  uint64_t reached_ ABSL_GUARDED_BY(mutex_) = 0;
  Time time_ ABSL_GUARDED_BY(mutex_);
};

// A stream: a thread, and what it still has to do.
class EmulatedAccelerator::Queue {
 public:
  Queue(uint64_t seed, bool in_haste)
      : random_(seed), in_haste_(in_haste), thread_([this] { Run(); }) {}

  ~Queue() {
    Add(nullptr);
    thread_.join();
  }

  // Null: the end.
  void Add(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    waiting_.push_back(std::move(work));
    changed_.NotifyAll();
  }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_) {
    for (;;) {
      std::function<void()> work;
      {
        MutexLock lock(&mutex_);
        while (waiting_.empty()) changed_.Wait(&mutex_);
        work = std::move(waiting_.front());
        waiting_.pop_front();
      }
      if (work == nullptr) return;
      if (!in_haste_ && random_.Chance(0.25)) {
        absl::SleepFor(absl::Microseconds(1 + random_.Below(300)));
      }
      work();
    }
  }

  RandomStream random_;  // Of the thread.
  const bool in_haste_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Last: it begins with the others there.
};

// What a stream was given to do, and the device's memory that it names.
class EmulatedAccelerator::Graph : public Recording {
 public:
  explicit Graph(Stream stream)
      : stream(stream),
        calls(std::make_shared<std::vector<std::function<void()>>>()) {}

  const Stream stream;
  absl::Status status;
  // Streams that have it to do keep it.
  const std::shared_ptr<std::vector<std::function<void()>>> calls;
  // Where the device has such memory, and where that is.
  std::map<uintptr_t, std::byte*> memory;
};

EmulatedAccelerator::EmulatedAccelerator(const Options& options)
    : options_(options) {}

EmulatedAccelerator::~EmulatedAccelerator() {
  queues_.clear();
  CHECK(device_.empty(), "memory is freed before its accelerator ends");
}

void EmulatedAccelerator::CountAllocation() {
  ++allocations_;
  if (sums_known_ < sums_) ++allocations_beside_sums_;
}

Accelerator::Memory EmulatedAccelerator::AllocateDevice(size_t bytes) {
  if (!status_.ok() || Refuses(true, "memory is asked for")) return nullptr;
  if (bytes > FreeBytes()) {
    status_ = absl::ResourceExhaustedError(
        absl::StrCat(name(), " has ", FreeBytes(), " bytes free; ", bytes,
                     " were asked for"));
    return nullptr;
  }
  CountAllocation();
  used_bytes_ += bytes;
  if (options_.is_plain) {
    std::byte* const memory = NewMemory(bytes);
    device_[reinterpret_cast<uintptr_t>(memory)] = {memory, bytes};
    return Memory(memory, [this, bytes](void* freed) {
      FinishAll();
      device_.erase(reinterpret_cast<uintptr_t>(freed));
      DeleteMemory(freed);
      used_bytes_ -= bytes;
    });
  }
  const size_t mapped = std::max<size_t>(bytes, 1);
  void* const address =
      mmap(nullptr, mapped, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(address != MAP_FAILED, "addresses are found");
  device_[reinterpret_cast<uintptr_t>(address)] = {NewMemory(bytes), bytes};
  return Memory(address, [this, bytes, mapped](void* freed) {
    FinishAll();
    const auto found = device_.find(reinterpret_cast<uintptr_t>(freed));
    DeleteMemory(found->second.real);
    device_.erase(found);
    munmap(freed, mapped);
    used_bytes_ -= bytes;
  });
}

Accelerator::Memory EmulatedAccelerator::AllocateHost(size_t bytes) {
  if (!status_.ok() || Refuses(true, "memory is asked for")) return nullptr;
  CountAllocation();
  std::byte* const address = NewMemory(bytes);
  pinned_[reinterpret_cast<uintptr_t>(address)] = {address, bytes};
  return Memory(address, [this, alive = std::weak_ptr(alive_)](void* freed) {
    if (!alive.expired()) {
      FinishAll();
      pinned_.erase(reinterpret_cast<uintptr_t>(freed));
    }
    DeleteMemory(freed);
  });
}

Accelerator::Stream EmulatedAccelerator::MakeStream() {
  queues_.push_back(std::make_unique<Queue>(
      CounterRandom(options_.seed).Bits(queues_.size()), options_.in_haste));
  sums_before_.push_back(0);
  handles_.push_back({this, queues_.size() - 1});
  return queues_.size() - 1;
}

Accelerator::Event EmulatedAccelerator::MakeEvent() {
  signals_.push_back(std::make_unique<Signal>());
  sums_at_.push_back(0);
  return signals_.size() - 1;
}

absl::optional<absl::Duration> EmulatedAccelerator::Since(Event from,
                                                          Event to) {
  if (Refuses(true, "an event is looked at")) return absl::nullopt;
  const auto begin = signals_[from]->Reached();
  const auto end = signals_[to]->Reached();
  if (!begin.has_value() || !end.has_value()) return absl::nullopt;
  return *end - *begin;
}

bool EmulatedAccelerator::Captures(Stream stream) const {
  return capture_ != nullptr && capture_->stream == stream;
}

bool EmulatedAccelerator::Refuses(bool can_not, const char* what) {
  if (capture_ == nullptr || !can_not) return false;
  capture_->status.Update(absl::FailedPreconditionError(
      absl::StrCat(name(), " does not record: ", what)));
  return true;
}

void EmulatedAccelerator::Give(Stream stream, std::function<void()> work) {
  if (!Captures(stream)) return queues_[stream]->Add(std::move(work));
  capture_->calls->push_back(std::move(work));
  ++recorded_calls_;
}

void EmulatedAccelerator::BeginCapture(Stream stream) {
  CHECK(capture_ == nullptr, "one recording is made at a time");
  capture_ = std::make_unique<Graph>(stream);
  Refuses(!options_.captures, "its driver can't");
}

absl::StatusOr<std::unique_ptr<Recording>> EmulatedAccelerator::EndCapture(
    Stream stream) {
  CHECK(Captures(stream), "a recording ends where it began");
  std::unique_ptr<Graph> made = std::move(capture_);
  RETURN_IF_ERROR(status_);
  RETURN_IF_ERROR(made->status);
  if (made->calls->empty()) return std::unique_ptr<Recording>();
  // A graph takes memory.
  if (sums_known_ < sums_) ++allocations_beside_sums_;
  return std::unique_ptr<Recording>(std::move(made));
}

void EmulatedAccelerator::Replay(Stream stream, const Recording& recording) {
  if (Refuses(Captures(stream), "a recording is replayed") || !Takes()) return;
  const Graph& graph = static_cast<const Graph&>(recording);
  for (const auto& [address, real] : graph.memory) {
    const auto found = device_.find(address);
    CHECK(found != device_.end() && found->second.real == real,
          "what a recording names is still there");
  }
  ++replays_;
  queues_[stream]->Add([calls = graph.calls] {
    for (const std::function<void()>& call : *calls) call();
  });
}

bool EmulatedAccelerator::Takes() {
  if (!status_.ok()) return false;
  if (capture_ != nullptr && !capture_->status.ok()) return false;
  ++taken_;
  if (options_.lost_after > 0 && taken_ > options_.lost_after) {
    status_ = absl::UnavailableError(absl::StrCat(name(), " is lost"));
  }
  return status_.ok();
}

void EmulatedAccelerator::Launch(Stream stream, std::function<void()> work) {
  if (Takes()) Give(stream, std::move(work));
}

const EmulatedAccelerator::Region* EmulatedAccelerator::Find(
    const Regions& regions, const void* address, size_t bytes, size_t* offset) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  auto found = regions.upper_bound(at);
  if (found == regions.begin()) return nullptr;
  --found;
  *offset = at - found->first;
  if (*offset >= std::max<size_t>(found->second.bytes, 1)) return nullptr;
  CHECK(*offset + bytes <= found->second.bytes,
        "memory is used within its bounds");
  return &found->second;
}

void* EmulatedAccelerator::Inside(const void* address, size_t bytes) const {
  EmulatedUnifiedMemory* const unified = UnifiedAt(address, bytes);
  if (unified != nullptr) return unified->Inside(address);
  size_t offset = 0;
  const Region* const region = Find(device_, address, bytes, &offset);
  CHECK(region != nullptr, "a primitive is given memory of the device");
  if (capture_ != nullptr) {
    capture_->memory[reinterpret_cast<uintptr_t>(address) - offset] =
        region->real;
  }
  return region->real + offset;
}

EmulatedUnifiedMemory* EmulatedAccelerator::UnifiedAt(const void* address,
                                                      size_t bytes) const {
  for (const auto& memory : unified_) {
    if (memory->Has(address, bytes)) return memory.get();
  }
  return nullptr;
}

void EmulatedAccelerator::Copy(Stream stream, const void* from, size_t bytes,
                               void* to) {
  if (!Takes()) return;
  bytes_copied_ += bytes;
  size_t offset = 0;
  bool waits = false;
  bool crosses = false;
  const auto real = [&](const void* address) {
    EmulatedUnifiedMemory* const unified = UnifiedAt(address, bytes);
    if (unified != nullptr) return unified->Inside(address);
    const Region* region = Find(device_, address, bytes, &offset);
    if (region != nullptr) return region->real + offset;
    crosses = true;
    region = Find(pinned_, address, bytes, &offset);
    waits = waits || region == nullptr;
    return static_cast<std::byte*>(const_cast<void*>(address));
  };
  const std::byte* const source = real(from);
  std::byte* const target = real(to);
  EmulatedUnifiedMemory* const unified = UnifiedAt(to, bytes);
  if (Refuses(waits || (Captures(stream) && (crosses || unified != nullptr)),
              "a copy is not of the device's memory")) {
    return;
  }
  if (crosses) bytes_crossed_ += bytes;
  if (unified != nullptr) unified->BeginWriting(to, bytes);
  if (target == to || unified != nullptr) std::memset(target, 0xff, bytes);
  Give(stream, [source, target, bytes, unified, to] {
    std::memmove(target, source, bytes);
    if (unified != nullptr) unified->EndWriting(to);
  });
  if (!waits) return;
  ++unpinned_copies_;
  FinishAll();
}

void EmulatedAccelerator::Record(Event event, Stream stream) {
  if (!status_.ok() || Refuses(Captures(stream), "it is marked")) return;
  Signal* const signal = signals_[event].get();
  const uint64_t number = signal->Set();
  sums_at_[event] = sums_before_[stream];
  queues_[stream]->Add([signal, number] { signal->Reach(number); });
}

void EmulatedAccelerator::StreamWait(Stream stream, Event event) {
  if (!status_.ok() || Refuses(Captures(stream), "it is to wait")) return;
  Signal* const signal = signals_[event].get();
  const uint64_t number = signal->set();
  sums_before_[stream] = std::max(sums_before_[stream], sums_at_[event]);
  queues_[stream]->Add([signal, number] { signal->WaitFor(number); });
}

void EmulatedAccelerator::HostWait(Event event) {
  if (Refuses(true, "the host waits")) return;
  Signal* const signal = signals_[event].get();
  signal->WaitFor(signal->set());
  sums_known_ = std::max(sums_known_, sums_at_[event]);
}

absl::StatusOr<std::unique_ptr<DeviceRing>> EmulatedAccelerator::OpenRing() {
  Options options = options_;
  options.seed = CounterRandom(options_.seed).Bits(~uint64_t{0});
  options.lost_after = 0;
  return NcclRing::Open(std::make_unique<EmulatedAccelerator>(options),
                        options_.nccl());
}

absl::StatusOr<std::unique_ptr<StreamSum>> EmulatedAccelerator::Join(
    const ReplicaGroup& group) {
  return EmulatedSum::Join(this, group);
}

void EmulatedAccelerator::FinishAll() {
  Refuses(true, "memory is freed");
  Signal done;
  uint64_t last = 0;
  for (const auto& queue : queues_) {
    last = done.Set();
    queue->Add([&done, last] { done.Reach(last); });
    // One after the other: a later number stands for those before it.
    done.WaitFor(last);
  }
}

}  // namespace paramd
