#ifndef PARAMD_PROCESS_MIRRORS_H_
#define PARAMD_PROCESS_MIRRORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "net/runtime.h"
#include "process/process.h"
#include "worker/collective/mirror_exchange.h"

namespace paramd {

// The replicas of strategy "mirrored" in this process: each is a whole job of
// its own, with a runtime on a thread of its own, and computes its share of
// each step; the sum of all gradients is what each applies. The first one is
// the run that people see. The others begin with a copy of its directory, in
//
//   <run_dir>/replicas/<k>    configuration/ copied, checkpoints/ linked
//
// keep nothing else, and are deleted at the end.
//
// Thread safety: of one thread. The exchange outlives the first replica's
// process.
class Mirrors {
 public:
  // Of `job.replicas`, at least two. Makes the job that of the first. An error
  // names the device that one of them can't have.
  static absl::StatusOr<std::unique_ptr<Mirrors>> Create(LoadedJob* job);

  // Of the first replica.
  Membership first();

  // Makes the others; the errors of their parts. REQUIRES: `first`, of `role`,
  // has its run's directory and does not run; both outlive Run.
  absl::Status MakeOthers(const ProcessRole& role, const ModelFactory& models,
                          Process* first, Runtime* runtime,
                          const MakeLoopDevice& loops = MakeCudaLoops);

  // The first one's Run, with the others beside it. What made one of them fail
  // ends all, and is the result.
  absl::Status Run();

 private:
  struct Replica {
    std::unique_ptr<MirrorExchange> exchange;
    LoadedJob job;
    std::unique_ptr<Process> own_process;  // Null: the first's, as below.
    std::unique_ptr<Runtime> own_runtime;
    Process* process = nullptr;
    Runtime* runtime = nullptr;
  };

  Mirrors(const LoadedJob& job, std::vector<std::string> devices);
  // Of replica `k`.
  ReplicaGroup GroupOf(size_t k) const;
  // Gives replica `k` a directory like the first one's.
  absl::Status CopyRun(size_t k, LoadedJob* job) const;
  void RunOther(size_t k) ABSL_LOCKS_EXCLUDED(mutex_);
  // Replica `k` ends for a reason of its own.
  void Failed(size_t k, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  const LoadedJob job_;
  const std::vector<std::string> devices_;  // Of each replica.
  const std::shared_ptr<ReplicaMeeting> meeting_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // The first one.
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_MIRRORS_H_
