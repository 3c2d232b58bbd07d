#include "process/device_arrays.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "compute/device/device_link.h"
#include "config/optimizer_groups.h"
#include "config/optimizer_slots.h"
#include "config/strategy.h"
#include "config/wire_format.h"
#include "tensor/number_format.h"
#include "tensor/shape.h"
#include "worker/evaluation.h"

namespace paramd {
namespace {

// Of each buffer a page may be used in part.
constexpr uint64_t kPageBytes = 4096;
// Beside what layers keep: what they compute with, gradients of it, a batch
// that is brought ahead.
constexpr uint64_t kTimesActivations = 3;

uint64_t ValuesOf(const v1::Variable& variable) {
  uint64_t elements = 1;
  for (const uint64_t dimension : variable.shape()) elements *= dimension;
  return elements;
}

absl::StatusOr<std::shared_ptr<LoopDevice>> MakeFor(
    const v1::JobConfig& job, const MakeLoopDevice& make,
    const TrainedModel& model, const std::string& accelerator) {
  ASSIGN_OR_RETURN(LoopMemory memory, PlanDeviceArrays(job, model.variables()));
  // A step; an evaluation, with weights of its own; blocks that a snapshot
  // keeps.
  const ModelCost cost = model.cost();
  memory.beside_bytes = kTimesActivations *
                            (job.batch_per_replica() + EvaluationBatch(cost)) *
                            cost.activation_bytes +
                        memory.weight_bytes + memory.block_bytes;
  return make(accelerator, memory);
}

}  // namespace

absl::StatusOr<LoopMemory> PlanDeviceArrays(
    const v1::JobConfig& job, absl::Span<const v1::Variable> variables) {
  if (job.strategy() != v1::JobConfig::ONE_DEVICE &&
      job.strategy() != v1::JobConfig::MIRRORED) {
    return absl::FailedPreconditionError(absl::StrCat(
        "strategy \"", StrategyName(job.strategy()), "\" has them there"));
  }
  if (FormatOf(job.push_format()) != NumberFormat::kFp32 ||
      FormatOf(job.pull_format()) != NumberFormat::kFp32) {
    return absl::FailedPreconditionError(
        "push_format and pull_format must be fp32");
  }
  if (UsesLamb(job.optimizer())) {
    return absl::FailedPreconditionError(
        "optimizer lamb takes norms of weights and steps, which the processor "
        "adds up");
  }
  uint64_t values = 0;
  uint64_t slots = 0;
  uint64_t buffers = 0;
  for (const v1::Variable& variable : variables) {
    if (variable.sparse()) {
      return absl::FailedPreconditionError(
          absl::StrCat("variable '", variable.name(), "' is sparse"));
    }
    const uint64_t elements = ValuesOf(variable);
    values += elements * sizeof(float);
    slots +=
        elements * sizeof(float) * SlotsOf(job.optimizer(), variable).size();
    // Of blocks values and slots, twice while a snapshot is written; the others
    // are of whole variables.
    const uint64_t blocks = elements / kMaxBlockElements +
                            2 * elements * sizeof(float) / kSliceBytes + 2;
    buffers += 4 * blocks + 9;
  }
  LoopMemory memory;
  memory.weight_bytes = values;
  memory.block_bytes = values + slots;
  // Blocks, two copies of the weights, the gradients as layers write them and
  // as they are pushed.
  memory.lasting_bytes = memory.block_bytes + 2 * values + 2 * values;
  // Blocks twice; copies of a session that follows another; more gradients that
  // are on their way; a sum that is scaled.
  memory.most_bytes = 2 * (values + slots) + 4 * values + 4 * values + values +
                      buffers * kPageBytes;
  return memory;
}

std::shared_ptr<LoopDevice> PlaceDeviceArrays(const v1::JobConfig& job,
                                              const MakeLoopDevice& make,
                                              TrainedModel* model) {
  DeviceLink* const link = model->link();
  if (link == nullptr) return nullptr;
  auto made = MakeFor(job, make, *model, link->name());
  if (!made.ok()) {
    Log(LogLevel::kInfo,
        "weights and optimizer slots lie in host memory; weights and gradients "
        "cross to and from the GPU in each step",
        {{"device", link->name()}, {"why", made.status().message()}});
    return nullptr;
  }
  Log(LogLevel::kInfo,
      "weights, optimizer slots and gradients stay on the GPU, which applies "
      "gradients",
      {{"device", link->name()}});
  link->SetUnifiedMemory(*made);
  return *std::move(made);
}

}  // namespace paramd
