#ifndef PARAMD_WORKER_CORE_EVALUATOR_H_
#define PARAMD_WORKER_CORE_EVALUATOR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/storage.pb.h"
#include "tensor/core.h"

namespace paramd {

// A task of type evaluator: looks for a new checkpoint now and then, has it
// evaluated, and ends after the job's last one, or when it is told to. Calls
// nobody and nobody calls it. Until there is a checkpoint it says what it waits
// for, and where there is not even a run, only for `start_timeout`.
//
// Invariant: one evaluation is under way at a time. It asks the process for one
// kind of work: EvaluateNewest.
//
// Not thread-safe: see Core.
class Evaluator : public Core {
 public:
  // Between the end of one look and the next.
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  explicit Evaluator(absl::Duration start_timeout)
      : start_timeout_(start_timeout) {}

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  // Ends with the error of a look; without one, if it was the last. No errors
  // are UNAVAILABLE, no checkpoint is there, and NOT_FOUND, no run is there: it
  // looks again. Of the latter UNAVAILABLE becomes of it when the time is over.
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return next_look_; }
  std::string overdue(Time /*now*/) const override { return waiting_for_; }
  // Leaves when the evaluation that is under way has ended.
  void Drain(Time now, Outbox* out) override;

 private:
  void Look(Outbox* out);
  // A look that found nothing.
  void FoundNothing(const absl::Status& why, Time now, Outbox* out);

  const absl::Duration start_timeout_;
  Time since_;  // When a run was there last, or it began to look for one.
  std::string waiting_for_;
  IoId next_io_ = 1;
  bool looking_ = false;
  bool draining_ = false;
  Time next_look_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_EVALUATOR_H_
