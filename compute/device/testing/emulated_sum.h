#ifndef PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_SUM_H_
#define PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_SUM_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "compute/device/accelerator.h"
#include "compute/device/replica_meeting.h"

namespace paramd {

class EmulatedAccelerator;

// The sum over emulated accelerators: their streams' threads meet, each adds
// its part of the values of all, in the order of ranks, and they meet again. So
// a stream holds up who comes behind it until all have come, as NCCL's kernels
// do, and a sum of what is not there yet is seen by ThreadSanitizer, or as NaN.
class EmulatedSum : public StreamSum {
 public:
  // See Accelerator::Join.
  static absl::StatusOr<std::unique_ptr<StreamSum>> Join(
      EmulatedAccelerator* accelerator, const ReplicaGroup& group);

  void Add(size_t stream, absl::Span<const SumPart> parts) override;
  void Abort(const absl::Status& why) override;
  absl::Status status() const override;

 private:
  // What all members see.
  struct Shared {
    explicit Shared(size_t size) : meeting(size), adding(size), parts(size) {}
    ReplicaMeeting meeting;  // Of the streams.
    ReplicaMeeting adding;   // Of those who have met; it is never aborted.
    // By rank, as a stream sees them; written before the streams meet.
    std::vector<std::vector<SumPart>> parts;
    Mutex mutex;
    absl::Status why ABSL_GUARDED_BY(mutex);  // It was aborted.
  };

  EmulatedSum(EmulatedAccelerator* accelerator, size_t rank,
              std::shared_ptr<Shared> shared)
      : accelerator_(*accelerator), rank_(rank), shared_(std::move(shared)) {}

  EmulatedAccelerator& accelerator_;
  const size_t rank_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_SUM_H_
