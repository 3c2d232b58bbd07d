#ifndef PARAMD_WORKER_STEP_THREADS_H_
#define PARAMD_WORKER_STEP_THREADS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "base/worker_thread.h"
#include "compute/model/trained_model.h"
#include "input/batch.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "worker/gradient_step.h"
#include "worker/step_figures.h"

namespace paramd {

// Steps of a pipeline without a flush: several are computed at the same time,
// of one batch each, by clones of the model that share its devices.
//
// Start is called on one thread. Steps end in any order.
class StepThreads {
 public:
  // `model` has clones for concurrent steps; `count` at least 1.
  StepThreads(const v1::JobConfig& job, const TrainedModel& model,
              size_t count);

  // What a step is computed of; it stays until `done` is called.
  struct Step {
    const v1::ComputeGradient* request = nullptr;
    const StepWeights* weights = nullptr;
    const Batch* batch = nullptr;
    const std::atomic<bool>* abandoned = nullptr;
    GradientSpans gradients;
  };
  // Computes the step, and calls `done` on the thread that did. The errors are
  // those of GradientStep::Compute. REQUIRES: fewer than `count` steps, of
  // those that were started before, have not ended.
  void Start(const Step& step,
             std::function<void(absl::StatusOr<StepFigures>)> done);

 private:
  struct Lane {
    std::unique_ptr<TrainedModel> model;
    std::unique_ptr<GradientStep> step;
    std::unique_ptr<WorkerThread> thread;  // Ends first.
  };

  std::vector<Lane> lanes_;  // By turns.
  size_t next_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STEP_THREADS_H_
