#ifndef PARAMD_WORKER_COLLECTIVE_GRADIENT_EXCHANGE_H_
#define PARAMD_WORKER_COLLECTIVE_GRADIENT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "compute/device/device_ring.h"
#include "compute/device/replica_meeting.h"
#include "compute/model/trained_model.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// Where the gradients of members that each keep a copy of the variables come
// together: each computes some shares of a step, and all get the sum.
//
// Thread-safety: of the computing thread, but Ready, which may be called on any
// while a step is begun, and Interrupt, on any at any time.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  // A step will begin: what was interrupted before is over. Not on the
  // computing thread.
  virtual void Expect() {}

  // The step of this range of the input begins. The shares that this member
  // computes, ascending. `gradients` outlive the step's End.
  virtual std::vector<uint32_t> Begin(const v1::ComputeGradient& step,
                                      GradientSpans gradients) = 0;

  // After Begin: by which the devices of members in other processes may sum
  // this step's gradients, if each has its share. Null: they may not.
  virtual std::shared_ptr<DeviceRing> ring() { return nullptr; }

  // What will be ready in this step are the sums of all members already.
  virtual void GradientsAreSums() {}

  // This member's gradient of the variable is final; its sum may be begun.
  virtual void Ready(size_t variable) = 0;

  // Waits for the sums of all variables, this member's figures with them: then
  // `gradients` and `figures` are those of all, and on an error anything.
  // CANCELLED after Interrupt of any member; UNAVAILABLE if the step is to be
  // computed again, from Begin on; other errors name the member. Once
  // it has returned, nobody reads or writes the gradients any more.
  virtual absl::Status End(std::vector<double>* figures) = 0;

  // After an End that was OK, where shares are more than fit one computation:
  // the shares of the next one, whose gradients are to be in the same place,
  // and whose figures end the step. Nullopt: there is none.
  virtual absl::optional<std::vector<uint32_t>> NextPass() {
    return absl::nullopt;
  }

  // Whoever waits, waits no more.
  virtual void Interrupt() = 0;

  // The same, since this member cannot compute its shares. On the computing
  // thread, within a step.
  virtual void Fail(const absl::Status& /*why*/) { Interrupt(); }
};

// What a worker is among members that sum their gradients.
struct Membership {
  GradientExchange* exchange = nullptr;  // Null: it is alone. Outlives it.
  // Of the job's replicas, those in this process; 0: all.
  uint32_t replicas = 0;
  // Its place among the members of this process, whose devices may sum; without
  // a meeting: there are none.
  ReplicaGroup group = {};
  bool evaluates = true;
  // Where they are in processes of their own, each may block; null: nothing is
  // to be done.
  // Before anything of the run is read: the run's content is brought.
  std::function<absl::Status()> before_start = nullptr;
  // All steps are made; of one that does not evaluate.
  std::function<absl::Status()> await_end = nullptr;
  // The run's result is written.
  std::function<void()> has_result = nullptr;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_GRADIENT_EXCHANGE_H_
