#ifndef PARAMD_COMPUTE_DEVICE_NCCL_SUM_H_
#define PARAMD_COMPUTE_DEVICE_NCCL_SUM_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "compute/device/accelerator.h"
#include "compute/device/nccl.h"
#include "compute/device/replica_meeting.h"

namespace paramd {

// A GPU's end of a communicator of NCCL, whose kernels sum in the GPU's stream.
// NCCL's order of additions follows from the GPUs, how they are linked and the
// lengths: the same bits for each of them, and on each run on the same machine.
// A member may abort, and so free the ends of all, while others call NCCL: none
// is freed that a call has, for such a call returns when the end of another one
// is gone. `Accelerator` has `Use`, `Fail`, `status` and `stream`, as
// CudaAccelerator.
template <class Accelerator>
class NcclSum : public StreamSum {
 public:
  static absl::StatusOr<std::unique_ptr<StreamSum>> Join(
      Accelerator* accelerator, const absl::StatusOr<Nccl>& nccl,
      const ReplicaGroup& group) {
    absl::Status own = accelerator->status();
    if (own.ok()) own = nccl.status();
    std::shared_ptr<void> shared;
    if (own.ok() && group.rank == 0) {
      auto made = std::make_shared<Shared>(*nccl, group.meeting->size());
      own = made->Check(nccl->make_id(&made->id));
      shared = std::move(made);
    }
    absl::Status met = group.meeting->Meet(own, &shared);
    if (!met.ok()) return met;
    auto common = std::static_pointer_cast<Shared>(shared);
    met = group.meeting->Meet(common->SetName(accelerator->name()));
    if (!met.ok()) return met;
    Nccl::End end = nullptr;
    accelerator->Use();
    own =
        common->Check(nccl->join(&end, static_cast<int>(group.meeting->size()),
                                 common->id, static_cast<int>(group.rank)));
    if (own.ok()) common->Set(group.rank, end);
    std::unique_ptr<StreamSum> sum(
        new NcclSum(accelerator, group.rank, std::move(common)));
    met = group.meeting->Meet(own);
    if (!met.ok()) return met;
    return sum;
  }

  ~NcclSum() override { shared_->End(rank_); }

  void Add(size_t stream, absl::Span<const SumPart> parts) override {
    if (!accelerator_.Use()) return;
    const Nccl::End end = shared_->Take(rank_);
    if (end == nullptr) return;  // It was aborted.
    const Nccl& nccl = shared_->nccl;
    Nccl::Result result = nccl.begin();
    for (const SumPart& part : parts) {
      if (result != 0) break;
      result = nccl.sum(part.values, part.values, part.count, Nccl::kFloat32,
                        Nccl::kSum, end, accelerator_.stream(stream));
    }
    const Nccl::Result ended = nccl.end();
    const absl::Status status = shared_->Check(result == 0 ? ended : result);
    if (shared_->GiveBack(rank_) && !status.ok()) {
      accelerator_.Fail(absl::UnavailableError(
          absl::StrCat(accelerator_.name(), " is lost: ", status.message())));
    }
  }

  void Abort(const absl::Status& why) override { shared_->Abort(why); }

  absl::Status status() const override { return shared_->WhyAborted(); }

 private:
  // How long a call is waited for that has the end which is to be freed.
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  struct Member {
    Nccl::End end = nullptr;
    bool in_use = false;
  };

  // What all members see.
  struct Shared {
    Shared(const Nccl& functions, size_t size)
        : nccl(functions), members(size) {}

    absl::Status Check(Nccl::Result result) const {
      if (result == 0) return absl::OkStatus();
      return absl::FailedPreconditionError(
          absl::StrCat("NCCL says: ", nccl.words(result)));
    }
    // FAILED_PRECONDITION if another replica has this GPU.
    absl::Status SetName(const std::string& name) {
      const MutexLock lock(&mutex);
      if (names.insert(name).second) return absl::OkStatus();
      return absl::FailedPreconditionError(absl::StrCat(
          "several replicas have ", name, "; NCCL needs a GPU for each"));
    }
    void Set(size_t rank, Nccl::End end) {
      const MutexLock lock(&mutex);
      members[rank].end = end;
    }
    // For a call of NCCL; null once it was aborted.
    Nccl::End Take(size_t rank) {
      const MutexLock lock(&mutex);
      if (is_aborted) return nullptr;
      members[rank].in_use = true;
      return members[rank].end;
    }
    // False if it was aborted meanwhile.
    bool GiveBack(size_t rank) {
      const MutexLock lock(&mutex);
      members[rank].in_use = false;
      changed.NotifyAll();
      return !is_aborted;
    }
    // Frees a member's end. Unlike ncclCommDestroy, it waits for no other.
    void End(size_t rank) {
      const MutexLock lock(&mutex);
      EndLocked(&members[rank]);
    }
    absl::Status WhyAborted() {
      const MutexLock lock(&mutex);
      return why;
    }
    void Abort(const absl::Status& reason) {
      MutexLock lock(&mutex);
      why.Update(reason);
      is_aborted = true;
      for (Member& member : members) {
        if (!member.in_use) EndLocked(&member);
      }
      for (Member& member : members) {
        // Else it hangs, and only this gets it out of NCCL.
        while (member.in_use && changed.WaitFor(&mutex, kPatience)) {
        }
        EndLocked(&member);
      }
    }
    void EndLocked(Member* member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      if (member->end != nullptr) nccl.abort(member->end);
      member->end = nullptr;
    }

    const Nccl nccl;
    Nccl::Id id = {};
    Mutex mutex;
    CondVar changed;
    std::vector<Member> members ABSL_GUARDED_BY(mutex);
    std::set<std::string> names ABSL_GUARDED_BY(mutex);
    absl::Status why ABSL_GUARDED_BY(mutex);
    bool is_aborted ABSL_GUARDED_BY(mutex) = false;
  };

  NcclSum(Accelerator* accelerator, size_t rank, std::shared_ptr<Shared> shared)
      : accelerator_(*accelerator), rank_(rank), shared_(std::move(shared)) {}

  Accelerator& accelerator_;
  const size_t rank_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_NCCL_SUM_H_
