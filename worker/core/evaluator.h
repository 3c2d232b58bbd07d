#ifndef PARAMD_WORKER_CORE_EVALUATOR_H_
#define PARAMD_WORKER_CORE_EVALUATOR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/storage.pb.h"
#include "tensor/core.h"

namespace paramd {

// A task of type evaluator: looks for a new checkpoint now and then, has it
// evaluated, and ends behind the job's last one, or when it is told to. Calls
// nobody and nobody calls it.
//
// Invariant: one evaluation is under way at a time. It asks the process for one
// kind of work: EvaluateNewest.
//
// Not thread-safe: see Core.
class Evaluator : public Core {
 public:
  // Between the end of one look and the next.
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  // Ends with the error of a look; without one, if it was the last.
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return next_look_; }
  // Leaves when the evaluation that is under way has ended.
  void Drain(Time now, Outbox* out) override;

 private:
  void Look(Outbox* out);

  IoId next_io_ = 1;
  bool looking_ = false;
  bool draining_ = false;
  Time next_look_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_EVALUATOR_H_
