#ifndef PARAMD_COORDINATOR_CORE_FINISHED_JOB_H_
#define PARAMD_COORDINATOR_CORE_FINISHED_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/paramd/v1/configuration.pb.h"
#include "tensor/core.h"

namespace paramd {

// Stands in for a core whose job has ended, in a process that lingers: answers
// every call with JOB_FINISHED, or as whoever stopped the job said. The
// coordinator's also tells every server of the end, now and then, for a server
// that was started again can't ask anybody.
//
// A coordinator whose job is not finished is of another run. It can't use this
// process, so this ends with UNAVAILABLE: whoever started it starts it again.
//
// Not thread-safe: a core. It keeps nothing of its caller's.
class FinishedJob : public Core {
 public:
  // `servers`: how many there are to be told; 0 unless it is the coordinator's.
  // `term`: the newest one that the process heard of. `finished`: how it ended.
  FinishedJob(uint32_t servers, uint64_t term, v1::Finished finished = {});

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult /*result*/, Time /*now*/, Outbox* /*out*/) override {}
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return next_tell_; }

 private:
  uint64_t term_;
  v1::Finished finished_;
  std::vector<bool> is_asked_;  // By server: a call is under way.
  Time next_tell_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_FINISHED_JOB_H_
