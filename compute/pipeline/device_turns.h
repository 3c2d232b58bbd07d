#ifndef PARAMD_COMPUTE_PIPELINE_DEVICE_TURNS_H_
#define PARAMD_COMPUTE_PIPELINE_DEVICE_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace paramd {

// What each device of a pipeline does next. There may be several works at the
// same time, each with a list of operations for every device; a device does
// what is next in the oldest one whose next operation is ready. It has neither
// threads nor a clock: DeviceThreads runs it, and the simulator.
//
// Not thread-safe.
class DeviceTurns {
 public:
  // Operations of each device, from 0 on. `ready` says whether the next one may
  // begin, which depends on operations that have ended alone; `run` does it.
  struct Work {
    std::vector<size_t> operations;
    absl::FunctionRef<bool(uint32_t device, size_t operation)> ready;
    absl::FunctionRef<absl::Status(uint32_t device, size_t operation)> run;
  };

  // A work that has begun. `work` outlives it.
  class Running {
   public:
    explicit Running(const Work& work);

    // Does what Next has given the device.
    absl::Status Run(uint32_t device) const {
      return work_.run(device, next_[device]);
    }
    // The first error of an operation.
    const absl::Status& status() const { return status_; }
    // Nothing of it is under way, and nothing more will be: all operations have
    // ended, or one has failed.
    bool IsOver() const;

   private:
    friend class DeviceTurns;

    const Work& work_;
    std::vector<size_t> next_;  // Of each device.
    size_t left_ = 0;           // Operations that have not ended,
    size_t begun_ = 0;          // and those of them that have begun.
    absl::Status status_;
  };

  // `running` has its turns from here on until End. REQUIRES: it outlives that.
  void Begin(Running* running) { running_.push_back(running); }
  void End(Running* running) { running_.remove(running); }

  // The work whose next operation the device does now; null: nothing is ready.
  // REQUIRES: the device does nothing.
  Running* Next(uint32_t device);
  // What Next gave has ended so. After an error no more of the work is begun.
  void Done(uint32_t device, const absl::Status& status, Running* running);

 private:
  std::list<Running*> running_;  // The oldest first.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_DEVICE_TURNS_H_
