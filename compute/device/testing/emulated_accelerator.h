#ifndef PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_ACCELERATOR_H_
#define PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_ACCELERATOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "base/random.h"
#include "compute/device/accelerator.h"
#include "compute/device/testing/emulated_nccl.h"
#include "compute/device/testing/emulated_unified_memory.h"

namespace paramd {

// An accelerator on the processor that is made to find mistakes. Each stream is
// a thread that dawdles before what it does, for a time that follows from the
// seed. Device memory is an address at which nothing can be read or written: a
// host that touches it dies; streams do so elsewhere, at Inside(address). New
// memory holds NaN, and so does host memory from the moment that a copy to it
// was asked for, until the copy is made. What is read or written too early is
// seen by ThreadSanitizer, or as NaN.
//
// What can't be captured fails the recording (CUDA's rules are looser); one
// that names memory which was freed since ends the program.
//
// As CUDA's, of one thread; what Launch is given runs on a stream's.
class EmulatedAccelerator : public Accelerator {
 public:
  struct Options {
    uint64_t seed = 1;
    uint64_t memory_bytes = uint64_t{1} << 30;
    // The device is lost when it was given so many things to do; 0: never.
    uint64_t lost_after = 0;
    // No delays: for what is measured or long.
    bool in_haste = false;
    // Device memory is at its address: for primitives that are given no other.
    bool is_plain = false;
    // The library that its rings are made by.
    absl::StatusOr<Nccl> (*nccl)() = EmulatedNccl::Load;
    // As a driver that refuses.
    bool captures = true;
  };
  // What StreamHandle gives.
  struct Handle {
    EmulatedAccelerator* accelerator = nullptr;
    Stream stream = 0;
  };

  explicit EmulatedAccelerator(const Options& options);
  // Ends what streams were given.
  ~EmulatedAccelerator() override;

  std::string name() const override { return "emulated:0"; }
  absl::Status status() const override { return status_; }
  Memory AllocateDevice(size_t bytes) override;
  Memory AllocateHost(size_t bytes) override;
  uint64_t FreeBytes() override { return options_.memory_bytes - used_bytes_; }
  Stream MakeStream() override;
  Event MakeEvent() override;
  Event MakeTimedEvent() override { return MakeEvent(); }
  absl::optional<absl::Duration> Since(Event from, Event to) override;
  void Copy(Stream stream, const void* from, size_t bytes, void* to) override;
  void Record(Event event, Stream stream) override;
  void StreamWait(Stream stream, Event event) override;
  void HostWait(Event event) override;
  void* StreamHandle(Stream stream) override { return &handles_[stream]; }
  absl::StatusOr<std::unique_ptr<DeviceRing>> OpenRing() override;
  void BeginCapture(Stream stream) override;
  absl::StatusOr<std::unique_ptr<Recording>> EndCapture(Stream stream) override;
  void Replay(Stream stream, const Recording& recording) override;
  absl::StatusOr<std::unique_ptr<StreamSum>> Join(
      const ReplicaGroup& group) override;

  // Streams find such memory, too. To be called before anything is copied
  // there.
  void Share(std::shared_ptr<EmulatedUnifiedMemory> memory) {
    unified_.push_back(std::move(memory));
  }

  // Runs `work` in the stream.
  void Launch(Stream stream, std::function<void()> work);
  // Where a stream finds `bytes` at an address of the device.
  // REQUIRES: they are the device's: a primitive was given host memory, or more
  // than was allocated, if not.
  void* Inside(const void* address, size_t bytes) const;

  // What was asked for until now.
  uint64_t allocations() const { return allocations_; }
  uint64_t bytes_copied() const { return bytes_copied_; }
  // Of them, those between host memory and the device's.
  uint64_t bytes_crossed() const { return bytes_crossed_; }
  // Copies of host memory that is not pinned: they wait.
  uint64_t unpinned_copies() const { return unpinned_copies_; }
  // Allocations and recordings while a sum was under way, as far as the host
  // knew. CUDA may wait for it then, and keep another thread from what the sum
  // waits for.
  uint64_t allocations_beside_sums() const { return allocations_beside_sums_; }
  size_t events() const { return signals_.size(); }
  // Calls that were recorded, and recordings that were replayed.
  uint64_t recorded_calls() const { return recorded_calls_; }
  uint64_t replays() const { return replays_; }
  // The stream was given a sum.
  void AddedSum(Stream stream) { sums_before_[stream] = ++sums_; }

 private:
  class Graph;
  class Queue;
  class Signal;
  struct Region {
    std::byte* real = nullptr;  // Of host memory: itself.
    size_t bytes = 0;
  };
  using Regions = std::map<uintptr_t, Region>;

  // The region that has all of these bytes, or null.
  static const Region* Find(const Regions& regions, const void* address,
                            size_t bytes, size_t* offset);
  // Null: it lies elsewhere.
  EmulatedUnifiedMemory* UnifiedAt(const void* address, size_t bytes) const;
  void FinishAll();
  // False if the device is lost, by this if it is time, or a recording failed.
  bool Takes();
  bool Captures(Stream stream) const;
  // Whether this is refused since it can't be recorded.
  bool Refuses(bool can_not, const char* what);
  // Gives the stream what Takes has let through.
  void Give(Stream stream, std::function<void()> work);
  void CountAllocation();

  const Options options_;
  absl::Status status_;
  // What is captured; null: nothing is.
  std::unique_ptr<Graph> capture_;
  std::vector<std::unique_ptr<Signal>> signals_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::deque<Handle> handles_;  // They stay where they are.
  Regions device_;
  Regions pinned_;
  // Gone when it is: pinned memory may be kept longer.
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  std::vector<std::shared_ptr<EmulatedUnifiedMemory>> unified_;
  uint64_t used_bytes_ = 0;
  uint64_t taken_ = 0;
  uint64_t allocations_ = 0;
  uint64_t bytes_copied_ = 0;
  uint64_t bytes_crossed_ = 0;
  uint64_t unpinned_copies_ = 0;
  uint64_t allocations_beside_sums_ = 0;
  uint64_t recorded_calls_ = 0;
  uint64_t replays_ = 0;
  uint64_t sums_ = 0;
  // Of them, those that have ended where the host knows that they have, where
  // a stream's next work begins, and where an event is.
  uint64_t sums_known_ = 0;
  std::vector<uint64_t> sums_before_;
  std::vector<uint64_t> sums_at_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_ACCELERATOR_H_
