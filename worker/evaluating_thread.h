#ifndef PARAMD_WORKER_EVALUATING_THREAD_H_
#define PARAMD_WORKER_EVALUATING_THREAD_H_

#include <cstdint>
#include <memory>

#include "base/chrome_trace.h"
#include "base/worker_thread.h"
#include "compute/model/trained_model.h"
#include "input/pipeline.h"
#include "net/runtime.h"
#include "proto/paramd/v1/compute.pb.h"
#include "proto/paramd/v1/config.pb.h"
#include "worker/collective/gradient_exchange.h"
#include "worker/gradient_step.h"

namespace paramd {

// What says that two workers evaluate alike: the test set, wherever it lies,
// and its batches. 0: the program that brings the model evaluates in the chief
// alone, or nowhere.
uint64_t TestSetOf(const Pipeline& test, const TrainedModel& model,
                   const Membership& member, const v1::JobConfig& job);

// Evaluates weights on the test set of a worker, on a thread of its own, with a
// model of its own: the whole set, or the worker's part of it.
//
// Thread safety: created and AddTo on one thread, before the runtime runs; then
// it is the runtime's to call. Outlives the runtime's Run, as `member` and
// `trace` outlive it.
class EvaluatingThread {
 public:
  // `trace`: null, or told when it evaluates.
  EvaluatingThread(std::unique_ptr<Pipeline> test,
                   std::unique_ptr<TrainedModel> model,
                   const Membership& member, ChromeTrace* trace);

  // Of the whole test set.
  uint64_t test_batches() const;
  // Handles what a core asks for.
  void AddTo(Runtime* runtime);

 private:
  // Of the whole test set, or of a part.
  IoResult CollectEvaluationRows(const v1::CollectEvaluationRows& request);
  IoResult Evaluate(const v1::EvaluateWeights& request, BufferChain weights);
  IoResult EvaluatePart(const v1::EvaluateWeights& request,
                        const StepWeights& weights);
  IoResult Merge(const v1::MergeBatches& request) const;
  IoResult Evaluated(const Metrics& sum, uint32_t epoch, bool final) const;

  const std::unique_ptr<Pipeline> test_;
  const std::unique_ptr<TrainedModel> model_;
  const Membership& member_;
  ChromeTrace* const trace_;  // May be null.
  WorkerThread thread_;       // Last: ends before what it uses.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_EVALUATING_THREAD_H_
