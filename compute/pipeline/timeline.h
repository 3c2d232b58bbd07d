#ifndef PARAMD_COMPUTE_PIPELINE_TIMELINE_H_
#define PARAMD_COMPUTE_PIPELINE_TIMELINE_H_

#include <vector>

#include "absl/types/span.h"

#include "compute/pipeline/schedule.h"

namespace paramd {

// What one micro-batch takes on a stage, in seconds.
struct StageTimes {
  double forward = 0;
  double backward_input = 0;
  double backward_weights = 0;
  // For the output to reach the next stage, and for its gradient to come back.
  double transfer = 0;
};

// When a pipeline does what, by its schedule and measured times.
struct Timeline {
  struct Span {
    PipelineOp op;
    double begin = 0;
    double end = 0;
  };

  // Of each device, in order; what is sent, received and updated takes no time
  // of a device.
  std::vector<std::vector<Span>> devices;
  double makespan = 0;  // From the first to the last.
  double busy = 0;      // Of all devices together.

  // The share of the devices' time in which they compute nothing.
  double bubble() const;
};

// Of passes that were measured, of each device in order, on a clock that begins
// anywhere: the first of them begins at 0.
Timeline TimelineOf(std::vector<std::vector<Timeline::Span>> devices);

// REQUIRES: CheckSchedule finds the schedule sound; one StageTimes for each
// stage. Without transfers in the schedule, transfers take no time.
Timeline RunOnClock(const PipelineSchedule& schedule,
                    absl::Span<const StageTimes> times);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_TIMELINE_H_
