#ifndef PARAMD_COMPUTE_DEVICE_ACCELERATOR_H_
#define PARAMD_COMPUTE_DEVICE_ACCELERATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "compute/device/device.h"
#include "compute/device/device_link.h"
#include "compute/device/device_ring.h"
#include "compute/device/replica_meeting.h"

namespace paramd {

// What one accelerator has of a sum over those of all replicas: see
// Accelerator::Join. Of the accelerator's thread, but Abort and status. None
// ends while another one sums, unless it was aborted.
class StreamSum {
 public:
  virtual ~StreamSum() = default;

  // In the stream: the values of each part become the sums over all members',
  // the same bits for each. Each calls it, with parts of the same lengths, in
  // the same order; no stream goes on before all have come so far.
  virtual void Add(size_t stream, absl::Span<const SumPart> parts) = 0;
  // Ends what is under way, for all members: what was being summed is anything
  // then. Any thread, any number of times.
  virtual void Abort(const absl::Status& why) = 0;
  // After Abort, of whichever member, why.
  virtual absl::Status status() const = 0;
};

// What is asynchronous in a device that computes beside the host: its memory,
// pinned memory of the host, and streams, each of which does what it is given
// in order, with events between them. As CUDA has them, so its part is a call
// each; the other part is an emulation that finds mistakes of order.
//
// The first error stays: see status(). Later calls return at once. Streams and
// events are as old as the object. Not thread-safe.
class Accelerator {
 public:
  using Memory = Device::Memory;
  using Stream = size_t;
  using Event = size_t;

  virtual ~Accelerator() = default;

  // "cuda:0".
  virtual std::string name() const = 0;
  // See Device::status.
  virtual absl::Status status() const = 0;

  // Null, and status() says why. Freeing waits for all streams.
  virtual Memory AllocateDevice(size_t bytes) = 0;
  virtual Memory AllocateHost(size_t bytes) = 0;
  virtual uint64_t FreeBytes() = 0;

  virtual Stream MakeStream() = 0;
  virtual Event MakeEvent() = 0;
  // One that Since may be asked about.
  virtual Event MakeTimedEvent() = 0;
  // The time between two timed events, of which `from` was reached; it may be
  // negative. None if `to` was not reached so far.
  virtual absl::optional<absl::Duration> Since(Event from, Event to) = 0;
  // The direction follows from the addresses. Host memory that is not pinned is
  // allowed, and then the call may wait.
  virtual void Copy(Stream stream, const void* from, size_t bytes,
                    void* to) = 0;
  // Sets the event after what the stream was given until now.
  virtual void Record(Event event, Stream stream) = 0;
  // What the stream is given from now on begins after the event as it is set
  // now; one that never was set is over.
  virtual void StreamWait(Stream stream, Event event) = 0;
  virtual void HostWait(Event event) = 0;

  // From here to EndCapture nothing that the stream is given is done; it is
  // what EndCapture gives: null if it was given nothing. Not OK: it can't be
  // had, for instance since memory was asked for or freed, the stream was to
  // wait or be waited for, or the host waited, and status() is as it was. Other
  // streams go on as always.
  virtual void BeginCapture(Stream stream) = 0;
  virtual absl::StatusOr<std::unique_ptr<Recording>> EndCapture(
      Stream stream) = 0;
  // Gives it to the stream. REQUIRES: this accelerator has captured it, and
  // memory that it names was not freed.
  virtual void Replay(Stream stream, const Recording& recording) = 0;

  // What libraries know the stream by that compute in it: CUDA's cudaStream_t.
  virtual void* StreamHandle(Stream stream) = 0;

  // An end of a ring that devices in other processes may join, whose own memory
  // is on this device. FAILED_PRECONDITION: what is needed is not there;
  // UNIMPLEMENTED: nothing is missing that could be had.
  virtual absl::StatusOr<std::unique_ptr<DeviceRing>> OpenRing() = 0;
  // Called by the accelerators of all replicas of this process, each on its
  // thread; returns when all have. FAILED_PRECONDITION, for one and so for all
  // (or CANCELLED, see ReplicaMeeting), if they can't sum. Not used after the
  // accelerator's end.
  virtual absl::StatusOr<std::unique_ptr<StreamSum>> Join(
      const ReplicaGroup& group) = 0;
};

// The sum over devices in processes of their own. Of one that is lost, or an
// abort, who has the ring is told: it is no error of this device.
class RingSum : public StreamSum {
 public:
  // `accelerator` outlives it.
  RingSum(Accelerator* accelerator, std::shared_ptr<DeviceRing> ring)
      : accelerator_(*accelerator), ring_(std::move(ring)) {}

  void Add(size_t stream, absl::Span<const SumPart> parts) override {
    ring_->Add(accelerator_.StreamHandle(stream), parts);
  }
  void Abort(const absl::Status& why) override { ring_->Abort(why); }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  Accelerator& accelerator_;
  const std::shared_ptr<DeviceRing> ring_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_ACCELERATOR_H_
