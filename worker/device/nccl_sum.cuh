#ifndef PARAMD_WORKER_DEVICE_NCCL_SUM_CUH_
#define PARAMD_WORKER_DEVICE_NCCL_SUM_CUH_

#include <cuda_runtime.h>
#include <dlfcn.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "base/mutex.h"
#include "worker/device/accelerator.h"
#include "worker/device/replica_meeting.h"

namespace paramd {

// NCCL, found when it is first needed: a program that uses one GPU runs where
// it is not installed, and is built without its header. What is here is the
// same in each version 2.
struct Nccl {
  using Result = int;  // 0: success.
  struct Id {
    char internal[128];
  };
  using End = struct ncclComm*;
  static constexpr int kFloat32 = 7;
  static constexpr int kSum = 0;
#ifdef NCCL_VERSION_CODE
  static_assert(sizeof(Id) == sizeof(ncclUniqueId) && ncclSuccess == 0 &&
                    kFloat32 == ncclFloat32 && kSum == ncclSum,
                "NCCL is what it was");
#endif

  // FAILED_PRECONDITION if it is not there.
  static absl::StatusOr<Nccl> Load() {
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "NCCL can't be loaded (install libnccl2, or put its folder into "
          "LD_LIBRARY_PATH): ",
          dlerror()));
    }
    Nccl nccl;
    const bool found = Find(library, "ncclGetUniqueId", &nccl.make_id) &&
                       Find(library, "ncclCommInitRank", &nccl.join) &&
                       Find(library, "ncclCommAbort", &nccl.abort) &&
                       Find(library, "ncclGroupStart", &nccl.begin) &&
                       Find(library, "ncclAllReduce", &nccl.sum) &&
                       Find(library, "ncclGroupEnd", &nccl.end) &&
                       Find(library, "ncclGetErrorString", &nccl.words);
    if (found) return nccl;
    return absl::FailedPreconditionError(
        absl::StrCat("libnccl is not the one it should be: ", dlerror()));
  }

  Result (*make_id)(Id* id) = nullptr;
  Result (*join)(End* end, int size, Id id, int rank) = nullptr;
  Result (*abort)(End end) = nullptr;
  Result (*begin)() = nullptr;
  Result (*sum)(const void* from, void* to, size_t count, int type,
                int operation, End end, cudaStream_t stream) = nullptr;
  Result (*end)() = nullptr;
  const char* (*words)(Result result) = nullptr;

 private:
  template <class Function>
  static bool Find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    return *function != nullptr;
  }
};

// A GPU's end of a communicator of NCCL, whose kernels sum in the GPU's stream.
// NCCL's order of additions follows from the GPUs, how they are linked and the
// lengths: the same bits for each of them, and on each run on the same machine.
// `Accelerator` has `Use`, `Fail`, `status` and `stream`, as CudaAccelerator.
template <class Accelerator>
class NcclSum : public StreamSum {
 public:
  static absl::StatusOr<std::unique_ptr<StreamSum>> Join(
      Accelerator* accelerator, const ReplicaGroup& group) {
    const auto nccl = Nccl::Load();
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
    own = common->Check(
        nccl->join(&end, static_cast<int>(group.meeting->size()), common->id,
                   static_cast<int>(group.rank)));
    if (own.ok()) common->Set(group.rank, end);
    std::unique_ptr<StreamSum> sum(
        new NcclSum(accelerator, group.rank, end, std::move(common)));
    met = group.meeting->Meet(own);
    if (!met.ok()) return met;
    return sum;
  }

  ~NcclSum() override { shared_->End(rank_); }

  void Add(size_t stream, absl::Span<const SumPart> parts) override {
    if (shared_->is_aborted || !accelerator_.Use()) return;
    const Nccl& nccl = shared_->nccl;
    Nccl::Result result = nccl.begin();
    for (const SumPart& part : parts) {
      if (result != 0) break;
      result = nccl.sum(part.values, part.values, part.count, Nccl::kFloat32,
                        Nccl::kSum, end_, accelerator_.stream(stream));
    }
    const Nccl::Result ended = nccl.end();
    const absl::Status status = shared_->Check(result == 0 ? ended : result);
    if (!status.ok() && !shared_->is_aborted) {
      accelerator_.Fail(absl::UnavailableError(absl::StrCat(
          accelerator_.name(), " is lost: ", status.message())));
    }
  }

  void Abort(const absl::Status& why) override { shared_->Abort(why); }

  absl::Status status() const override { return shared_->WhyAborted(); }

 private:
  // What all members see.
  struct Shared {
    Shared(const Nccl& functions, size_t size) : nccl(functions), ends(size) {}

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
      ends[rank] = end;
    }
    // Frees a member's end. Unlike ncclCommDestroy, it waits for no other.
    void End(size_t rank) {
      const MutexLock lock(&mutex);
      EndLocked(rank);
    }
    absl::Status WhyAborted() {
      if (!is_aborted) return absl::OkStatus();
      const MutexLock lock(&mutex);
      return why;
    }
    void Abort(const absl::Status& reason) {
      const MutexLock lock(&mutex);
      why.Update(reason);
      is_aborted = true;
      for (size_t rank = 0; rank < ends.size(); ++rank) EndLocked(rank);
    }
    void EndLocked(size_t rank) {
      if (ends[rank] != nullptr) nccl.abort(ends[rank]);
      ends[rank] = nullptr;
    }

    const Nccl nccl;
    Nccl::Id id = {};
    Mutex mutex;
    std::vector<Nccl::End> ends;
    std::set<std::string> names;
    absl::Status why;
    std::atomic<bool> is_aborted{false};
  };

  NcclSum(Accelerator* accelerator, size_t rank, Nccl::End end,
          std::shared_ptr<Shared> shared)
      : accelerator_(*accelerator),
        rank_(rank),
        end_(end),
        shared_(std::move(shared)) {}

  Accelerator& accelerator_;
  const size_t rank_;
  const Nccl::End end_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_DEVICE_NCCL_SUM_CUH_
