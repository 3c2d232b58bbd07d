#ifndef PARAMD_WORKER_WORKER_PROCESS_H_
#define PARAMD_WORKER_WORKER_PROCESS_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "base/chrome_trace.h"
#include "base/worker_thread.h"
#include "compute/model/trained_model.h"
#include "input/pipeline.h"
#include "input/prefetcher.h"
#include "net/runtime.h"
#include "net/traced_core.h"
#include "proto/paramd/v1/compute.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "worker/collective/gradient_exchange.h"
#include "worker/core/worker.h"
#include "worker/evaluating_thread.h"
#include "worker/gradient_clip.h"
#include "worker/gradient_pool.h"
#include "worker/model_factory.h"
#include "worker/ready_gradients.h"
#include "worker/replica_steps.h"
#include "worker/step_figures.h"
#include "worker/step_threads.h"

namespace paramd {

// A worker as a process has it: its core, and the threads that fetch input,
// compute gradients and evaluate for it.
//
// Thread safety: Create and AddTo on one thread, before the runtime runs. Then
// each thread touches only what is its own: the computing thread model_, pool_,
// steps_, shares_, announced_, kept_ and takes from prefetcher_, and reads the
// weights that came with its work. The object outlives the runtime's Run.
class WorkerProcess {
 public:
  // Opens the data and builds the model of `options.job`. Their errors, each
  // naming the file or the layer.
  // `trace`, if it is not null, is told what the worker does and when; names in
  // it are valid until the process is destroyed, before which it is not.
  // `member`: it is one of several with a copy of the variables each.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Create(
      const Worker::Options& options,
      const ModelFactory& models = BuiltInModels(),
      ChromeTrace* trace = nullptr, const Membership& member = {});

  // What a job's data and model are.
  struct Checked {
    std::unique_ptr<Pipeline> training;
    std::unique_ptr<Pipeline> test;
    std::unique_ptr<TrainedModel> model;  // Which computes on no GPU.
  };
  // The errors that Create has for such a job. `stages_elsewhere`: so many of
  // the pipeline's devices are in other processes.
  static absl::StatusOr<Checked> Check(
      const v1::JobConfig& job, const ModelFactory& models = BuiltInModels(),
      uint32_t stages_elsewhere = 0);

  ~WorkerProcess();

  // What the coordinator has to know of the job.
  const std::vector<v1::Variable>& variables() const {
    return model_->variables();
  }
  // Null: what their initializers say.
  const std::vector<std::vector<float>>* initial_values() const {
    BroughtModel* const brought = model_->brought();
    return brought == nullptr ? nullptr : brought->initial_values();
  }
  // What the model computes on.
  std::string device() const { return model_->device(); }
  // An end of a ring of that device: as Accelerator::OpenRing. On the computing
  // thread.
  absl::StatusOr<std::unique_ptr<DeviceRing>> OpenRing();
  uint64_t examples() const { return training_->size(); }
  // The name of what makes a checkpoint better; empty: auto.
  const std::string& best_metric() const { return best_metric_; }
  const v1::DataSet& data() const { return options_.data; }
  // For CoordinatorOptions.
  uint64_t test_set() const { return options_.test_set; }
  uint64_t test_batches() const { return evaluator_.test_batches(); }

  // Adds the core and does its work. `around`: puts another core around it,
  // which is the one that is added; null: none.
  void AddTo(Runtime* runtime,
             const std::function<Core*(Core*)>& around = nullptr);

 private:
  // Opened by Create.
  struct Parts {
    std::unique_ptr<Pipeline> training;
    std::unique_ptr<Pipeline> test;
    std::unique_ptr<TrainedModel> model;
    std::unique_ptr<StepObserver> observer;  // Null without a trace.
    std::string best_metric;
  };
  WorkerProcess(const Worker::Options& options, Parts parts, ChromeTrace* trace,
                const Membership& member);

  Prefetcher::Options PrefetcherOptions() const;
  void HandleComputing(Runtime* runtime);
  // Of a step of portion or share, whose examples are to be taken now.
  absl::Status Begin(const v1::ComputeGradient& request);
  // Fetches the examples of a computation and keeps them for it.
  IoResult CollectRows(const v1::ComputeGradient& request);
  // Both drop the weights.
  IoResult Compute(const v1::ComputeGradient& request, BufferChain weights);
  // Begins a step that is computed beside others; drops the weights when it has
  // ended.
  void ComputeConcurrently(const v1::ComputeGradient& request,
                           BufferChain weights, Runtime::IoDone done);
  IoResult Pack(const v1::ComputeGradient& request,
                const absl::StatusOr<StepFigures>& computed,
                const GradientPool::Set& gradients) const;
  // Alone, or with the other members.
  absl::StatusOr<StepFigures> ComputeAlone(const v1::ComputeGradient& request,
                                           const StepWeights& weights,
                                           GradientPool::Set* gradients);
  absl::StatusOr<StepFigures> ComputeAmongMembers(
      const v1::ComputeGradient& request, const StepWeights& weights,
      const GradientPool::Set& gradients);
  // shares_, those of one pass, and the sums with all others'. `lost`: it
  // failed since another member was lost.
  absl::StatusOr<StepFigures> ComputeShares(const v1::ComputeGradient& request,
                                            const StepWeights& weights,
                                            const GradientPool::Set& gradients,
                                            bool* lost);
  // Of a request that is one gradient: clips it by the norm that it has as that
  // of the mean loss of its examples, also where it is divided by more.
  void Clip(const v1::ComputeGradient& request, uint64_t left_out,
            GradientSpans gradients) const;
  ReplicaSteps::Source Batches();
  // Says in a recording that a gradient is computed.
  void Record(size_t variable) const;
  // Sync mode: has the request's examples made, unless they are being made
  // already, and after them those of the next one.
  absl::Status Announce(const v1::ComputeGradient& request);
  // The kept one, if it is that. REQUIRES: it was announced, or is of a portion
  // that was fetched.
  absl::StatusOr<std::unique_ptr<Batch>> TakeBatch(const Portion& wanted);
  void FillInput(v1::InputStats* stats) const;
  void FillWait(v1::StatusReply* status) const;

  const Worker::Options options_;
  ChromeTrace* const trace_;  // May be null.
  const Membership member_;
  std::vector<uint32_t> shares_;  // Of each step, what is computed here.
  const std::unique_ptr<StepObserver> observer_;
  const std::string best_metric_;
  const std::unique_ptr<Pipeline> training_;
  const std::unique_ptr<TrainedModel> model_;
  const GradientClip clip_;
  GradientPool pool_;
  ReplicaSteps steps_;
  // Set by the loop, read by the computing thread; nothing else depends on it.
  std::atomic<bool> abandoned_{false};
  ReadyGradients ready_;
  Worker core_;
  TracedCore traced_;  // core_.
  Prefetcher prefetcher_;
  absl::optional<Portion> announced_;  // The last, for the next step.
  std::deque<std::unique_ptr<Batch>>
      kept_;  // Of the step whose rows are known.
  // Null: one step is computed at a time.
  std::unique_ptr<StepThreads> step_threads_;
  EvaluatingThread evaluator_;
  WorkerThread computing_;  // Last: ends before what it uses.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_WORKER_PROCESS_H_
