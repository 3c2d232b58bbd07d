#ifndef PARAMD_WORKER_REPLICA_STEPS_H_
#define PARAMD_WORKER_REPLICA_STEPS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/worker_thread.h"
#include "compute/model/trained_model.h"
#include "input/batch.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "worker/gradient_step.h"

namespace paramd {

// The gradient of a step of several shares, each computed by a replica of the
// model on a thread of its own, all on the same weights.
//
// A job of N replicas divides each step into N shares of accumulate x
// batch_per_replica consecutive examples, as sync mode divides it among N
// workers. Shares are added in their order, whoever computes them, and whenever
// they are done: the sum has the bits of N workers with one replica.
//
// Where the replicas' devices can sum (GPUs, by NCCL), they add the shares of a
// step, in an order of their own, if there is one of one batch for each of
// them; the others are added here. So the bits are the same on each run on the
// same devices.
//
// Not thread-safe: of the computing thread, which computes the first share.
class ReplicaSteps {
 public:
  // Where the batches of a step come from: in the order of BatchesOf.
  struct Source {
    std::function<absl::StatusOr<std::unique_ptr<Batch>>(const Portion&)> take;
    std::function<void(std::unique_ptr<Batch>)> recycle;
    // The batch that is taken behind so many others, if it is made; else null.
    // On any thread. May be null.
    std::function<const Batch*(size_t ahead)> peek = nullptr;
  };

  // `model`, the first replica, outlives it; the others are clones. `replicas`
  // of the job's are here: at most so many shares are computed at a time.
  // `among`: of one replica, its place among others that are elsewhere in this
  // process and compute the same steps; without a meeting: there are none.
  ReplicaSteps(const v1::JobConfig& job, uint32_t replicas, TrainedModel* model,
               ReplicaGroup among = {});

  // What the share numbers `shares` of a step are, in order; those that are
  // empty, at the end of an epoch, are left out. Where the job has one replica
  // the whole is share 0.
  std::vector<Portion> RangesOf(const v1::ComputeGradient& request,
                                absl::Span<const uint32_t> shares) const;
  // The ranges whose batches Compute takes, in order.
  std::vector<Portion> BatchesOf(const v1::ComputeGradient& request,
                                 absl::Span<const uint32_t> shares) const;

  // From now on the replica here is among those of other processes, whose
  // devices may sum by this ring; null: by none. REQUIRES: it is one, among no
  // others of this process.
  void SetRing(std::shared_ptr<DeviceRing> ring);

  // Whether the devices of all replicas sum their shares of this step: then the
  // gradients are the whole step's, also among replicas that are elsewhere. All
  // of these ask, before the step.
  bool SumsOnDevices(const v1::ComputeGradient& request);

  // Whether the gradients of this step are as a device leaves them: nothing is
  // added to them here. REQUIRES, among replicas that are elsewhere: as
  // SumsOnDevices.
  bool DevicesFinish(const v1::ComputeGradient& request);

  // As GradientStep::Compute, of the shares alone. Without any the gradients
  // become -0, which changes no number that it is added to. `ready` may be
  // called on any thread, on one at a time for each variable.
  absl::StatusOr<Metrics> Compute(const v1::ComputeGradient& request,
                                  absl::Span<const uint32_t> shares,
                                  const StepWeights& weights,
                                  const Source& source,
                                  const std::atomic<bool>* abandoned,
                                  GradientSpans gradients,
                                  TrainedModel::Ready ready);

  // Of steps of one share, from now on: see TrainedModel::StepOptions; may be
  // null.
  void SetTake(const TrainedModel::Take* take) { take_ = take; }

  // Examples of those shares that do not count.
  uint64_t left_out() const { return left_out_; }

  // Of all replicas: the overflows, and the smallest scale. On any thread.
  LossScaling loss_scaling() const;

 private:
  // A replica and the share that it computes.
  struct Replica {
    std::unique_ptr<TrainedModel> clone;  // Null: the first one's.
    TrainedModel* model = nullptr;        // It, or the first one.
    std::unique_ptr<GradientStep> step;
    std::unique_ptr<WorkerThread> thread;  // Null: the computing one.
  };
  // One share of the present step.
  struct Share {
    Portion range;
    std::vector<std::unique_ptr<Batch>> batches;
    size_t taken = 0;  // Of the batches.
    // Behind the last: the first one of the next step.
    std::function<const Batch*()> next;
    std::vector<absl::Span<float>> gradients;
    // Its gradients are no use: devices add them to the first one's.
    bool contributes = false;
    std::vector<char> told;  // By variable: it was ready within the step.
    absl::Status status;
    Metrics metrics;
    uint64_t left_out = 0;
  };
  using Values = std::vector<std::vector<float>>;  // By variable.

  // Runs `work` for each of the first so many replicas, on its thread; returns
  // when all have ended.
  void OnReplicas(size_t count, absl::FunctionRef<void(size_t)> work);
  // Has the devices of all replicas sum from now on, if they can.
  void Join();
  size_t MembersThatSum() const;
  absl::StatusOr<Metrics> ComputeOne(const v1::ComputeGradient& request,
                                     const Portion& range,
                                     const StepWeights& weights,
                                     const Source& source,
                                     const std::atomic<bool>* abandoned,
                                     GradientSpans gradients,
                                     TrainedModel::Ready ready);
  // Shares of these ranges, whose gradients lie in memory of their own but the
  // first one's; if devices sum, in that of the first one.
  std::vector<Share> MakeShares(absl::Span<const Portion> ranges,
                                GradientSpans gradients, bool on_devices);
  absl::Status TakeBatches(const v1::ComputeGradient& request,
                           const Source& source, std::vector<Share>* shares);
  uint64_t CountExamples(absl::Span<const Share> shares) const;
  // OK, or the error of one that did not end because of another one's.
  static absl::Status WhyOneFailed(absl::Span<const Share> shares);
  // Each share on the thread of its replica; returns when all are done.
  void RunShares(const v1::ComputeGradient& request, const StepWeights& weights,
                 const std::atomic<bool>* abandoned, std::vector<Share>* shares,
                 TrainedModel::Ready ready);
  void RunShare(const v1::ComputeGradient& request, const StepWeights& weights,
                const std::atomic<bool>* abandoned, Replica* replica,
                Share* share, TrainedModel::Ready ready);

  const uint64_t share_;  // Examples.
  const uint32_t all_;    // Replicas of the job.
  const bool one_batch_;  // A share is one batch.
  // Of the first replica; without a meeting: nobody sums.
  ReplicaGroup group_;
  bool has_asked_ = false;
  bool joined_ = false;  // Devices sum.
  std::vector<Replica> replicas_;
  std::vector<Values> memory_;  // Of shares behind the first.
  uint64_t left_out_ = 0;
  const TrainedModel::Take* take_ = nullptr;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_REPLICA_STEPS_H_
