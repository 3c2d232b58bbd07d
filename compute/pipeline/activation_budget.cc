#include "compute/pipeline/activation_budget.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "compute/device/cpu_device.h"
#include "compute/model/recompute_plan.h"
#include "compute/model/swap_file.h"
#include "config/strategy.h"

namespace paramd {
namespace {

// A stage of a model: all of the layers, if it is not cut.
struct Part {
  size_t stage = 0;
  bool is_whole = true;
  std::vector<ChainLink> chain;
  ChainUse use;
  uint64_t examples = 0;
  uint64_t budget = 0;
};

absl::Status WhyNothingSuffices(const Part& part) {
  std::string largest;
  uint64_t alone = 0;
  for (const ChainLink& link : part.chain) {
    // No plan has less for it: its output, what else it keeps, two gradients.
    const uint64_t bytes =
        PlanOf({&link, 1}, {.border_bytes = link.output_bytes}, {}).bytes;
    if (bytes <= alone) continue;
    alone = bytes;
    largest = link.name;
  }
  const uint64_t least = SmallestPlan(part.chain, part.use).bytes;
  const uint64_t without = PlanOf(part.chain, part.use, {}).bytes;
  return absl::InvalidArgumentError(absl::StrCat(
      "memory.activation_budget_bytes ", part.is_whole ? "is " : "leaves ",
      part.budget,
      part.is_whole
          ? std::string()
          : absl::StrCat(" to stage ", part.stage, ", which keeps ",
                         part.use.live,
                         part.use.live == 1 ? " micro-batch" : " micro-batches",
                         " at once"),
      "; activations of ", part.examples, " examples need ", least,
      " at least, and ", without,
      " if no layer is computed again; the largest layer, '", largest,
      "', needs ", alone,
      alone > part.budget ? " alone, more than there is" : " alone",
      part.is_whole ? ": give a smaller batch_per_replica"
                    : ": give more pipeline.micro_batches or a smaller "
                      "batch_per_replica"));
}

ChosenRecompute ChosenFor(const Part& part, const RecomputePlan& plan) {
  ChosenRecompute chosen;
  for (const RecomputedLinks& links : plan.segments) {
    (links.is_swapped ? chosen.swapped : chosen.ranges)
        .emplace_back(part.chain[links.begin].name,
                      part.chain[links.end - 1].name);
  }
  chosen.swapped_bytes = plan.swapped_bytes;
  chosen.live = part.use.live;
  chosen.examples = part.examples;
  chosen.budget_bytes = part.budget;
  chosen.bytes = plan.bytes;
  chosen.bytes_without = PlanOf(part.chain, part.use, {}).bytes;
  for (const ChainLink& link : part.chain) chosen.flops += link.flops;
  chosen.flops_again = plan.flops_again;
  return chosen;
}

// Micro-batches that each stage keeps at once.
std::vector<uint32_t> LiveOf(const PipelinePlan& pipeline,
                             uint32_t micro_batches) {
  if (pipeline.schedule == nullptr) return {1};
  const auto needs = CheckSchedule(pipeline.schedule(micro_batches));
  CHECK(needs.ok(), "a schedule is sound");
  std::vector<uint32_t> live = needs->live;
  for (uint32_t& of_stage : live) of_stage *= pipeline.concurrent;
  return live;
}

// A layer of the new sequence begins where that one of the old began.
size_t MovedTo(size_t begin, absl::Span<const LayerRange> ranges) {
  size_t moved = begin;
  for (const LayerRange& range : ranges) {
    if (range.end <= begin) moved -= range.end - range.begin - 1;
  }
  return moved;
}

// Of a product of matrices on one core.
double FlopsPerSecond() {
  constexpr uint64_t kSide = 256;
  constexpr int kRounds = 5;
  const std::vector<float> a(kSide * kSide, 0.5f);
  std::vector<float> c(kSide * kSide);
  const ConstTensor factor = {a.data(), DType::kFloat32, {kSide, kSide}};
  const Tensor product = {c.data(), DType::kFloat32, {kSide, kSide}};
  CpuDevice device;
  double seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const Time begin = MonotonicNow();
    device.Multiply({.m = kSide, .n = kSide, .k = kSide}, factor, factor,
                    product);
    seconds = std::min(seconds, absl::ToDoubleSeconds(MonotonicNow() - begin));
  }
  return 2.0 * kSide * kSide * kSide / seconds;
}

// The stages of a model that have a part of the budget each.
std::vector<Part> PartsOf(const v1::JobConfig& job, DType dtype,
                          const Sequence& layers, const PipelinePlan& pipeline,
                          double swap_cost) {
  const uint64_t batch = std::max<uint64_t>(job.batch_per_replica(), 1);
  const auto batch_over = [batch](uint64_t n) { return (batch + n - 1) / n; };
  const uint64_t examples = batch_over(pipeline.micro_batches);
  const std::vector<uint32_t> live =
      LiveOf(pipeline, static_cast<uint32_t>(batch_over(examples)));
  const size_t stages = pipeline.begins.size();
  std::vector<Part> parts;
  for (size_t s = 0; s < stages; ++s) {
    const size_t begin = pipeline.begins[s];
    const size_t end = s + 1 < stages ? pipeline.begins[s + 1] : layers.size();
    // As PipelineStage::KeptBytes has it; the input is the batch's.
    const uint64_t border = layers.layer(end - 1).output_size() +
                            (s == 0 ? 0 : layers.layer(begin).input_size());
    parts.push_back({.stage = s,
                     .is_whole = stages == 1,
                     .chain = ChainOf(layers, begin, end, examples, dtype),
                     .use = {.live = live[s],
                             .border_bytes = examples * border * SizeOf(dtype),
                             .flops_per_swapped_byte =
                                 swap_cost / static_cast<double>(examples)},
                     .examples = examples,
                     .budget = job.memory().activation_budget_bytes() /
                               (stages / pipeline.devices)});
  }
  return parts;
}

absl::Status AsInvalid(const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

// What all replicas of a process write in a step.
absl::Status CheckRoom(const v1::JobConfig& job, uint64_t swapped_bytes) {
  SwapFile file(job.memory().swap_directory());
  return AsInvalid(file.Reserve(ReplicasOf(job) * swapped_bytes));
}

}  // namespace

PipelinePlan InOnePiece() {
  PipelinePlan plan;
  plan.begins = {0};
  return plan;
}

absl::StatusOr<double> MeasureSwapCost(const std::string& directory) {
  const auto seconds_per_byte = MeasureSwap(directory);
  if (!seconds_per_byte.ok()) return AsInvalid(seconds_per_byte.status());
  return *seconds_per_byte * FlopsPerSecond();
}

absl::Status FitActivations(const v1::JobConfig& job, DType dtype,
                            NetworkPlan* network, PipelinePlan* pipeline,
                            absl::optional<double> swap_cost) {
  if (job.memory().activation_budget_bytes() == 0) return absl::OkStatus();
  const std::string& directory = job.memory().swap_directory();
  if (directory.empty()) {
    swap_cost = 0;
  } else if (!swap_cost.has_value()) {
    ASSIGN_OR_RETURN(swap_cost, MeasureSwapCost(directory));
  }
  std::vector<LayerRange> ranges;
  uint64_t swapped_bytes = 0;
  for (const Part& part :
       PartsOf(job, dtype, *network->layers, *pipeline, *swap_cost)) {
    const auto plan = CheapestPlan(part.chain, part.use, part.budget);
    if (!plan.has_value()) return WhyNothingSuffices(part);
    network->chosen.push_back(ChosenFor(part, *plan));
    swapped_bytes += part.use.live * plan->swapped_bytes;
    for (const RecomputedLinks& links : plan->segments) {
      ranges.push_back({part.chain[links.begin].layer,
                        part.chain[links.end - 1].layer + 1, links.is_swapped});
    }
  }
  if (ranges.empty()) return absl::OkStatus();
  if (swapped_bytes > 0) {
    RETURN_IF_ERROR(CheckRoom(job, swapped_bytes));
    network->swap_directory = directory;
  }
  const uint64_t before = network->cost().activation_bytes;
  network->layers = WithRecompute(*network->layers, ranges);
  const uint64_t after = network->cost().activation_bytes;
  network->saved_bytes = before > after ? before - after : 0;
  for (size_t& begin : pipeline->begins) begin = MovedTo(begin, ranges);
  return absl::OkStatus();
}

}  // namespace paramd
