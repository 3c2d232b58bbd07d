#ifndef PARAMD_COMPUTE_DEVICE_DEVICE_RING_H_
#define PARAMD_COMPUTE_DEVICE_DEVICE_RING_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace paramd {

// Values in a device's memory that are summed with those of others.
struct SumPart {
  float* values = nullptr;
  uint64_t count = 0;
};

// One device's end of a ring of devices in processes of their own, any of which
// may be lost at any moment: they sum what lies in their memory.
//
//   opened ──Begin──► forming ──all have come──► formed
//                        └──────────┬──────────────┘
//                  one is lost, Abort, an error ──► over, for good
//
// All get the same bits. All call the same sums, of the same lengths, in the
// same order. A ring that is over ends what waits in it, on this device as on
// the host, and values are anything then.
//
// Thread-safety: Abort and status are of any thread; the others are called one
// at a time.
class DeviceRing {
 public:
  // By which ends find each other.
  struct Id {
    char bytes[128] = {};
  };

  // Aborts, and waits until nothing of the device's is in use.
  virtual ~DeviceRing() = default;

  // What it sums by, "NCCL 2.20.5": all ends of a ring must have the same.
  virtual std::string engine() const = 0;
  // Of one member, which spreads it. UNAVAILABLE, with a sentence, if it can't.
  virtual absl::StatusOr<Id> MakeId() = 0;
  // Begins to come together with the others that have the id; waits for nobody.
  // Once.
  virtual void Begin(const Id& id, size_t rank, size_t size) = 0;
  // Whether all have come. UNAVAILABLE: it is over.
  virtual absl::StatusOr<bool> HasFormed() = 0;

  // After Begin.
  virtual size_t size() const = 0;

  // Both REQUIRE that it has formed. Host memory, which crosses there and back.
  // UNAVAILABLE: it is over.
  virtual absl::Status Sum(absl::Span<float> values) = 0;
  // In the stream (Accelerator::StreamHandle), as StreamSum::Add; nothing once
  // it is over. Returns when the stream has it, which in the first sums may be
  // when the others have come there.
  virtual void Add(void* stream, absl::Span<const SumPart> parts) = 0;

  // Waits for nobody. Any number of times.
  virtual void Abort(const absl::Status& why) = 0;
  // UNAVAILABLE, why, once it is over. OK after a sum: that is one.
  virtual absl::Status status() const = 0;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_DEVICE_RING_H_
