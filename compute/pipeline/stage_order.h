#ifndef PARAMD_COMPUTE_PIPELINE_STAGE_ORDER_H_
#define PARAMD_COMPUTE_PIPELINE_STAGE_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "compute/pipeline/schedule.h"

namespace paramd {

// For whoever computes stages by itself, as a program with a model of its own
// does: a schedule by its name, and as a list for one thread.

// The schedule that pipeline.schedule calls so, "1f1b" for instance.
// INVALID_ARGUMENT, a sentence with the names or numbers, if there is none of
// this name or it has no flush, if a number is 0, if there are too many passes
// for a list, or if `stages_per_device` is not 1, or, of "interleaved", not at
// least 2 and a divisor of `stages`.
absl::StatusOr<PipelineSchedule> ScheduleByName(absl::string_view name,
                                                uint32_t stages,
                                                uint32_t stages_per_device,
                                                uint32_t micro_batches);

// All forward and backward passes of a schedule in one order: each comes after
// what it needs, and those of one device in the device's order. What devices
// may compute at the same time stands together, so that a thread which only
// starts work on devices keeps all of them busy. REQUIRES: CheckSchedule finds
// the schedule sound.
std::vector<PipelineOp> InOneOrder(const PipelineSchedule& schedule);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_STAGE_ORDER_H_
