#ifndef PARAMD_PROCESS_MULTI_WORKER_H_
#define PARAMD_PROCESS_MULTI_WORKER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "base/time.h"
#include "config/cluster_spec.h"
#include "net/blocking_call.h"
#include "net/hello.h"
#include "net/process_calls.h"
#include "net/runtime.h"
#include "process/content_exchange.h"
#include "process/process.h"
#include "worker/collective/ring_collective.h"
#include "worker/collective/round_exchange.h"
#include "worker/rendezvous/rendezvous.h"

namespace paramd {

// This process as one worker of strategy "multi_worker_mirrored": a whole job
// of its own, whose gradient is the sum of all workers'. The chief's run is the
// one that people see; the others keep theirs, for as long as they live, in
//
//   <run_dir>/workers/<k>-<incarnation>, or without run_dir a temporary one
//
// so that one that is started twice harms none.
//
// A thread tells the chief's Rendezvous where this worker is (Beat); the chief
// is worker 0, and has it in this object.
//
// Thread safety: of one thread, but Answer, on the loop thread, and what
// membership() has. Outlives the process and the runtime.
class MultiWorker {
 public:
  static bool IsMeant(const v1::JobConfig& job, const ClusterSpec& cluster) {
    return job.strategy() == v1::JobConfig::MULTI_WORKER_MIRRORED &&
           !cluster.standalone && cluster.worker_index() >= 0;
  }

  // Makes the job that of this worker, with a directory of its own. An error
  // names the directory.
  static absl::StatusOr<std::unique_ptr<MultiWorker>> Create(
      const ClusterSpec& cluster, Identity self, LoadedJob* job);
  ~MultiWorker();

  Membership membership();
  // What others call of this process.
  ProcessCalls calls() {
    return [this](const auto& request) { return Answer(request); };
  }
  // The same of the chief when the job is finished and it lingers.
  static absl::StatusOr<ProcessAnswer> AnswerFinished(
      const google::protobuf::Message& request);

  // Both outlive Run. The process has bound its port: whoever was this worker
  // on this machine before has ended, and what it left is deleted.
  void SetParts(Process* process, Runtime* runtime);
  // The process's Run.
  absl::Status Run();

 private:
  // `runs`: where the chief's run may be.
  MultiWorker(const ClusterSpec& cluster, Identity self, const LoadedJob& job,
              std::set<std::string> runs);

  bool is_chief() const { return index_ == 0; }
  std::string NameOf(uint32_t worker) const;
  absl::StatusOr<ProcessAnswer> Answer(
      const google::protobuf::Message& request);
  absl::StatusOr<v1::BeatReply> TakeBeat(const v1::BeatRequest& beat)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckSame(const v1::BeatRequest& beat) const;
  absl::Status BringContent();
  // The chief's run, as far as it is seen from here.
  bool IsFinished() const;
  bool HasResult() const;
  // Returns when whoever is there knows it, or `everybody`, at the latest some
  // seconds later.
  void TellTheEnd(bool everybody) ABSL_LOCKS_EXCLUDED(mutex_);
  void KeepBeating();
  void Hear(const v1::BeatReply& reply);
  absl::StatusOr<v1::BeatReply> Beat(bool introduce);
  // The chief did not answer.
  void Unanswered(const absl::Status& why);
  void LogMissing();
  std::string MissingText(const v1::BeatReply::Missing& missing) const;
  void FillStatus(v1::StatusReply* status) ABSL_LOCKS_EXCLUDED(mutex_);
  // The job's members are the workers, not the parts of this process.
  void FillMembers(v1::JobStats* job) ABSL_LOCKS_EXCLUDED(mutex_);

  const LoadedJob job_;
  const std::set<std::string> runs_;
  const std::vector<std::string> workers_;  // Their addresses.
  const uint32_t index_;
  const Identity self_;
  RingCollectives collectives_;
  RoundLink link_;
  RoundExchange exchange_;
  ContentSource source_;
  Process* process_ = nullptr;
  Runtime* runtime_ = nullptr;

  Mutex mutex_;
  // Of the chief.
  Rendezvous rendezvous_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> known_ ABSL_GUARDED_BY(mutex_);  // Incarnations.

  // Of the beating thread.
  std::unique_ptr<BlockingCaller> chief_;  // Null in the chief.
  Time unanswered_since_ = Time::Never();
  Time next_look_;  // At whether it has finished.
  std::string last_missing_;
  std::atomic<bool> stopping_{false};
  std::thread beating_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_MULTI_WORKER_H_
