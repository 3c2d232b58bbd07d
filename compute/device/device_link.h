#ifndef PARAMD_COMPUTE_DEVICE_DEVICE_LINK_H_
#define PARAMD_COMPUTE_DEVICE_DEVICE_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "compute/device/device.h"
#include "compute/device/device_ring.h"
#include "compute/device/replica_meeting.h"
#include "tensor/buffer_arena.h"
#include "tensor/unified_memory.h"

namespace paramd {

class ChromeTrace;

// What a device was given to compute, to be given to it again: the numbers that
// primitives were called with, and where their tensors lie. Ends before its
// device does.
class Recording {
 public:
  virtual ~Recording() = default;
};

// The way between host memory and that of a device with memory of its own:
// copies that run beside what the device computes, in two queues, one there and
// one back. A mark is a point in what was asked for; each is made once and set
// again in every step.
//
//   link->Upload(staged, bytes, weights);      // Copies ...
//   link->MarkUploads(mark);
//   link->ComputeBehind(mark);                 // ... the device waits ...
//   device->Multiply(..., weights, ...);
//   link->Download(output, bytes, host, back);
//   link->Wait(back);                          // ... and now the host.
//
// Host memory is what AllocateHost gave. It must not be touched from Download
// until its mark has been waited for, and not be written to from Upload until a
// mark after it has been. Of the thread of its device.
class DeviceLink {
 public:
  using Mark = size_t;

  virtual ~DeviceLink() = default;

  // "cuda:0".
  virtual std::string name() const = 0;
  // Pinned. Values of it are not set. Null if the device's status says why.
  virtual Device::Memory AllocateHost(size_t bytes) = 0;
  // Of the device; what is freed counts at once.
  virtual uint64_t FreeBytes() = 0;
  // Waiting for a mark that was never set is over at once.
  virtual Mark MakeMark() = 0;

  // What is uploaded from now on lands after all that was called until now.
  virtual void UploadBehind() = 0;
  virtual void Upload(const void* from, size_t bytes, void* to) = 0;
  // Sets a mark after all uploads until now.
  virtual void MarkUploads(Mark mark) = 0;
  // What is called from now on is computed after the mark.
  virtual void ComputeBehind(Mark mark) = 0;

  // Copies what the calls until now have computed, and sets a mark after it.
  virtual void Download(const void* from, size_t bytes, void* to,
                        Mark mark) = 0;
  // Returns when what is before the mark has ended, or the device is lost.
  virtual void Wait(Mark mark) = 0;

  // From now on the trace, which outlives the device, is told when copies and
  // sums ran. Describe: those that are called from now on are of this, a name
  // that outlives it.
  virtual void SetTrace(ChromeTrace* trace) = 0;
  virtual void Describe(const char* what) = 0;

  // ---- what is computed again

  // So far.
  struct Counts {
    uint64_t allocations = 0;  // How often the device was asked for memory.
    uint64_t replays = 0;
  };
  // From here to EndRecording primitives are not computed, but recorded.
  // Meanwhile nothing else is called: what allocates, frees, copies from or to
  // the host, marks or waits can't be recorded. REQUIRES: records().
  virtual void BeginRecording() = 0;
  // Null: no primitive was called. Not OK: it can't be recorded, and the device
  // is as it was before.
  virtual absl::StatusOr<std::unique_ptr<Recording>> EndRecording() = 0;
  // Computes it, in order with what is called. REQUIRES: the device was not
  // asked for memory since it was recorded, and memory that is not its own is
  // still there.
  virtual void Replay(const Recording& recording) = 0;
  virtual bool records() const = 0;
  virtual Counts counts() const = 0;

  // ---- memory that both address

  // Of this device: what lies there need not cross, and the host touches it
  // where it must. Before anything is computed, if at all; null: none.
  void SetUnifiedMemory(std::shared_ptr<UnifiedMemory> memory) {
    unified_memory_ = std::move(memory);
  }
  UnifiedMemory* unified_memory() const { return unified_memory_.get(); }

  // Buffers of such memory as AllocateHost gives: what is handed in there is
  // copied from and to where it lies. Before anything is computed, if at all;
  // null: none.
  void SetPinnedMemory(std::shared_ptr<BufferArena> memory) {
    pinned_memory_ = std::move(memory);
  }
  BufferArena* pinned_memory() const { return pinned_memory_.get(); }

  // ---- with the devices of the other replicas, beside computing and copies

  // An end of a ring between processes. As Accelerator::OpenRing.
  virtual absl::StatusOr<std::unique_ptr<DeviceRing>> OpenRing() = 0;
  // Called by all of them, each on its thread; once, but again for another
  // ring. As Accelerator::Join.
  virtual absl::Status Join(const ReplicaGroup& group) = 0;
  // What the calls until now have computed becomes the sums over all devices':
  // see StreamSum::Add. Sets a mark after it. REQUIRES: it has joined.
  virtual void Sum(absl::Span<const SumPart> parts, Mark mark) = 0;
  // What is downloaded from now on is as it is after the mark.
  virtual void DownloadBehind(Mark mark) = 0;
  // This one can't go on, as its status says: the others wait for it no more,
  // and have that status, too.
  virtual void AbortSums() = 0;

 private:
  std::shared_ptr<UnifiedMemory> unified_memory_;
  std::shared_ptr<BufferArena> pinned_memory_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_DEVICE_LINK_H_
