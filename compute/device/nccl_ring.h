#ifndef PARAMD_COMPUTE_DEVICE_NCCL_RING_H_
#define PARAMD_COMPUTE_DEVICE_NCCL_RING_H_

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/mutex.h"
#include "compute/device/accelerator.h"
#include "compute/device/device_ring.h"
#include "compute/device/nccl.h"

namespace paramd {

// A GPU's end of a communicator of NCCL between processes. No call of NCCL
// waits for another process. A thread looks every few milliseconds whether one
// is lost, and is who frees the end, by ncclCommAbort: whatever waits in one of
// its kernels goes on then.
//
// The order of additions is NCCL's: it follows from the GPUs, how they and
// their machines are linked, ranks, lengths, and NCCL's version and settings.
// Of two members each element is one addition, which has the same bits in
// either order.
class NcclRing : public DeviceRing {
 public:
  // `accelerator`: the device, for what is this object's own there.
  // FAILED_PRECONDITION if NCCL is not there or too old.
  static absl::StatusOr<std::unique_ptr<DeviceRing>> Open(
      std::unique_ptr<Accelerator> accelerator,
      const absl::StatusOr<Nccl>& nccl);
  ~NcclRing() override;

  std::string engine() const override;
  absl::StatusOr<Id> MakeId() override;
  void Begin(const Id& id, size_t rank, size_t size) override;
  absl::StatusOr<bool> HasFormed() override ABSL_LOCKS_EXCLUDED(calls_);
  size_t size() const override { return size_; }
  absl::Status Sum(absl::Span<float> values) override;
  void Add(void* stream, absl::Span<const SumPart> parts) override
      ABSL_LOCKS_EXCLUDED(calls_);
  void Abort(const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status status() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  NcclRing(std::unique_ptr<Accelerator> accelerator, const Nccl& nccl)
      : nccl_(nccl), accelerator_(std::move(accelerator)) {}

  static absl::Status ErrorOf(const Nccl& nccl, Nccl::Result result);
  // Whether nothing is under way that NCCL was told to do. An error ends the
  // ring.
  bool IsDoneLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(calls_);
  void AddLocked(Nccl::Stream stream, absl::Span<const SumPart> parts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(calls_);
  void Watch();

  const Nccl nccl_;
  // Of who calls Begin and Sum.
  const std::unique_ptr<Accelerator> accelerator_;
  Accelerator::Stream stream_ = 0;
  Accelerator::Event done_ = 0;
  Accelerator::Memory there_;     // Of the device. So much crosses at a time,
  Accelerator::Memory sent_;      // pinned,
  Accelerator::Memory received_;  // both ways.
  size_t size_ = 0;

  // NCCL's end is of one thread at a time. Before mutex_.
  Mutex calls_;
  Nccl::End end_ ABSL_GUARDED_BY(calls_) = nullptr;

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);  // Not OK: it is over.
  std::thread watching_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_NCCL_RING_H_
