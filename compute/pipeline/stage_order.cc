#include "compute/pipeline/stage_order.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {
namespace {

// Sixteen megabytes of passes, as programs get them.
constexpr uint64_t kMostPasses = uint64_t{1} << 20;

absl::Status CheckSizes(absl::string_view name, uint32_t stages,
                        uint32_t stages_per_device, uint32_t micro_batches) {
  if (stages == 0 || micro_batches == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a schedule has 1 stage and 1 micro-batch at least; found ", stages,
        " and ", micro_batches));
  }
  const uint64_t passes = uint64_t{2} * stages * micro_batches;
  if (passes > kMostPasses) {
    return absl::InvalidArgumentError(absl::StrCat(
        stages, " stages and ", micro_batches, " micro-batches are ", passes,
        " passes; a schedule has at most ", kMostPasses));
  }
  if (name != "interleaved") {
    if (stages_per_device == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "stages_per_device is ", stages_per_device,
        "; only the schedule 'interleaved' has another number than 1"));
  }
  if (stages_per_device >= 2 && stages % stages_per_device == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "stages_per_device is ", stages_per_device,
      "; of the schedule 'interleaved' it is at least 2 and divides the ",
      stages, " stages"));
}

}  // namespace

absl::StatusOr<PipelineSchedule> ScheduleByName(absl::string_view name,
                                                uint32_t stages,
                                                uint32_t stages_per_device,
                                                uint32_t micro_batches) {
  const absl::Status sizes =
      CheckSizes(name, stages, stages_per_device, micro_batches);
  if (!sizes.ok()) return sizes;
  if (name == "naive") return NaiveSchedule(stages, micro_batches);
  if (name == "gpipe") return GpipeSchedule(stages, micro_batches);
  if (name == "1f1b") return OneForwardOneBackward(stages, micro_batches);
  if (name == "zero_bubble") return ZeroBubbleSchedule(stages, micro_batches);
  if (name == "interleaved") {
    return InterleavedSchedule(stages / stages_per_device, stages_per_device,
                               micro_batches);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no schedule '", name,
                   "' with a flush; there are 1f1b, gpipe, interleaved, naive, "
                   "zero_bubble"));
}

std::vector<PipelineOp> InOneOrder(const PipelineSchedule& schedule) {
  using Kind = PipelineOp::Kind;
  std::vector<PipelineOp> order;
  std::vector<size_t> next(schedule.devices.size(), 0);
  // Of each stage, how many micro-batches have passed it.
  std::vector<uint32_t> forward(schedule.stages, 0);
  std::vector<uint32_t> backward(schedule.stages, 0);
  const auto goes_back = [](const PipelineOp& op) {
    return op.kind == Kind::kBackward || op.kind == Kind::kBackwardInput;
  };
  const auto can_begin = [&](const PipelineOp& op) {
    if (op.kind == Kind::kForward) {
      return op.stage == 0 || op.micro_batch < forward[op.stage - 1];
    }
    return !goes_back(op) || op.stage + 1 == schedule.stages ||
           op.micro_batch < backward[op.stage + 1];
  };
  std::vector<PipelineOp> together;
  do {
    together.clear();
    for (size_t d = 0; d < next.size(); ++d) {
      const std::vector<PipelineOp>& ops = schedule.devices[d];
      // Updates, and what is sent and received, are no passes.
      while (next[d] < ops.size() && ops[next[d]].kind >= Kind::kUpdate) {
        ++next[d];
      }
      if (next[d] == ops.size() || !can_begin(ops[next[d]])) continue;
      together.push_back(ops[next[d]++]);
    }
    for (const PipelineOp& op : together) {
      if (op.kind == Kind::kForward) ++forward[op.stage];
      if (goes_back(op)) ++backward[op.stage];
      order.push_back(op);
    }
  } while (!together.empty());
  for (size_t d = 0; d < next.size(); ++d) {
    CHECK(next[d] == schedule.devices[d].size(), "a sound schedule ends");
  }
  return order;
}

}  // namespace paramd
