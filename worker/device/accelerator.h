#ifndef PARAMD_WORKER_DEVICE_ACCELERATOR_H_
#define PARAMD_WORKER_DEVICE_ACCELERATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "worker/device/device.h"

namespace paramd {

// What is asynchronous in a device that computes beside the host: its memory,
// pinned memory of the host, and streams, each of which does what it is given in
// order, with events between them. As CUDA has them, so its part is a call each;
// the other part is an emulation that finds mistakes of order.
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
  // The direction follows from the addresses. Host memory that is not pinned is
  // allowed, and then the call may wait.
  virtual void Copy(Stream stream, const void* from, size_t bytes,
                    void* to) = 0;
  // Sets the event behind what the stream was given until now.
  virtual void Record(Event event, Stream stream) = 0;
  // What the stream is given from now on begins behind the event as it is set
  // now; one that never was set is over.
  virtual void StreamWait(Stream stream, Event event) = 0;
  virtual void HostWait(Event event) = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_DEVICE_ACCELERATOR_H_
