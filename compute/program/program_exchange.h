#ifndef PARAMD_COMPUTE_PROGRAM_PROGRAM_EXCHANGE_H_
#define PARAMD_COMPUTE_PROGRAM_PROGRAM_EXCHANGE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "base/mutex.h"
#include "compute/model/metrics.h"
#include "compute/model/trained_model.h"
#include "input/batch.h"

namespace paramd {

// What the program is to compute. Weights, gradients and indices are the
// worker's memory: good until the work is finished, and no longer.
struct ProgramWork {
  // kFindRows, kFindTestRows: which rows of sparse variables a step or an
  // evaluation on these examples reads.
  enum class Kind { kStep, kEvaluate, kFindRows, kFindTestRows };
  Kind kind = Kind::kStep;
  // Which examples of which epoch's order; the epoch counts from 1.
  Portion range;
  // The same by their numbers in the program's data.
  absl::Span<const int64_t> indices;
  WeightSpans weights;
  // Of each sparse variable in order, which rows the weights are.
  RowNumbers rows;
  // Of kFindRows and kFindTestRows: where these go, for each sparse variable in
  // order.
  absl::Span<std::vector<uint64_t>> found;
  // Of kStep: gradients of the sum of the examples' losses / divisor go there.
  GradientSpans gradients;
  double divisor = 1;
  // Of kStep: hears of a variable whose gradient is final before the step ends.
  const TrainedModel::Ready* ready = nullptr;
  // Of kStep: takes a gradient that lies elsewhere; null: they are written.
  const TrainedModel::Take* take = nullptr;
};

// Hands computations of a worker's threads over to the program that the worker
// is in, one at a time:
//
//   a worker's thread     Do(work) ─────────────────────────► its result
//                            │                                   ▲
//   the program's thread     └─► Next() ──► computes ──► Finish(result)
//
// Invariant: what the program holds stays as it is until the program finishes
// it, whatever the worker wants meanwhile. After Close nothing is handed out.
//
// Thread-safe: Do on any thread; Next and Finish on one thread of the program.
// Outlives whoever calls.
class ProgramExchange {
 public:
  // Waits until the program has computed it, and returns what Finish was given;
  // CANCELLED if it is closed before the program has taken it.
  absl::StatusOr<Metrics> Do(const ProgramWork& work)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The next work; null once it is closed. DEADLINE_EXCEEDED if none comes in
  // this time. REQUIRES: the last one is finished.
  absl::StatusOr<const ProgramWork*> Next(absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The work that the program holds; null if it holds none.
  const ProgramWork* held() const ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: held() != nullptr.
  void Finish(absl::StatusOr<Metrics> result) ABSL_LOCKS_EXCLUDED(mutex_);

  // A batch with these examples will likely be asked for soon.
  void Announce(absl::Span<const int64_t> indices) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next batch that was announced, for a program that reads ahead; empty:
  // none. One that nobody takes among the last kMostAnnounced is forgotten.
  std::vector<int64_t> TakeAnnounced() ABSL_LOCKS_EXCLUDED(mutex_);

  // What all workers were trained on; none before the job has ended.
  void SetTraining(std::vector<v1::EpochTraining> epochs)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::EpochTraining> training() const ABSL_LOCKS_EXCLUDED(mutex_);

  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kMostAnnounced = 64;

  struct Entry {
    const ProgramWork* work;
    absl::optional<absl::StatusOr<Metrics>> result;
  };

  mutable Mutex mutex_;
  CondVar changed_;
  // In the order of Do; the entries lie with those who wait in it.
  std::vector<Entry*> waiting_ ABSL_GUARDED_BY(mutex_);
  Entry* held_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::deque<std::vector<int64_t>> announced_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::EpochTraining> training_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PROGRAM_PROGRAM_EXCHANGE_H_
