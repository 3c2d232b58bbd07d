#ifndef PARAMD_WORKER_CORE_TRAINING_FIGURES_H_
#define PARAMD_WORKER_CORE_TRAINING_FIGURES_H_

#include <cstdint>
#include <map>

#include "absl/time/time.h"

#include "base/time.h"
#include "proto/duration_count.h"
#include "proto/metric_values.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// How fast a worker trains and with what loss, for people. Rate and loss are of
// the gradients computed in the last second, or of the last one if they take
// longer; the rate is 0 as soon as none came for clearly longer than they take.
// Sums are of the session's acknowledged pushes, so that what was told twice or
// not at all is in no mean twice or not at all.
//
// Not thread-safe: lives inside a worker's core.
class TrainingFigures {
 public:
  // Older epochs are forgotten.
  static constexpr size_t kMostEpochs = 1000;

  // The worker is there from now on. Rate and loss stay: they are the
  // process's.
  void BeginSession(Time now);
  // A gradient is there; `loss` is the sum over its examples.
  void Computed(uint64_t examples, double loss, Time now);
  // A push is in that has it, of this epoch, in sync mode to this step (else
  // 0).
  void Acknowledged(uint64_t step, uint32_t epoch, uint64_t examples,
                    double loss, const MetricSums& metrics);

  void Tick(Time now);
  // When the rate would become 0.
  Time next_tick() const;

  // Of the fields that are about training. With epochs: those that Told has not
  // heard of as they are.
  void Fill(v1::WorkerStats* stats) const;
  // How long steps took.
  void FillSteps(v1::Durations* steps) const { steps_.Fill(steps); }
  // The coordinator has these figures.
  void Told(const v1::WorkerStats& stats);
  // Another one has none of them.
  void TellAnew() { told_examples_.clear(); }

 private:
  // Without a gradient for so long, nothing is being trained.
  absl::Duration patience() const;

  Time since_;  // What is counted now.
  uint64_t examples_ = 0;
  double loss_ = 0;
  Time last_;           // When a gradient came,
  absl::Duration gap_;  // and how long after the one before.
  bool stalled_ = true;
  DurationCount steps_;

  double rate_ = 0;
  double mean_loss_ = 0;
  uint64_t acknowledged_step_ = 0;
  uint64_t acknowledged_examples_ = 0;
  double acknowledged_loss_ = 0;
  MetricSums acknowledged_metrics_;
  std::map<uint32_t, v1::EpochSums> epochs_;  // Bound: kMostEpochs.
  // By epoch, of how many examples the coordinator knows.
  std::map<uint32_t, uint64_t> told_examples_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_TRAINING_FIGURES_H_
